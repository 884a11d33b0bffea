#include "ops/cache_spec.h"

namespace vernier {

std::string_view name(FreshRows fresh) {
  return fresh == FreshRows::kStored ? "paged" : fresh == FreshRows::kComputed ? "split" : "split-roundtrip";
}

bool is_cache_type(CodecId stored) {
  return stored == CodecId::kF32 || stored == CodecId::kF16 || stored == CodecId::kBF16 || has_cache_scale(stored);
}

bool has_cache_scale(CodecId stored) {
  return stored == CodecId::kE4M3Tensor || stored == CodecId::kE5M2Tensor;
}

std::string_view cache_type_name(CodecId stored) {
  if (stored == CodecId::kE4M3Tensor) return "fp8_e4m3";
  if (stored == CodecId::kE5M2Tensor) return "fp8_e5m2";
  return codec(stored).name;
}

int64_t CacheSpec::row_bytes() const {
  return kv_heads * codec(stored).row_bytes(head_dim);
}

int64_t CacheSpec::bytes_per_token() const {
  return kind == CacheKind::kLatent ? row_bytes() : 2 * row_bytes();
}

KvScale CacheSpec::key_scale() const {
  return has_cache_scale(stored) && k_scale ? *k_scale : KvScale(1);
}

KvScale CacheSpec::value_scale() const {
  if (kind == CacheKind::kLatent) return key_scale();
  return has_cache_scale(stored) && v_scale ? *v_scale : KvScale(1);
}

}  // namespace vernier
