#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

using TokenId = int32_t;

/// The texts of a model's tokens, both ways. The texts are views: into memory that `keep` holds alive, or into an arena
/// of its own. Of two tokens with one text the later is found. Immutable once built; any thread.
class Vocabulary {
 public:
  /// Ids above this are taken for a broken file.
  static constexpr size_t kMaxTokens = size_t{1} << 24;

  Vocabulary() = default;
  /// texts[id] is the token; one with data() == nullptr does not exist.
  Vocabulary(std::vector<std::string_view> texts, std::shared_ptr<const void> keep);

  std::optional<TokenId> find(std::string_view text) const;
  /// The ids of many texts at once, -1 for those that are not there; several times faster than one after another,
  /// because the cache misses overlap.
  void find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const;
  /// The token's text; empty for an id that does not exist.
  std::string_view text(TokenId id) const { return has(id) ? texts_[static_cast<size_t>(id)] : std::string_view(); }
  bool has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < texts_.size() && texts_[static_cast<size_t>(id)].data() != nullptr;
  }
  /// One more than the highest id.
  size_t size() const { return texts_.size(); }

 private:
  struct Slot {
    uint32_t tag = 0;
    uint32_t id_plus_one = 0;  // 0: free
  };

  TokenId find_hashed(std::string_view text, uint64_t hash) const;

  std::vector<std::string_view> texts_;
  std::shared_ptr<const void> keep_;
  std::vector<Slot> slots_{1};
  size_t mask_ = 0;
};

uint64_t hash_text(std::string_view text);

}  // namespace vernier
