#pragma once

#include "backends/cuda/kernels/decode.h"
#include "backends/cuda/kernels/views.h"

namespace vernier::cuda {

// The largest float that rounds to a number of the type; what lies beyond does not fit.
inline constexpr float kMostF16 = 65519.996f;
inline constexpr float kMostBF16 = 0x1.FEFFFEp127f;
inline constexpr float kMostE4M3 = 464.0f;
inline constexpr float kMostE5M2 = 61439.996f;

VERNIER_ANYWHERE float most_of(KvNumbers stored) {
  return stored == KvNumbers::kF16    ? kMostF16
         : stored == KvNumbers::kBF16 ? kMostBF16
         : stored == KvNumbers::kE4M3 ? kMostE4M3
                                      : kMostE5M2;
}

/// Where a head's numbers of one token begin, in numbers.
template <KvPart P>
VERNIER_ANYWHERE int64_t kv_offset(const KvView<P>& view, int64_t slot, int32_t head) {
  const int64_t block = slot / view.block_tokens, token = slot - block * view.block_tokens;
  return ((block * view.kv_heads + head) * view.block_tokens + token) * view.head_dim;
}

/// The code of a number as KvWriter stores it; `saturated` is raised where it did not fit.
VERNIER_ANYWHERE uint32_t kv_code(KvNumbers stored, float scale, float number, bool& saturated) {
  if (stored == KvNumbers::kF32) return bits_of(number);
  float value = number / scale;
  const float most = most_of(stored);
  // A NaN compares false and stays one.
  if (value > most || value < -most) {
    saturated = true;
    value = value > 0 ? most : -most;
  }
  return stored == KvNumbers::kF16    ? to_f16(value)
         : stored == KvNumbers::kBF16 ? to_bf16(value)
         : stored == KvNumbers::kE4M3 ? to_e4m3(value)
                                      : to_e5m2(value);
}

VERNIER_ANYWHERE float kv_number(KvNumbers stored, float scale, uint32_t code) {
  return stored == KvNumbers::kF32    ? float_of(code)
         : stored == KvNumbers::kF16  ? from_f16(code)
         : stored == KvNumbers::kBF16 ? from_bf16(code)
         : stored == KvNumbers::kE4M3 ? from_e4m3(code) * scale
                                      : from_e5m2(code) * scale;
}

#ifdef __CUDACC__

template <KvPart P>
__device__ __forceinline__ void kv_write(const KvView<P>& view, int64_t at, uint32_t code) {
  if (view.stored == KvNumbers::kF32) {
    reinterpret_cast<uint32_t*>(view.codes)[at] = code;
  } else if (view.stored == KvNumbers::kF16 || view.stored == KvNumbers::kBF16) {
    reinterpret_cast<uint16_t*>(view.codes)[at] = static_cast<uint16_t>(code);
  } else {
    view.codes[at] = static_cast<unsigned char>(code);
  }
}

template <KvNumbers S, KvPart P>
__device__ __forceinline__ float kv_read(const KvView<P>& view, int64_t at, float scale) {
  if constexpr (S == KvNumbers::kF32) {
    return reinterpret_cast<const float*>(view.codes)[at];
  } else if constexpr (S == KvNumbers::kF16 || S == KvNumbers::kBF16) {
    return kv_number(S, scale, reinterpret_cast<const uint16_t*>(view.codes)[at]);
  } else {
    return kv_number(S, scale, view.codes[at]);
  }
}

__device__ __forceinline__ int64_t slot_of(const TableView& table, int32_t sequence, int32_t position) {
  const int32_t first = table.first_position[sequence];
  const int32_t block = table.blocks[table.begin[sequence] + (position - first) / table.block_tokens];
  return int64_t{block} * table.block_tokens + position % table.block_tokens;
}

#endif

}  // namespace vernier::cuda
