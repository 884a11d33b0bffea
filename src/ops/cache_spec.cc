#include "ops/cache_spec.h"

namespace vernier {

int64_t CacheSpec::row_bytes() const {
  return kv_heads * codec(stored).row_bytes(head_dim);
}

int64_t CacheSpec::bytes_per_token() const {
  return kind == CacheKind::kLatent ? row_bytes() : 2 * row_bytes();
}

}  // namespace vernier
