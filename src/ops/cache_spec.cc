#include "ops/cache_spec.h"

namespace vernier {

int64_t CacheSpec::bytes_per_token() const {
  return 2 * kv_heads * codec(stored).row_bytes(head_dim);
}

}  // namespace vernier
