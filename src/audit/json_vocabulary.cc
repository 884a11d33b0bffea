#include "audit/json_vocabulary.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "audit/evaluate.h"
#include "checkpoint/byte_reader.h"
#include "text/split_rules.h"
#include "text/tokenizer.h"

namespace vernier {

namespace {

using Json = nlohmann::json;

/// What the views of a vocabulary point into.
struct OwnedTexts {
  std::vector<std::string> tokens, merges;
};

/// Digits in runs, contractions, marks, spaces, line ends, scripts with and without case, letters and marks apart.
constexpr std::string_view kProbe =
    "It's 3 or 42, 1234567890 I'LL don't  DON'T we've\n\n\n  x=1;\r\n\tif (a!=b){c+=d}//e\n \xC3\xA9t\xC3\xA9 "
    "e\xCC\x81 "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82"
    "\xE3\x81\x93\xE3\x82\x93 \xED\x95\x9C\xEA\xB5\xAD \xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D "
    "\xF0\x9F\x98\x80"
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 ...!?--- $%^ CamelCaseWORDs iPhone 12.5% \xC2\xBD \xD9\xA3\xD9\xA4 "
    "_a_b";
constexpr size_t kProbedText = 16384;

Error no_bytes(const std::string& path, const std::string& what) {
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("{}: a GGUF file is written with a BPE vocabulary of bytes alone; give --out a folder", what), path};
}

/// Ids to texts and kinds; ids that nothing has become unused ones.
Status read_tokens(const Json& tree, size_t rows, const std::string& path, OwnedTexts& texts, GgufVocabulary& made) {
  texts.tokens.resize(rows);
  made.token_types.assign(rows, GgufVocabulary::kUnused);
  auto put = [&](const Json& id, const std::string& text, int32_t type) -> Status {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= rows) {
      return corrupt("{}: token {} has the id {}, and the model has {} tokens", path, printable(text), id.dump(), rows);
    }
    texts.tokens[id.get<size_t>()] = text;
    made.token_types[id.get<size_t>()] = type;
    return {};
  };
  for (const auto& [text, id] : tree["model"]["vocab"].items()) {
    TRY_STATUS(put(id, text, GgufVocabulary::kNormal));
  }
  for (const Json& added : tree.value("added_tokens", Json::array())) {
    const bool special = added.value("special", false);
    TRY_STATUS(put(added.value("id", Json()), added.value("content", std::string()),
                   special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined));
  }
  for (size_t id = 0; id < rows; ++id) {
    if (made.token_types[id] == GgufVocabulary::kUnused) texts.tokens[id] = fmt::format("[PAD{}]", id);
  }
  made.tokens.assign(texts.tokens.begin(), texts.tokens.end());
  return {};
}

Status read_merges(const Json& model, const std::string& path, OwnedTexts& texts, GgufVocabulary& made) {
  for (const Json& merge : model.value("merges", Json::array())) {
    if (merge.is_string()) {
      texts.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      texts.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      return corrupt("{}: the merge {} is no pair of texts", path, printable(merge.dump()));
    }
  }
  made.merges.assign(texts.merges.begin(), texts.merges.end());
  return {};
}

/// A rule's steps, one a line, with what else belongs to it.
std::string signature(const SplitRuleText& rule) {
  std::string text = fmt::format("{} {}\n", rule.compose, rule.ignore_merges);
  for (const SplitStepText& step : rule.steps)
    text += fmt::format("{} {}\n", static_cast<int>(step.kind), step.pattern);
  return text;
}

/// The same of a tokenizer's own description, as far as it is made of such steps.
SplitRuleText described_rule(const Json& tree, const SplitRuleText& gpt2) {
  using Kind = SplitStepText::Kind;
  SplitRuleText rule;
  const Json none;
  auto member = [&](const Json& of, const char* key) -> const Json& {
    return of.is_object() && of.contains(key) ? of.at(key) : none;
  };
  rule.compose = member(member(tree, "normalizer"), "type") == "NFC";
  rule.ignore_merges = member(member(tree, "model"), "ignore_merges") == true;
  const Json& whole = member(tree, "pre_tokenizer");
  const bool is_list = member(whole, "type") == "Sequence" && member(whole, "pretokenizers").is_array();
  const size_t count = is_list ? whole.at("pretokenizers").size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const Json& step = is_list ? whole.at("pretokenizers").at(i) : whole;
    const Json& regex = member(member(step, "pattern"), "Regex");
    if (member(step, "type") == "Split" && regex.is_string()) {
      rule.steps.push_back({Kind::kPattern, regex.get_ref<const std::string&>()});
    } else if (member(step, "type") == "Digits") {
      rule.steps.push_back({member(step, "individual_digits") == true ? Kind::kEachDigit : Kind::kDigits, {}});
    } else if (member(step, "type") == "Punctuation") {
      rule.steps.push_back({Kind::kMarks, {}});
    } else if (member(step, "type") == "ByteLevel" && member(step, "use_regex") != false) {
      rule.steps.push_back(gpt2.steps.front());
    }
  }
  return rule;
}

