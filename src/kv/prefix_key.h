#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace vernier {

/// One position of a prompt as the cache knows it: a token id, or 127 bits of the hash of what an external embedding
/// was made of. The kinds never compare equal.
struct PrefixUnit {
  uint64_t low = 0;
  uint64_t high = 0;

  static constexpr PrefixUnit token(int32_t id) { return {static_cast<uint32_t>(id), 0}; }
  static constexpr PrefixUnit media(uint64_t high, uint64_t low) { return {low, high | uint64_t{1} << 63}; }
  bool operator==(const PrefixUnit&) const = default;
};

/// What else the keys and values of a prompt depend on. Each is a number of its own kind, so that no tenant can meet an
/// adapter; an adapter's number changes when it is loaded again.
struct PrefixRoot {
  uint64_t tenant = 0;
  uint64_t adapter = 0;
  uint64_t weight_version = 0;

  bool operator==(const PrefixRoot&) const = default;
};

/// A prompt to look up or to keep: its units and, for each whole block, the hash of the root and all units up to the
/// block's end. Hashes only find: units are compared in full.
struct PrefixKey {
  PrefixRoot root;
  std::span<const PrefixUnit> units;
  std::span<const uint64_t> hashes;
};

/// Appends the hashes of the whole blocks of `units` that `hashes` lacks.
inline void extend_hashes(const PrefixRoot& root, std::span<const PrefixUnit> units, int32_t block_tokens,
                          std::vector<uint64_t>& hashes) {
  const auto block = static_cast<size_t>(block_tokens);
  while ((hashes.size() + 1) * block <= units.size()) {
    uint64_t hash =
        hashes.empty() ? fmix64(fmix64(fmix64(root.tenant) + root.adapter) + root.weight_version) : hashes.back();
    for (const PrefixUnit& unit : units.subspan(hashes.size() * block, block)) {
      hash = fmix64(hash * 0x9e3779b97f4a7c15ULL + unit.low) ^ unit.high;
    }
    hashes.push_back(fmix64(hash));
  }
}

}  // namespace vernier
