#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace vernier {

/// A token that is cut out of the text before the model sees it.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;  ///< control: hidden on request, not matched in plain text
  bool lstrip = false;   ///< swallows white space before it
  bool rstrip = false;
  bool single_word = false;  ///< only between characters that are not of a word
  bool normalized = false;   ///< matched in the normalised text
  std::string decoded;       ///< what it decodes to: its text, normalised where it is matched so
};

/// The added tokens of a tokenizer. Matching is leftmost, then longest; in a byte range of a caller nothing matches
/// (TEXT-6). Immutable once built; any thread.
class AddedTokens {
 public:
  struct Match {
    std::optional<TokenId> id;  // nothing: text between tokens
    ByteRange range;
  };

  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizers& normalizers);

  /// Cuts a text at the tokens of one kind: those matched in raw text, or in normalised text.
  std::vector<Match> cut(const MarkedText& text, bool normalized, bool parse_special) const;

  const AddedToken* find(TokenId id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  /// A prefix tree over bytes.
  class Tree {
   public:
    Tree() : nodes_(1, -1), starts_(256, false) {}
    void insert(std::string_view text, int32_t value);  // the first of equal texts stays
    struct Found {
      int32_t value;
      size_t end;
    };
    /// The longest text that starts at `at` and ends by `limit`.
    std::optional<Found> longest(std::string_view text, size_t at, size_t limit) const;
    bool may_start(char byte) const { return starts_[static_cast<unsigned char>(byte)]; }
    bool empty() const { return nodes_.size() == 1; }

   private:
    FlatMap<uint32_t> children_;  // node << 8 | byte -> node
    std::vector<int32_t> nodes_;  // [nodes] value, -1 for none
    std::vector<bool> starts_;    // [256]
  };

  bool accepts(const AddedToken& token, std::string_view text, ByteRange range, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  FlatMap<uint32_t> by_id_;  // id -> index into tokens_
  Tree raw_, normalised_;
  CodePointBitmap word_, space_;
};

}  // namespace vernier