/// Names of rules, those first that the tokenizer's description spells.
Result<std::vector<std::string_view>> rules_to_try(const Json& tree) {
  TRY_BIND(const SplitRuleText gpt2, split_rule_text("gpt-2"));
  const std::string described = signature(described_rule(tree, gpt2));
  std::vector<std::string_view> names = split_rule_names();
  std::ranges::stable_partition(names, [&](std::string_view name) {
    const Result<SplitRuleText> rule = split_rule_text(name);
    return rule.ok() && signature(*rule) == described;
  });
  return names;
}

/// Takes the first rule that cuts texts as the tokenizer does.
Status find_rule(const Tokenizer& tokenizer, const Json& tree, const std::string& path, GgufVocabulary& made) {
  const std::string text(built_in_text().substr(0, kProbedText));
  const EncodeOptions plain{.add_special = false, .parse_special = false};
  TRY_BIND(const std::vector<int32_t> probe, tokenizer.encode(kProbe, plain));
  TRY_BIND(const std::vector<int32_t> prose, tokenizer.encode(text, plain));
  TRY_BIND(const std::vector<std::string_view> names, rules_to_try(tree));
  for (std::string_view name : names) {
    made.pre = name;
    const Result<Tokenizer> tried = Tokenizer::from_gguf(made);
    if (!tried.ok()) continue;
    const auto of_probe = tried->encode(kProbe, plain);
    if (!of_probe.ok() || *of_probe != probe) continue;
    const auto of_prose = tried->encode(text, plain);
    if (of_prose.ok() && *of_prose == prose) return {};
  }
  return no_bytes(path, "no split rule that GGUF files name cuts texts as this tokenizer does");
}

/// What stands around a text, and which tokens end one.
Status read_ends(const Checkpoint& checkpoint, const Tokenizer& tokenizer, GgufVocabulary& made) {
  TRY_BIND(const std::vector<int32_t> empty, tokenizer.encode("", {.add_special = true}));
  TRY_BIND(const std::vector<int32_t> plain, tokenizer.encode("a", {.add_special = false}));
  TRY_BIND(const std::vector<int32_t> whole, tokenizer.encode("a", {.add_special = true}));
  const GenerationDefaults& generation = checkpoint.generation();
  if (generation.bos_id) made.bos = *generation.bos_id;
  const Json named = checkpoint.tokenizer().tokenizer_config.is_object()
                         ? checkpoint.tokenizer().tokenizer_config.value("eos_token", Json())
                         : Json();
  const Json text = named.is_object() ? named.value("content", Json()) : named;
  if (text.is_string()) {
    if (const auto id = tokenizer.find_token(text.get<std::string>())) made.eos = *id;
  }
  if (!made.eos && !generation.eos_ids.empty()) made.eos = generation.eos_ids.front();
  const bool before = whole.size() > plain.size() && whole.front() != plain.front();
  if (before) made.bos = whole.front();
  made.add_bos = before;
  made.add_eos = whole.size() > plain.size() && whole.back() != plain.back();
  if (*made.add_eos) made.eos = whole.back();
  return {};
}

}  // namespace

Result<GgufVocabulary> vocabulary_of_json(const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.tokenizer().tokenizer_json;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  TRY_BIND(const Tokenizer tokenizer, Tokenizer::from_json(bytes));  // which checks the file
  const Json tree = Json::parse(bytes, nullptr, false);
  const Json model = tree.is_object() ? tree.value("model", Json()) : Json();
  if (!model.is_object() || !model.value("vocab", Json()).is_object() || model.value("type", Json("BPE")) != "BPE" ||
      model.value("byte_fallback", false)) {
    return no_bytes(path, "the tokenizer is of another kind");
  }
  const StoredTensor* embedding = checkpoint.find("model.embed_tokens.weight");
  const size_t rows = embedding == nullptr || embedding->extents.empty() ? tokenizer.vocabulary_size()
                                                                         : static_cast<size_t>(embedding->extents[0]);
  auto texts = std::make_shared<OwnedTexts>();
  GgufVocabulary made;
  made.model = "gpt2";
  TRY_STATUS(read_tokens(tree, rows, path, *texts, made));
  TRY_STATUS(read_merges(model, path, *texts, made));
  made.keep = texts;
  TRY_STATUS(read_ends(checkpoint, tokenizer, made));
  TRY_STATUS(find_rule(tokenizer, tree, path, made));
  return made;
}

}  // namespace vernier
