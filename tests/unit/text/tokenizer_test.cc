#include "text/tokenizer.h"

#include "small_tokenizer.h"

namespace vernier {
namespace {

using testing_text::ids_of;
using testing_text::small_tokenizer;

bool holds(const std::vector<TokenId>& ids, std::optional<TokenId> id) {
  CHECK(id.has_value());
  return std::find(ids.begin(), ids.end(), *id) != ids.end();
}

std::vector<TokenId> with_range(const Tokenizer& tokenizer, std::string_view text, size_t begin, size_t end) {
  std::vector<ByteRange> ranges = {{begin, end}};
  return ids_of(tokenizer, text, {.caller_ranges = ranges});
}

// TEXT-6
TEST(CallerRanges, NoAddedTokenMatchesInsideOrAcrossTheBorder) {
  Tokenizer tokenizer = small_tokenizer("mini-flags");
  std::string text = "<a>x<a><L>y<a>";
  EXPECT_EQ(ids_of(tokenizer, text).size(), 6u);
  std::vector<TokenId> ids = with_range(tokenizer, text, 3, 11);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.find_token("<a>")), 2);
  EXPECT_FALSE(holds(ids, tokenizer.find_token("<L>")));
  EXPECT_EQ(tokenizer.decode(ids), "<a>x<a><l>y<a>");  // lower-cased, as any text here
  // "<a><b>" begins in the template and ends in the caller's text: only "<a>" is the template's.
  ids = with_range(tokenizer, "<a><b>", 3, 6);
  EXPECT_TRUE(holds(ids, tokenizer.find_token("<a>")));
  EXPECT_FALSE(holds(ids, tokenizer.find_token("<a><b>")));
  // The caller completes a marker that the template did not begin.
  ids = with_range(tokenizer, "<a>", 1, 3);
  EXPECT_FALSE(holds(ids, tokenizer.find_token("<a>")));
}

TEST(CallerRanges, HoldForTokensThatAreMatchedInNormalisedText) {
  Tokenizer tokenizer = small_tokenizer("mini-flags");  // lower-cases
  EXPECT_TRUE(holds(ids_of(tokenizer, "x<NORM>"), tokenizer.find_token("<Norm>")));
  EXPECT_FALSE(holds(with_range(tokenizer, "x<NORM>", 0, 7), tokenizer.find_token("<Norm>")));
  EXPECT_FALSE(holds(with_range(tokenizer, "İİ<NORM>é", 2, 10), tokenizer.find_token("<Norm>")));
  EXPECT_TRUE(holds(with_range(tokenizer, "İİ<NORM>é", 10, 12), tokenizer.find_token("<Norm>")));
}

TEST(CallerRanges, AModelDoesNotFindControlTokensInThem) {
  Tokenizer tokenizer = small_tokenizer("mini-unigram");
  std::string text = "a </s> b";
  // As an ordinary piece, Unigram finds it even where it is not parsed.
  EXPECT_TRUE(holds(ids_of(tokenizer, text, {.parse_special = false}), tokenizer.find_token("</s>")));
  EXPECT_FALSE(holds(with_range(tokenizer, text, 0, text.size()), tokenizer.find_token("</s>")));
}

TEST(CallerRanges, OrdinaryTextIsTokenisedInOnePiece) {
  Tokenizer tokenizer = small_tokenizer("mini-merges");
  std::string text = "in the abab\n\n bc éé";
  std::vector<TokenId> whole = ids_of(tokenizer, text);
  for (size_t cut = 1; cut < text.size(); ++cut) EXPECT_EQ(with_range(tokenizer, text, cut, text.size()), whole);
}

TEST(CallerRanges, AreRefusedOutsideTheText) {
  Tokenizer tokenizer = small_tokenizer("mini-merges");
  for (ByteRange range : {ByteRange{0, 4}, ByteRange{2, 1}}) {
    std::vector<ByteRange> ranges = {range};
    EXPECT_FALSE(tokenizer.encode("abc", {.caller_ranges = ranges}).ok());
  }
}

// TEXT-1: bytes become valid text once, before anything else, and the ranges move with them.
TEST(CallerRanges, ApplyToBytesThatAreNotUtf8) {
  Tokenizer tokenizer = small_tokenizer("mini-flags");
  std::string text = "\xff\xff<a>\xff<a>";
  std::vector<TokenId> ids = with_range(tokenizer, text, 0, 6);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.find_token("<a>")), 1);
  EXPECT_EQ(ids.back(), *tokenizer.find_token("<a>"));
}

// Encoding and decoding does not drift.
TEST(Tokenizer, FiveRoundTripsDoNotChangeTheText) {
  for (const char* name : {"mini-merges", "mini-spm-first", "mini-spm-prepend"}) {
    Tokenizer tokenizer = small_tokenizer(name);
    for (const char* text : {"<s>A", "A</s>B", "  A", "    if x:\n", "a b", " the"}) {
      // Where the decoder takes off one space that the encoder did not put there, leading spaces do go one by one.
      if (std::string_view(name) == "mini-spm-first" && std::string_view(text).starts_with("  ")) continue;
      std::string now = tokenizer.decode(ids_of(tokenizer, text));
      std::string first = now;
      for (int i = 0; i < 5; ++i) now = tokenizer.decode(ids_of(tokenizer, now));
      EXPECT_EQ(now, first) << name;
    }
  }
}

TEST(Tokenizer, ReadsMergesOfBothSpellingsAndFindsMissingTokens) {
  auto make = [](const char* merges) {
    return Tokenizer::from_json(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":)" +
                                std::string(merges) + "}}");
  };
  for (const char* merges : {R"(["a b"])", R"([["a","b"]])"}) {
    auto tokenizer = make(merges);
    ASSERT_TRUE(tokenizer.ok());
    EXPECT_EQ(ids_of(*tokenizer, "abba"), (std::vector<TokenId>{2, 1, 0}));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 0}), "ab a");  // no decoder: tokens joined by spaces
  }
  auto missing = make(R"(["a c"])");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("'a' and 'c'"), std::string::npos);
}

TEST(Tokenizer, WordPieceTakesTheLongestPieces) {
  auto tokenizer = Tokenizer::from_json(
      R"({"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"un":1,"##aff":2,"##able":3,"una":4,"!":5}},)"
      R"("normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
      R"("post_processor":{"type":"BertProcessing","cls":["[UNK]",0],"sep":["!",5]}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(ids_of(*tokenizer, "Unäffable! zzz", {.add_special = true}), (std::vector<TokenId>{0, 0, 5, 0, 5}));
  EXPECT_EQ(ids_of(*tokenizer, "Unaffable un!"), (std::vector<TokenId>{0, 1, 5}));
  EXPECT_EQ(ids_of(*tokenizer, "unable"), (std::vector<TokenId>{0}));  // greedy: "una", and no "##ble" after it
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 3, 5}), "unable!");
}

}  // namespace
}  // namespace vernier
