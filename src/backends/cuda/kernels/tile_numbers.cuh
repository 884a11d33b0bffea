#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backends/cuda/kernels/views.h"

/// What tensor cores multiply: two numbers of 16 bits a register, in the layouts of mma.m16n8k16.
namespace vernier::cuda {

/// How a cache's numbers enter a product: bfloat16 as they are, all others exactly as float16.
constexpr bool enters_as_bf16(KvNumbers stored) {
  return stored == KvNumbers::kBF16;
}

template <bool kBF16>
__device__ __forceinline__ void multiply_tiles(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kBF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The 16-bit number nearest to x; x becomes what it leaves.
template <bool kBF16>
__device__ __forceinline__ uint32_t take_part(float& x) {
  if constexpr (kBF16) {
    const __nv_bfloat16 part = __float2bfloat16_rn(x);
    x -= __bfloat162float(part);
    return __bfloat16_as_ushort(part);
  } else {
    const __half part = __float2half_rn(x);
    x -= __half2float(part);
    return __half_as_ushort(part);
  }
}

/// The same of two, side by side.
template <bool kBF16>
__device__ __forceinline__ uint32_t take_parts(float& x, float& y) {
  const uint32_t low = take_part<kBF16>(x);
  return low | take_part<kBF16>(y) << 16;
}

/// Two neighbouring one-byte numbers of a word as float16; `high`: the upper two.
template <KvNumbers S>
__device__ __forceinline__ uint32_t widened(uint32_t word, bool high) {
  if constexpr (S == KvNumbers::kE5M2) {
    return __byte_perm(word, 0, high ? 0x3424 : 0x1404);  // float16 with fewer digits
  } else {
    const __half2_raw both =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(high ? word >> 16 : word & 0xFFFFu), __NV_E4M3);
    return both.x | static_cast<uint32_t>(both.y) << 16;
  }
}

/// Four neighbouring numbers of one row, the quarter-th of `words`, as two registers.
template <KvNumbers S, int kWords>
__device__ __forceinline__ void four_of_row(const uint32_t (&words)[kWords], int quarter, uint32_t& b0, uint32_t& b1) {
  if constexpr (kv_number_bytes(S) == 2) {
    b0 = words[2 * quarter];
    b1 = words[2 * quarter + 1];
  } else {
    b0 = widened<S>(words[quarter], false);
    b1 = widened<S>(words[quarter], true);
  }
}

/// The j-th numbers of two rows, side by side.
template <KvNumbers S, int kWords>
__device__ __forceinline__ uint32_t two_of_rows(const uint32_t (&first)[kWords], const uint32_t (&second)[kWords],
                                                int j) {
  if constexpr (kv_number_bytes(S) == 2) {
    return __byte_perm(first[j / 2], second[j / 2], j % 2 == 0 ? 0x5410 : 0x7632);
  } else {
    const uint32_t both = __byte_perm(first[j / 4], second[j / 4], j % 4 < 2 ? 0x5140 : 0x7362);
    return widened<S>(both, j % 2 == 1);
  }
}

/// Past the first cache level: a block reads a number once.
template <int kWords>
__device__ __forceinline__ void load_words(const unsigned char* at, uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 4) {
    const uint4 all = __ldcg(reinterpret_cast<const uint4*>(at));
    words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
  } else if constexpr (kWords == 2) {
    const uint2 all = __ldcg(reinterpret_cast<const uint2*>(at));
    words[0] = all.x, words[1] = all.y;
  } else {
    words[0] = __ldcg(reinterpret_cast<const uint32_t*>(at));
  }
}

}  // namespace vernier::cuda
