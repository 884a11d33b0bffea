#include "text/detokenizer.h"

#include "small_tokenizer.h"
#include "text/utf8.h"

namespace vernier {
namespace {

using testing_text::ids_of;
using testing_text::small_tokenizer;

std::vector<std::string> stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> pieces;
  for (TokenId id : ids) pieces.push_back(detokenizer.push(id));
  pieces.push_back(detokenizer.finish());
  return pieces;
}

/// Byte-level tokens of single bytes: in these tokenizers their ids are the bytes.
std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// TEXT-2
TEST(Detokenizer, HoldsBackOnlyTheBeginningOfACharacter) {
  Tokenizer tokenizer = small_tokenizer("mini-merges");
  EXPECT_EQ(stream(tokenizer, bytes("\xC4\x8F \xC3\xA1")), (std::vector<std::string>{"", "ď", " ", "", "á", ""}));
  // Bad bytes are replaced at once, by maximal part; what the end cuts off only at the end.
  EXPECT_EQ(stream(tokenizer, bytes("\xE2\x82 x")), (std::vector<std::string>{"", "", "\uFFFD ", "x", ""}));
  EXPECT_EQ(stream(tokenizer, bytes("\xF0\x9F")), (std::vector<std::string>{"", "", "\uFFFD"}));
  EXPECT_EQ(stream(tokenizer, bytes("\xFF"
                                    "a")),
            (std::vector<std::string>{"\uFFFD", "a", ""}));
}

TEST(Detokenizer, PiecesOfAnyCutAreValidAndJoinToTheWhole) {
  Tokenizer tokenizer = small_tokenizer("mini-merges");
  std::string text = "naïve 中文 \xF0\x9F\x98\x80 \xE0\xA4\xA8\xED\xA0\xBD\xFF é\xCC";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    std::vector<TokenId> ids = bytes(std::string_view(text).substr(cut));
    std::string joined;
    for (const std::string& piece : stream(tokenizer, ids)) {
      EXPECT_TRUE(is_valid_utf8(piece));
      joined += piece;
    }
    EXPECT_EQ(joined, tokenizer.decode(ids));
    EXPECT_EQ(joined, replace_bad_utf8(text.substr(cut)));
  }
}

TEST(Detokenizer, ARunOfByteTokensWaitsForItsEnd) {
  Tokenizer tokenizer = small_tokenizer("mini-spm-first");
  auto byte = [&](const char* text) { return *tokenizer.find_token(text); };
  std::vector<TokenId> smile = {byte("<0xF0>"), byte("<0x9F>"), byte("<0x98>"), byte("<0x80>"), byte("a")};
  EXPECT_EQ(stream(tokenizer, smile), (std::vector<std::string>{"", "", "", "", "😀a", ""}));
  // One bad byte spoils the whole run.
  smile.insert(smile.begin(), byte("<0xFF>"));
  EXPECT_EQ(stream(tokenizer, smile)[5], "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDa");
}

TEST(Detokenizer, StripsTheFirstSpaceOfTheTextOnly) {
  Tokenizer tokenizer = small_tokenizer("mini-spm-first");
  std::vector<TokenId> ids = ids_of(tokenizer, "hello the llo");
  EXPECT_EQ(tokenizer.decode(ids), "hello the llo");
  std::vector<std::string> pieces = stream(tokenizer, ids);
  EXPECT_EQ(pieces.front(), "hello");
}

TEST(Detokenizer, PassesOverIdsThatDoNotExist) {
  Tokenizer tokenizer = small_tokenizer("mini-merges");
  std::vector<TokenId> ids = {'a', -1, 1000000, static_cast<TokenId>(tokenizer.vocabulary_size()), 'b'};
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_FALSE(tokenizer.token_bytes(-1).has_value());
}

TEST(Detokenizer, LeavesSpecialTokensOutOnRequest) {
  Tokenizer tokenizer = small_tokenizer("mini-flags");
  std::vector<TokenId> ids = ids_of(tokenizer, "a<a>b <W>");
  EXPECT_EQ(tokenizer.decode(ids), "a<a>b <W>");
  EXPECT_EQ(tokenizer.decode(ids, true), "ab <W>");
}

}  // namespace
}  // namespace vernier
