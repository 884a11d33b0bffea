#pragma once

#include "backends/cuda/kernels/box_ops.cuh"
#include "backends/cuda/kernels/tensor_ops.cuh"

/// The chip's own instructions for products whose operands both lie in shared memory, brought there by copies of boxes
/// of a matrix.
namespace vernier::cuda {

struct E4M3Numbers {};
struct BF16Numbers {};

#ifdef VERNIER_WARPGROUPS

// ---- clusters: pairs of blocks that reach each other's shared memory ----

__device__ __forceinline__ uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
/// At the barrier that lies at the same place in block `rank`.
__device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// To the same place in both blocks of a pair; each one's barrier hears of it.
__device__ __forceinline__ void copy_box_to_pair(uint32_t to, const CUtensorMap* map, int column, int row,
                                                 uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}

// ---- products of a warp group: 32 bytes of 64 rows of a by as many of 2 kSums rows of b ----

/// sums = a x b, or are added to.
template <bool kAdd, int kSums>
__device__ __forceinline__ void multiply_boxes(E4M3Numbers, float (&sums)[kSums], uint64_t a, uint64_t b) {
  static_assert(kSums == 32 || kSums == 64 || kSums == 96);
  if constexpr (kSums == 32) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31"
        "}, %32, %33, add, 1, 1;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  } else if constexpr (kSums == 64) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"
        "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, add, 1, 1;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24), VERNIER_SUMS8(32),
          VERNIER_SUMS8(40), VERNIER_SUMS8(48), VERNIER_SUMS8(56)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  } else if constexpr (kSums == 96) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"
        "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,"
        "%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
        "}, %96, %97, add, 1, 1;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24), VERNIER_SUMS8(32),
          VERNIER_SUMS8(40), VERNIER_SUMS8(48), VERNIER_SUMS8(56), VERNIER_SUMS8(64), VERNIER_SUMS8(72),
          VERNIER_SUMS8(80), VERNIER_SUMS8(88)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  }
}
template <bool kAdd, int kSums>
__device__ __forceinline__ void multiply_boxes(BF16Numbers, float (&sums)[kSums], uint64_t a, uint64_t b) {
  static_assert(kSums == 32 || kSums == 64 || kSums == 96);
  if constexpr (kSums == 32) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31"
        "}, %32, %33, add, 1, 1, 0, 0;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  } else if constexpr (kSums == 64) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"
        "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, add, 1, 1, 0, 0;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24), VERNIER_SUMS8(32),
          VERNIER_SUMS8(40), VERNIER_SUMS8(48), VERNIER_SUMS8(56)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  } else if constexpr (kSums == 96) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"
        "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,"
        "%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
        "}, %96, %97, add, 1, 1, 0, 0;\n}\n"
        : VERNIER_SUMS8(0), VERNIER_SUMS8(8), VERNIER_SUMS8(16), VERNIER_SUMS8(24), VERNIER_SUMS8(32),
          VERNIER_SUMS8(40), VERNIER_SUMS8(48), VERNIER_SUMS8(56), VERNIER_SUMS8(64), VERNIER_SUMS8(72),
          VERNIER_SUMS8(80), VERNIER_SUMS8(88)
        : "l"(a), "l"(b), "n"(kAdd ? 1 : 0));
  }
}

#endif  // VERNIER_WARPGROUPS

}  // namespace vernier::cuda
