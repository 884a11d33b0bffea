// usage: grammar_bench MODEL     time of a mask over the vocabulary of a model (a GGUF file or a folder), and of
// compiling
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "api/load_tokenizer.h"
#include "grammar/grammar_compiler.h"

namespace vernier {
namespace {

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

Result<std::shared_ptr<const GrammarVocabulary>> read_vocabulary(const std::string& path) {
  TRY_BIND(Tokenizer tokenizer, load_tokenizer(path));
  GrammarVocabularyParts parts;
  for (size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    parts.token_bytes.push_back(tokenizer.token_bytes(static_cast<TokenId>(id)).value_or(""));
  }
  for (const AddedToken& token : tokenizer.added_tokens()) {
    if (auto id = tokenizer.find_token(token.text)) parts.end_ids.push_back(*id);
  }
  parts.logits = static_cast<int64_t>(parts.token_bytes.size());
  return GrammarVocabulary::make(std::move(parts));
}

/// Random answers, 200 tokens each at most; prints the quantiles of the masks and of taking a token.
Status measure(GrammarCompiler& compiler, const char* name, const GrammarSpec& spec) {
  auto start = std::chrono::steady_clock::now();
  TRY_BIND(std::shared_ptr<const CompiledGrammar> grammar, compiler.compile(spec));
  const double compile_us = microseconds_since(start);
  std::mt19937_64 random(1);
  std::vector<double> masks;
  std::vector<double> accepts;
  std::vector<uint32_t> bits(compiler.vocabulary().mask_words());
  for (int answer = 0; answer < 20; ++answer) {
    TRY_BIND(GrammarMatcher matcher, GrammarMatcher::make(grammar));
    for (int step = 0; step < 200 && !matcher.terminated(); ++step) {
      start = std::chrono::steady_clock::now();
      TRY_STATUS(matcher.fill_mask(bits));
      masks.push_back(microseconds_since(start));
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < compiler.vocabulary().logits(); ++id) {
        if ((bits[static_cast<size_t>(id / 32)] >> (id % 32) & 1U) != 0) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const int32_t token = allowed[random() % allowed.size()];
      start = std::chrono::steady_clock::now();
      matcher.accept(token);
      accepts.push_back(microseconds_since(start));
    }
  }
  std::ranges::sort(masks);
  std::ranges::sort(accepts);
  auto at = [](const std::vector<double>& sorted, double q) {
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
  };
  fmt::print(
      "{:12} compile {:8.1f} ms, {:6.2f} MB   mask median {:7.1f} us, 99 % {:7.1f} us, most {:7.1f} us   accept median "
      "{:6.1f} us, "
      "99 % {:6.1f} us   ({} tokens)\n",
      name, compile_us / 1000, static_cast<double>(grammar->bytes()) / 1e6, at(masks, 0.5), at(masks, 0.99),
      masks.back(), at(accepts, 0.5), at(accepts, 0.99), masks.size());
  return {};
}

/// An object of `count` required fields of five kinds.
std::string many_fields(int count) {
  const char* kinds[] = {R"({"type":"string"})", R"({"type":"string","maxLength":30})",
                         R"({"type":"integer","minimum":0,"maximum":99999})",
                         R"({"type":"array","items":{"enum":["red","green","blue"]}})",
                         R"({"anyOf":[{"type":"number"},{"type":"null"}]})"};
  std::string fields;
  std::string names;
  for (int i = 0; i < count; ++i) {
    fields += fmt::format(R"({}"field_{}":{})", i == 0 ? "" : ",", i, kinds[i % 5]);
    names += fmt::format(R"({}"field_{}")", i == 0 ? "" : ",", i);
  }
  return fmt::format(R"({{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}})", fields,
                     names);
}

Status run(const std::string& path) {
  TRY_BIND(std::shared_ptr<const GrammarVocabulary> vocabulary, read_vocabulary(path));
  GrammarCompiler compiler(vocabulary);
  fmt::print("{} tokens\n", vocabulary->logits());
  using Kind = GrammarSpec::Kind;
  TRY_STATUS(measure(compiler, "object", {.kind = Kind::kJsonObject}));
  TRY_STATUS(measure(compiler, "schema", {.kind = Kind::kJsonSchema, .text = R"({"type":"object","properties":{
      "name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string"}},
      "address":{"type":"object","properties":{"city":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["city"]}},
      "required":["name","age","tags"],"additionalProperties":false})"}));
  TRY_STATUS(measure(compiler, "extra keys",
                     {.kind = Kind::kJsonSchema, .text = R"({"type":"object","properties":{"name":{"type":"string"},
      "number":{"type":"number","minimum":0}},"additionalProperties":{"type":"integer"}})"}));
  TRY_STATUS(
      measure(compiler, "pattern", {.kind = Kind::kJsonSchema, .text = R"({"type":"string","pattern":"error"})"}));
  TRY_STATUS(measure(compiler, "40 chars",
                     {.kind = Kind::kJsonSchema, .text = R"({"type":"string","minLength":35,"maxLength":40})"}));
  TRY_STATUS(measure(compiler, "2000 chars",
                     {.kind = Kind::kJsonSchema, .text = R"({"type":"string","minLength":1000,"maxLength":2000})"}));
  TRY_STATUS(measure(compiler, "format",
                     {.kind = Kind::kJsonSchema,
                      .text = R"({"type":"array","minItems":20,"items":{"type":"string","format":"date-time"}})"}));
  TRY_STATUS(
      measure(compiler, "numbers",
              {.kind = Kind::kJsonSchema,
               .text = R"({"type":"array","minItems":20,"items":{"type":"number","minimum":-10,"maximum":1234.5}})"}));
  TRY_STATUS(measure(compiler, "200 fields", {.kind = Kind::kJsonSchema, .text = many_fields(200)}));
  return measure(compiler, "regex",
                 {.kind = Kind::kRegex, .text = "[a-z]+@[a-z]+\\.(com|org)( and [0-9]{3}-[0-9]{4})*"});
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: grammar_bench MODEL\n");
    return 2;
  }
  if (auto status = vernier::run(argv[1]); !status.ok()) {
    fmt::print(stderr, "grammar_bench: {}\n", status.error().to_string());
    return 1;
  }
  return 0;
}
