#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/kv_access.h"

namespace vernier {

/// One layer's keys (or values) as a kernel is handed them: codes, stored type, scales and extents as one value. Keys
/// and values are different types. Owns nothing; lives no longer than its store.
template <KvRole R>
struct KvView {
  std::byte* codes = nullptr;
  CodecId stored = CodecId::kF16;
  const float* scales = nullptr;  ///< [kv_heads] read = stored * scale; 1 for a type without scales
  KvExtents extents;
  bool may_hold_nan = true;  ///< false only where no number that was ever written is one
};

/// Where one sequence's tokens lie: block table entries of its cache class.
struct KvPages {
  const int32_t* blocks = nullptr;
  int32_t first_position = 0;  ///< of the first block's first slot
  int32_t block_tokens = 0;
};

}  // namespace vernier
