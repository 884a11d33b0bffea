#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/block_vector.h"
#include "text/code_point_set.h"
#include "text/merge_table.h"
#include "text/token_model.h"

namespace vernier {

/// U+2581, which SentencePiece writes for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct BpeOptions {
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< look the whole piece up first
  std::string continuing_prefix;
  std::string end_suffix;
};

/// Byte pair encoding: characters become tokens, then pairs merge, the lowest rank first, of equal ones the leftmost.
/// Time n log n in the worst case and linear on runs of one letter; no recursion (TEXT-5).
class BpeModel : public TokenModel {
 public:
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options);
  void tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const override;

 private:
  struct Symbol {
    TokenId id;
    uint32_t is_text : 1;  // stands for just its bytes, not for a byte or an unknown character
    uint32_t begin : 31;
    uint32_t end;
    int32_t previous, next;
  };
  using Symbols = BlockVector<Symbol>;

  void find_word_borders();
  void tokenize_part(const ModelInput& input, ByteRange part, std::vector<TokenId>& out) const;
  void characters(const ModelInput& input, ByteRange piece, Symbols& symbols) const;
  std::optional<TokenId> character_token(std::string_view character, bool first, bool last) const;
  bool append_bytes(std::string_view character, uint32_t begin, Symbols& out) const;
  std::optional<Merge> find_merge(const ModelInput& input, const Symbol& left, const Symbol& right) const;
  void merge_few(const ModelInput& input, Symbols& symbols) const;
  void merge_many(const ModelInput& input, Symbols& symbols) const;

  MergeTable merges_;
  BpeOptions options_;
  std::vector<TokenId> bytes_;           // [256] if byte_fallback
  bool has_word_borders_ = false;        // no merge crosses from another character to "▁",
  CodePointBitmap not_before_border_;    // but for these
  std::vector<TokenId> low_characters_;  // [0x180] tokens of single characters, -1 for none
};

}  // namespace vernier
