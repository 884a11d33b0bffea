#include "text/gguf_vocabulary.h"

#include "small_tokenizer.h"

namespace vernier {
namespace {

using testing_text::ids_of;

GgufVocabulary byte_level() {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {"a", "b", "Ġ", "ab", "Ġab", "<s>", "<tool>"};
  v.merges = {"a b", "Ġ ab"};
  v.token_types = {1, 1, 1, 1, 1, 3, 4};
  v.bos = 5;
  return v;
}

TEST(GgufVocabulary, ByteLevel) {
  auto tokenizer = Tokenizer::from_gguf(byte_level());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(ids_of(*tokenizer, "ab ab<s><tool>"), (std::vector<TokenId>{3, 4, 5, 6}));
  EXPECT_EQ(ids_of(*tokenizer, "ab", {.add_special = true}), (std::vector<TokenId>{3}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3, 4}), "ab ab");
  GgufVocabulary with_bos = byte_level();
  with_bos.add_bos = true;
  EXPECT_EQ(ids_of(*Tokenizer::from_gguf(with_bos), "ab", {.add_special = true}), (std::vector<TokenId>{5, 3}));
}

GgufVocabulary pieces() {
  GgufVocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "a", "b", "▁", "ab", "▁a", "▁ab", "  ", "<0xC3>", "<0xA9>"};
  v.token_types = {2, 3, 1, 1, 1, 1, 1, 1, 4, 6, 6};
  v.scores = {0, 0, -5, -6, -7, -1, -2, -3, -1000, 0, 0};
  v.bos = 1;
  v.unknown = 0;
  return v;
}

TEST(GgufVocabulary, SentencePieceMergesByScore) {
  auto tokenizer = Tokenizer::from_gguf(pieces());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  // "ab" has the better score than "▁a", so that "▁" joins it last.
  EXPECT_EQ(ids_of(*tokenizer, "ab", {.add_special = true}), (std::vector<TokenId>{1, 7}));
  EXPECT_EQ(ids_of(*tokenizer, "aé"), (std::vector<TokenId>{6, 9, 10}));
  EXPECT_EQ(ids_of(*tokenizer, "azz"), (std::vector<TokenId>{6, 0}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{7, 7, 9, 10}), "ab abé");
  GgufVocabulary bare = pieces();
  bare.add_space_prefix = false;
  auto gemma = Tokenizer::from_gguf(bare);
  ASSERT_TRUE(gemma.ok());
  EXPECT_EQ(ids_of(*gemma, "ab"), (std::vector<TokenId>{5}));
  EXPECT_EQ(gemma->decode(std::vector<TokenId>{7}), " ab");
}

TEST(GgufVocabulary, RunsOfSpacesAreSpelledAsTheText) {
  GgufVocabulary v = pieces();
  v.add_space_prefix = false;
  auto tokenizer = Tokenizer::from_gguf(v);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(ids_of(*tokenizer, "a  b"), (std::vector<TokenId>{2, 8, 3}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{8}), "  ");
}

TEST(GgufVocabulary, Unigram) {
  GgufVocabulary v;
  v.model = "t5";
  v.tokens = {"<unk>", "</s>", "▁a", "▁", "a", "b", "▁ab", "▁unused"};
  v.token_types = {2, 3, 1, 1, 1, 1, 1, 5};
  v.scores = {0, 0, -1, -4, -3, -3, -9, 0};
  v.unknown = 0;
  v.eos = 1;
  auto tokenizer = Tokenizer::from_gguf(v);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(ids_of(*tokenizer, " ab  a", {.add_special = true}), (std::vector<TokenId>{2, 5, 2, 1}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 5, 2}), "ab a");
}

// TEXT-7: another rule would give other ids without a word.
TEST(GgufVocabulary, RefusesWhatItDoesNotKnow) {
  GgufVocabulary v = byte_level();
  v.pre = "brand-new";
  auto refused = Tokenizer::from_gguf(v);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'brand-new'"), std::string::npos);
  v = byte_level();
  v.model = "rwkv";
  EXPECT_NE(Tokenizer::from_gguf(v).error().message.find("'rwkv'"), std::string::npos);
}

TEST(GgufVocabulary, RefusesListsThatDoNotAgree) {
  auto refused = [](auto change) {
    GgufVocabulary v = pieces();
    change(v);
    return !Tokenizer::from_gguf(v).ok();
  };
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.tokens.clear(); }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.scores.pop_back(); }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.scores.clear(); }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.token_types.pop_back(); }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.bos = 100; }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.unknown = -1; }));
  EXPECT_TRUE(refused([](GgufVocabulary& v) { v.tokens[3] = "\xff"; }));
  GgufVocabulary v = byte_level();
  v.merges.push_back("b zz");
  EXPECT_FALSE(Tokenizer::from_gguf(v).ok());
  v.merges = {"ab"};
  EXPECT_FALSE(Tokenizer::from_gguf(v).ok());
}

}  // namespace
}  // namespace vernier
