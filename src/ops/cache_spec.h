#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/kv_scale.h"
#include "tensor/codec.h"

namespace vernier {

enum class CacheKind : uint8_t {
  kPairs,   ///< a key and a value for each token and head
  kLatent,  ///< one row for each token and head, key and value at once; it has the scale of keys
};

/// How a row meets the keys and values of its own step; those of earlier steps it reads as they are stored.
enum class FreshRows : uint8_t {
  kStored,     ///< written first and read back like the others
  kComputed,   ///< as they were computed; merged with the others by their log-sum-exp
  kRoundTrip,  ///< the same after rounding through the stored type, so that the answer is that of kStored
};

/// "paged", "split", "split-roundtrip".
std::string_view name(FreshRows fresh);

/// Types that a cache may store numbers as.
bool is_cache_type(CodecId stored);
/// Of those, the ones whose numbers have a scale.
bool has_cache_scale(CodecId stored);
/// "f16", "fp8_e4m3".
std::string_view cache_type_name(CodecId stored);

/// What one layer keeps for each token: its kind, stored type, the scales of that type and the window. Scales act only
/// where the stored type has scales (stored = round(x / scale), read = stored * scale); a missing scale is 1.0.
struct CacheSpec {
  CacheKind kind = CacheKind::kPairs;
  int layer = 0;
  int cache_class = 0;  ///< layers of one class share block tables: the same kind and window
  int kv_heads = 0;
  int head_dim = 0;
  std::optional<int> window;
  CodecId stored = CodecId::kF16;  ///< kF32, kF16, kBF16, kE4M3Tensor or kE5M2Tensor
  std::optional<KvScale> k_scale;  ///< one, or one for each KV head
  std::optional<KvScale> v_scale;
  FreshRows fresh = FreshRows::kStored;

  int64_t bytes_per_token() const;  ///< keys and values together
  int64_t row_bytes() const;        ///< of all heads' keys of one token
  /// The scales that act: those above where the stored type has scales, else 1. Values of a latent row are its keys.
  KvScale key_scale() const;
  KvScale value_scale() const;
};

}  // namespace vernier
