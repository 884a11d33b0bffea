#include "random_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "json_validator.h"
#include "testing/model_vocabulary.h"
#include "testing/models.h"
#include "testing/toy_vocabulary.h"

namespace vernier {
namespace {

using nlohmann::ordered_json;

/// VERNIER_GRAMMAR_SCHEMAS=1000 runs more than the suites do.
int schema_count(int otherwise) {
  const char* asked = std::getenv("VERNIER_GRAMMAR_SCHEMAS");
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

/// Whether the JSON text so far ends inside a string.
bool in_string(const std::string& text) {
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      inside = !inside;
    }
  }
  return inside;
}

/// Draws tokens that the mask allows, at random; the longer the answer, the rather those that close something.
class RandomWriter {
 public:
  RandomWriter(const GrammarVocabulary& vocabulary, uint64_t seed) : vocabulary_(vocabulary), random_(seed) {}

  /// The answer, or nothing where the mask allowed no token.
  std::optional<std::string> write(GrammarMatcher& matcher) {
    std::string text;
    for (int step = 0; step < 3000; ++step) {
      const std::vector<uint32_t> mask = testing::mask_of(matcher);
      const int32_t token = choose(mask, step, text);
      if (token < 0) return std::nullopt;
      EXPECT_TRUE(matcher.accept(token)) << token;
      if (matcher.terminated()) return text;
      text += vocabulary_.token_bytes(token);
    }
    ADD_FAILURE() << "the answer does not end: " << text.substr(0, 300);
    return text;
  }

 private:
  int32_t choose(const std::vector<uint32_t>& mask, int step, const std::string& text) {
    for (int32_t end : vocabulary_.end_ids()) {
      if (testing::allows(mask, end) && (step > 60 || random_() % 3 == 0)) return end;
    }
    if (step > 60 || random_() % 4 == 0) {
      const bool inside = in_string(text);
      auto closing = inside ? std::vector<std::string>{"\"", "b", "x", "y", "0", "c"}
                            : std::vector<std::string>{"}", "]", "null", "n", "0", "\"", "\"\""};
      if (inside) std::shuffle(closing.begin() + 1, closing.end(), random_);
      for (const std::string& piece : closing) {
        for (int32_t token = 0; token < static_cast<int32_t>(vocabulary_.logits()); ++token) {
          if (testing::allows(mask, token) && vocabulary_.token_bytes(token) == piece) return token;
        }
        if (step <= 60 || step % 2 == 0) break;
      }
    }
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < static_cast<int32_t>(vocabulary_.logits()); ++token) {
      if (testing::allows(mask, token)) allowed.push_back(token);
    }
    return allowed.empty() ? -1 : allowed[random_() % allowed.size()];
  }

  const GrammarVocabulary& vocabulary_;
  std::mt19937_64 random_;
};

void expect_valid_answers(const std::shared_ptr<const GrammarVocabulary>& vocabulary, int count, uint64_t first_seed) {
  GrammarCompiler compiler(vocabulary);
  int written = 0;
  for (uint64_t seed = first_seed; written < count; ++seed) {
    std::mt19937_64 random(seed);
    const ordered_json schema = testing::random_schema(random);
    auto grammar = compiler.compile({.kind = GrammarSpec::Kind::kJsonSchema, .text = schema.dump()});
    if (!grammar.ok()) {
      EXPECT_EQ(grammar.error().code, ErrorCode::kInvalidArgument) << grammar.error().to_string();
      EXPECT_EQ(grammar.error().where.substr(0, 1), "#") << grammar.error().to_string() << " " << schema;
      ASSERT_LT(seed - first_seed, 2U * static_cast<uint64_t>(count) + 100)
          << "most schemas are refused: " << grammar.error().to_string();
      continue;
    }
    ++written;
    GrammarMatcher matcher = GrammarMatcher::make(*grammar).value();
    std::optional<std::string> text = RandomWriter(*vocabulary, seed).write(matcher);
    ASSERT_TRUE(text.has_value()) << "a dead end, seed " << seed << ": " << schema;
    const nlohmann::json value = nlohmann::json::parse(*text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << "not JSON, seed " << seed << ": " << *text << "\n" << schema;
    EXPECT_EQ(testing::validate(schema, value, schema), "") << "seed " << seed << ": " << *text << "\n" << schema;
  }
}

// GRAMMAR-1 An answer under a schema is valid, for random schemas and random tokens.
TEST(RandomSchema, EveryAnswerIsValid) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  expect_valid_answers(testing::toy_vocabulary(), schema_count(400), 1);
}

TEST(RandomSchema, EveryAnswerIsValidInTheVocabularyOfAModel) {
  if (!GrammarCompiler::is_built()) GTEST_SKIP() << "XGrammar is not fetched";
  auto path = testing::model_file("smollm2-135m.gguf");
  if (!path) GTEST_SKIP() << testing::missing_model("smollm2-135m");
  expect_valid_answers(testing::model_vocabulary(*path).value(), schema_count(50), 100000);
}

TEST(JsonValidator, ItRefusesWhatIsInvalid) {
  auto fault = [](const char* schema, const char* value) {
    ordered_json s = ordered_json::parse(schema);
    return testing::validate(s, nlohmann::json::parse(value), s);
  };
  EXPECT_EQ(fault(R"({"type":"integer","minimum":3})", "2"), "minimum");
  EXPECT_EQ(fault(R"({"type":"integer"})", "2.5"), "type");
  EXPECT_EQ(fault(R"({"type":"string","maxLength":1})", "\"éa\""), "maxLength");
  EXPECT_EQ(fault(R"({"items":{"pattern":"^a"}})", R"(["b"])"), "0/pattern");
  EXPECT_EQ(fault(R"({"properties":{"a":{}},"additionalProperties":false})", R"({"b":1})"), "b/false");
  EXPECT_EQ(fault(R"({"required":["a"]})", "{}"), "required a");
  EXPECT_EQ(fault(R"({"anyOf":[{"type":"null"},{"enum":[1]}]})", "2"), "anyOf");
}

}  // namespace
}  // namespace vernier
