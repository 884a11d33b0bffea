#pragma once

#include "backends/cuda/kernels/box_ops.cuh"
#include "backends/cuda/kernels/tensor_ops.cuh"
#include "backends/cuda/kernels/tile_numbers.cuh"

/// What attention of many rows is made of: products of a warp group with both operands in shared memory or the second
/// one turned, and barriers by name.
namespace vernier::cuda {

__device__ __forceinline__ float power_of(float exponent) {
  float made;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(exponent));
  return made;
}
__device__ __forceinline__ float inverse_of(float number) {
  float made;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(number));
  return made;
}
/// Two numbers of 16 bits, the first in the low half.
template <bool kBF16>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t pair;
  if constexpr (kBF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

/// Four numbers as E4M3, the first in the lowest byte; each becomes what it leaves.
__device__ __forceinline__ uint32_t take_bytes(float (&x)[4]) {
  uint32_t bytes = 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t two = __nv_cvt_float2_to_fp8x2(make_float2(x[i], x[i + 1]), __NV_SATFINITE, __NV_E4M3);
    const uint32_t halves = widened<KvNumbers::kE4M3>(two, false);
    x[i] -= __half2float(__ushort_as_half(static_cast<unsigned short>(halves & 0xFFFFu)));
    x[i + 1] -= __half2float(__ushort_as_half(static_cast<unsigned short>(halves >> 16)));
    bytes |= two << (8 * i);
  }
  return bytes;
}

#ifdef VERNIER_WARPGROUPS

__device__ __forceinline__ void load_shared(uint32_t from, uint32_t (&words)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from));
}
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t a) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t a, uint32_t b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

/// What threads wrote to shared memory is seen by products.
__device__ __forceinline__ void fence_for_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_threads(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// b as [16 rows of the sum, columns], 64 columns of 128 bytes beside each other swizzled as swizzled_operand says, and
/// `stride` bytes on the next 64.
__device__ __forceinline__ uint64_t turned_operand(uint32_t address, uint32_t stride) {
  return (uint64_t{address & 0x3FFFFu} >> 4) | uint64_t{stride >> 4} << 16 | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}

/// Sums that a product made are not read before it was waited for.
template <int kCount>
__device__ __forceinline__ void settle(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define VERNIER_SUMS16(at) VERNIER_SUMS8(at), VERNIER_SUMS8(at + 8)
#define VERNIER_SUMS32(at) VERNIER_SUMS16(at), VERNIER_SUMS16(at + 16)
#define VERNIER_SUMS64(at) VERNIER_SUMS32(at), VERNIER_SUMS32(at + 32)
#define VERNIER_NAMES16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define VERNIER_NAMES32                                                                            \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define VERNIER_NAMES64                                                                            \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"   \
  "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

/// sums = a [64, 16] x b [kColumns, 16], both in shared memory; or += where `add`.
template <bool kBF16, int kColumns>
__device__ __forceinline__ void multiply_shared(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int add) {
  static_assert(kColumns == 64 || kColumns == 128);
#define VERNIER_PRODUCT(count, columns, type, a_at, b_at, add_at)                                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns     \
               "k16.f32." type "." type " {" VERNIER_NAMES##count "}, %" a_at ", %" b_at ", p, 1, 1, 0, 0;\n}\n" \
               : VERNIER_SUMS##count(0)                                                                          \
               : "l"(a), "l"(b), "r"(add))
  if constexpr (kColumns == 64) {
    if constexpr (kBF16) {
      VERNIER_PRODUCT(32, "64", "bf16", "32", "33", "34");
    } else {
      VERNIER_PRODUCT(32, "64", "f16", "32", "33", "34");
    }
  } else {
    if constexpr (kBF16) {
      VERNIER_PRODUCT(64, "128", "bf16", "64", "65", "66");
    } else {
      VERNIER_PRODUCT(64, "128", "f16", "64", "65", "66");
    }
  }
#undef VERNIER_PRODUCT
}

/// sums = a [64, 32] of E4M3 x b [kColumns, 32] of the stored type, both in shared memory; or += where `add`.
template <KvNumbers S, int kColumns>
__device__ __forceinline__ void multiply_bytes(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int add) {
  static_assert(kColumns == 64 || kColumns == 128);
#define VERNIER_PRODUCT(count, columns, type, a_at, b_at, add_at)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns \
               "k32.f32.e4m3." type " {" VERNIER_NAMES##count "}, %" a_at ", %" b_at ", p, 1, 1;\n}\n"       \
               : VERNIER_SUMS##count(0)                                                                      \
               : "l"(a), "l"(b), "r"(add))
  if constexpr (kColumns == 64) {
    if constexpr (S == KvNumbers::kE4M3) {
      VERNIER_PRODUCT(32, "64", "e4m3", "32", "33", "34");
    } else {
      VERNIER_PRODUCT(32, "64", "e5m2", "32", "33", "34");
    }
  } else {
    if constexpr (S == KvNumbers::kE4M3) {
      VERNIER_PRODUCT(64, "128", "e4m3", "64", "65", "66");
    } else {
      VERNIER_PRODUCT(64, "128", "e5m2", "64", "65", "66");
    }
  }
#undef VERNIER_PRODUCT
}

/// sums += a [64, 16] from registers x b [16, kColumns] from shared memory, see turned_operand. `sums` has kColumns
/// / 2.
template <bool kBF16, int kColumns>
__device__ __forceinline__ void multiply_turned(float* sums, const uint32_t* a, uint64_t b) {
  static_assert(kColumns == 32 || kColumns == 64 || kColumns == 128);
#define VERNIER_PRODUCT(count, columns, type, a_at, b_at)                                                     \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" VERNIER_NAMES##count \
               "}, {" a_at "}, %" b_at ", 1, 1, 1, 1;\n"                                                      \
               : VERNIER_SUMS##count(0)                                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  if constexpr (kColumns == 32) {
    if constexpr (kBF16) {
      VERNIER_PRODUCT(16, "32", "bf16", "%16,%17,%18,%19", "20");
    } else {
      VERNIER_PRODUCT(16, "32", "f16", "%16,%17,%18,%19", "20");
    }
  } else if constexpr (kColumns == 64) {
    if constexpr (kBF16) {
      VERNIER_PRODUCT(32, "64", "bf16", "%32,%33,%34,%35", "36");
    } else {
      VERNIER_PRODUCT(32, "64", "f16", "%32,%33,%34,%35", "36");
    }
  } else {
    if constexpr (kBF16) {
      VERNIER_PRODUCT(64, "128", "bf16", "%64,%65,%66,%67", "68");
    } else {
      VERNIER_PRODUCT(64, "128", "f16", "%64,%65,%66,%67", "68");
    }
  }
#undef VERNIER_PRODUCT
}

#endif  // VERNIER_WARPGROUPS

}  // namespace vernier::cuda
