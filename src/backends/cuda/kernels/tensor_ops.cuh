#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

/// The chip's own instructions that products by tensor cores are made of.
namespace vernier::cuda {

/// Two columns as bf16, the first in the low half.
using Pair = uint32_t;

__device__ __forceinline__ Pair pair_of(float low, float high) {
  Pair pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Both halves times both halves. Exact where bf16 has the product.
__device__ __forceinline__ Pair times(Pair a, Pair b) {
  __nv_bfloat162 x, y;
  memcpy(&x, &a, sizeof(x));
  memcpy(&y, &b, sizeof(y));
  const __nv_bfloat162 product = __hmul2(x, y);
  Pair made;
  memcpy(&made, &product, sizeof(made));
  return made;
}

/// sums += a [16 outputs, 16 columns] x b [16 columns, 8 rows]. Chips that have products of a warp group add in the
/// same order there: the bits are the same.
__device__ __forceinline__ void multiply_add(float (&sums)[4], const Pair (&a)[4], Pair b0, Pair b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- copies to shared memory that do not wait ----

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/// kBytes (4 or 16), of which `there` are read, and zeros for the others.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int there = kBytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(there) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to), "l"(from), "n"(kBytes), "r"(there)
                 : "memory");
  }
}
__device__ __forceinline__ void close_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/// Until at most kOpen of the closed groups are under way.
template <int kOpen>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kOpen) : "memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define VERNIER_WARPGROUPS 1

// ---- barriers of shared memory that copies arrive at ----

__device__ __forceinline__ void make_barrier(uint32_t at, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(at), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(at) : "memory");
}
__device__ __forceinline__ void arrive_expecting(uint32_t at, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait_phase(uint32_t at, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(at),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// ---- products of a warp group: a from registers, b [rows, 16 columns] from shared memory ----

/// Rows of 64 columns (128 bytes) whose 16-byte pieces lie at their number xor the row's; eight rows beside each other.
__device__ __forceinline__ uint64_t swizzled_operand(uint32_t address) {
  return (uint64_t{address & 0x3FFFFu} >> 4) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
__device__ __forceinline__ void open_products() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void close_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int kOpen>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kOpen) : "memory");
}

#define VERNIER_SUMS8(at)                                                                                             \
  "+f"(sums[at]), "+f"(sums[at + 1]), "+f"(sums[at + 2]), "+f"(sums[at + 3]), "+f"(sums[at + 4]), "+f"(sums[at + 5]), \
      "+f"(sums[at + 6]), "+f"(sums[at + 7])

/// sums += a [64 outputs, 16 columns] x b [16 columns, 2 kSums rows].
template <int kSums>
__device__ __forceinline__ void group_multiply_add(float (&sums)[kSums], const Pair (&a)[4], uint64_t b) {
  static_assert(kSums == 16 || kSums == 32 || kSums == 64);
  if constexpr (kSums == 16) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kSums == 32) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
        "%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
        "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,"
        "%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24), VERNIER_SUMS8(32),
          VERNIER_SUMS8(40), VERNIER_SUMS8(48), VERNIER_SUMS8(56)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

}  // namespace vernier::cuda
