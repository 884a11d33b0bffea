#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/flat_map.h"
#include "text/vocabulary.h"

namespace vernier {

/// How early a merge comes: by rank, among equal ranks by tie, among equal ties from left to right.
struct Merge {
  uint32_t rank;
  uint64_t tie;
  TokenId id;  ///< what the pair becomes
};

/// Which pairs of tokens merge. Two forms: a list of pairs, or a SentencePiece vocabulary in which each pair whose
/// joined text is a token merges, best score first. Immutable once built; any thread.
class MergeTable {
 public:
  /// The list form; `expected` pairs will be added.
  explicit MergeTable(size_t expected) : pairs_(expected) {}
  /// The vocabulary form: scores[id], higher first.
  MergeTable(const Vocabulary& vocabulary, const std::vector<float>& scores, const std::vector<bool>& ordinary);

  /// A pair that is added twice has its later rank.
  void add(TokenId left, TokenId right, uint32_t rank, TokenId joined);
  void prefetch(TokenId left, TokenId right) const { pairs_.prefetch(key(left, right)); }
  bool by_text() const { return vocabulary_ != nullptr; }

  /// The merge of two neighbours whose joined text is `text` (which only the vocabulary form reads).
  std::optional<Merge> find(TokenId left, TokenId right, std::string_view text) const;

 private:
  struct Entry {
    uint32_t rank;
    TokenId id;
  };
  static uint64_t key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  FlatMap<Entry> pairs_;
  const Vocabulary* vocabulary_ = nullptr;
  std::vector<uint32_t> ranks_;  // [vocabulary] of the vocabulary form; empty where the id is the rank
};

/// Reads a list of merges, spelt as texts, into a table. It looks them up in batches: the texts must stay until
/// build().
class MergeListReader {
 public:
  /// Joining drops the first `prefix_size` bytes of the right part.
  MergeListReader(const Vocabulary& vocabulary, size_t expected, size_t prefix_size);
  void add(std::string_view left, std::string_view right);
  /// The table, or an error that names the first merge of which a token is not in the vocabulary.
  Result<MergeTable> build() &&;

 private:
  static constexpr size_t kBatch = 256;
  void flush();

  const Vocabulary& vocabulary_;
  size_t prefix_size_;
  MergeTable table_;
  std::vector<std::string_view> texts_;  // left, right, joined of each merge of the batch
  std::string joined_;                   // the joined texts, one after another
  uint32_t rank_ = 0;
  std::optional<Error> error_;
};

}  // namespace vernier
