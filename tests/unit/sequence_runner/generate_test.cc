#include "engine/generate.h"

#include <gtest/gtest.h>

#include "api/load_tokenizer.h"
#include "api/loaded_model.h"
#include "text/utf8.h"

namespace vernier {
namespace {

class Generate : public ::testing::Test {
 protected:
  void SetUp() override {
    LoadOptions options;
    options.backend.name = "reference";
    auto model = LoadedModel::load(VERNIER_TEST_DATA "/models/llama", options);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = std::move(model).value();
    auto tokenizer = load_tokenizer(std::string(VERNIER_TEST_DATA "/tokenizers/mini-merges.json"));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
    tokenizer_.emplace(std::move(tokenizer).value());
  }

  struct Answer {
    Generated generated;
    std::vector<std::string> pieces;
    std::string text;
  };
  Answer answer(GenerateOptions options, int32_t context_tokens = 100) {
    auto runner = SequenceRunner::make(model_->backend(), model_->decoder(),
                                       {.kv_type = CodecId::kF32, .context_tokens = context_tokens, .chunk_rows = 8})
                      .value();
    options.sampling.temperature = 1.7f;
    options.sampling.seed = 3;
    Answer answer;
    const std::vector<int32_t> prompt = {5, 17, 200, 31};
    auto generated = generate(*runner, *tokenizer_, prompt, options, [&](std::string_view piece) {
      answer.pieces.emplace_back(piece);
      answer.text += piece;
    });
    EXPECT_TRUE(generated.ok()) << generated.error().to_string();
    answer.generated = std::move(generated).value();
    return answer;
  }

  static GenerateOptions at_most(int32_t max_tokens, std::vector<std::string> stops = {}) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    options.stops = std::move(stops);
    return options;
  }

  std::unique_ptr<LoadedModel> model_;
  std::optional<Tokenizer> tokenizer_;
};

// G17: this head has 320 logits, and the tokenizer 281 tokens.
TEST_F(Generate, DrawsNoTokenThatTheTokenizerDoesNotKnow) {
  const auto known = static_cast<int32_t>(tokenizer_->vocabulary_size());
  ASSERT_LT(known, model_->decoder().spec().vocab);
  const Answer drawn = answer(at_most(80));
  for (int32_t token : drawn.generated.tokens) EXPECT_LT(token, known);
}

// ENGINE-4: pieces are whole characters, and joined they are the answer up to the stop.
TEST_F(Generate, TextIsHandedOutOnlyWhenItIsCertain) {
  const Answer whole = answer(at_most(60));
  ASSERT_GT(whole.text.size(), 20u);
  EXPECT_EQ(whole.generated.reason, FinishReason::kLength);
  for (const std::string& piece : whole.pieces) EXPECT_TRUE(is_valid_utf8(piece)) << piece;

  // Each stop is taken from the middle of the answer; what begins like one and is none is still handed out.
  for (size_t at = 4; at + 6 < whole.text.size(); at += 3) {
    std::string stop = whole.text.substr(at, 4);
    if (!is_valid_utf8(stop)) continue;
    const Answer cut = answer(at_most(60, {stop}));
    EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop))) << stop;
    EXPECT_EQ(cut.generated.reason, FinishReason::kStop) << stop;
    const Answer other = answer(at_most(60, {stop + "\x01never"}));
    EXPECT_EQ(other.text, whole.text);
  }
}

// ENGINE-4: a stop that waits for a longer one before it still ends the answer.
TEST_F(Generate, AStopThatIsWaitedWithWinsAtTheEnd) {
  for (int32_t tokens = 60; tokens > 4; --tokens) {
    const std::string whole = answer(at_most(tokens)).text;
    if (whole.size() < 2) continue;
    const std::string last = whole.substr(whole.size() - 1), before = whole.substr(whole.size() - 2);
    if (!is_valid_utf8(last) || !is_valid_utf8(before) || whole.find(last) != whole.size() - 1) continue;
    const Answer cut = answer(at_most(tokens, {last, before + "\x01never"}));
    EXPECT_EQ(cut.text, whole.substr(0, whole.size() - 1));
    EXPECT_EQ(cut.generated.reason, FinishReason::kStop);
    return;
  }
  FAIL() << "no answer ends in a character of its own";
}

// ENGINE-5: an answer ends where the context does.
TEST_F(Generate, AnAnswerEndsWithTheContext) {
  const Answer full = answer(at_most(60), 20);
  EXPECT_EQ(full.generated.reason, FinishReason::kContext);
  EXPECT_EQ(full.generated.tokens.size(), 17u) << "16 of them fed after a prompt of 4";
}

TEST_F(Generate, AnEndTokenEndsTheAnswerAndIsNoPartOfIt) {
  const Answer whole = answer(at_most(12));
  const int32_t end = whole.generated.tokens[7];
  GenerateOptions options = at_most(12);
  options.end_tokens = {end};
  const Answer cut = answer(options);
  EXPECT_EQ(cut.generated.reason, FinishReason::kStop);
  EXPECT_LE(cut.generated.tokens.size(), 7u);
  EXPECT_EQ(std::count(cut.generated.tokens.begin(), cut.generated.tokens.end(), end), 0);
}

}  // namespace
}  // namespace vernier
