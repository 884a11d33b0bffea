#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ops/cache_spec.h"

namespace vernier {

enum class KvRole : uint8_t { kKey, kValue };

/// The layout of one layer's keys or values in host memory: [block, kv_head, token in block, head_dim].
struct KvExtents {
  int32_t block_tokens = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  /// Offset in elements of the first number of (slot, head).
  int64_t offset(int64_t slot, int head) const {
    int64_t block = slot / block_tokens;
    int64_t token = slot % block_tokens;
    return ((block * kv_heads + head) * block_tokens + token) * head_dim;
  }
};

/// The only way to write keys (or values) into a host cache: holds the stored type and its scales, so neither can be
/// left behind; K and V are different types. Saturates, and counts each number that did.
template <KvRole R>
class KvWriter {
 public:
  KvWriter(std::byte* bytes, KvExtents extents, CodecId stored, KvScale scale)
      : bytes_(bytes), extents_(extents), stored_(stored), scale_(std::move(scale)) {}
  void write(int64_t slot, int head, std::span<const float> values);  // [head_dim]
  int64_t saturated() const { return saturated_; }

 private:
  std::byte* bytes_;
  KvExtents extents_;
  CodecId stored_;
  KvScale scale_;
  int64_t saturated_ = 0;
};

/// The only way to read keys (or values) of a host cache.
template <KvRole R>
class KvReader {
 public:
  KvReader(const std::byte* bytes, KvExtents extents, CodecId stored, KvScale scale)
      : bytes_(bytes), extents_(extents), stored_(stored), scale_(std::move(scale)) {}
  void read(int64_t slot, int head, std::span<float> out) const;  // [head_dim]

 private:
  const std::byte* bytes_;
  KvExtents extents_;
  CodecId stored_;
  KvScale scale_;
};

}  // namespace vernier
