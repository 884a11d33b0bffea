#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/codec.h"

namespace vernier {

enum class CacheKind : uint8_t {
  kPairs,   ///< a key and a value for each token and head
  kLatent,  ///< one row for each token and head, key and value at once; it has the scale of keys
};

/// What one layer keeps for each token: its kind, stored type, the scales of that type and the window. Scales act only
/// where the stored type has scales (stored = round(x / scale), read = stored * scale); a missing scale is 1.0.
struct CacheSpec {
  CacheKind kind = CacheKind::kPairs;
  int layer = 0;
  int cache_class = 0;  ///< layers of one class share block tables: the same kind and window
  int kv_heads = 0;
  int head_dim = 0;
  std::optional<int> window;
  CodecId stored = CodecId::kF16;  ///< kF32, kF16, kBF16, or kE4M3Tensor
  std::optional<float> k_scale;    ///< as the checkpoint gives it
  std::optional<float> v_scale;

  int64_t bytes_per_token() const;  ///< keys and values together
  int64_t row_bytes() const;        ///< of all heads' keys of one token
};

}  // namespace vernier
