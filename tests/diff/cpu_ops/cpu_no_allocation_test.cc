#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ops_pair.h"

namespace {

std::atomic<int64_t> allocations{0};

// Apart, because the compiler takes an inlined free() in operator delete for a mismatch.
[[gnu::noinline]] void give_back(void* at) {
  std::free(at);
}

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* at = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) std::abort();
  return at;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept {
  give_back(at);
}
void operator delete(void* at, std::size_t) noexcept {
  give_back(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
  give_back(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  give_back(at);
}

namespace vernier {
namespace {

using testing::OpsPair;
using testing::StepMaker;

ExpertsLayer five_experts(OpsPair& pair, int hidden) {
  ExpertsLayer experts;
  experts.spec.experts = 5;
  experts.spec.chosen = 2;
  experts.spec.width = 24;
  experts.router = pair.weight<Split::kNone>(5, hidden, false, 0.5f).cpu;
  for (int expert = 0; expert < 5; ++expert) {
    experts.gate_up.push_back(pair.weight<Split::kColumns>(48, hidden, false, 0.1f).cpu);
    experts.down.push_back(pair.weight<Split::kRows>(hidden, 24, true, 0.1f).cpu);
  }
  return experts;
}

// CPU-7
TEST(CpuNoAllocation, DecodeStepsAllocateNothingAfterWarmUp) {
  constexpr int kVocab = 400, kHidden = 64, kFfn = 96;
  for (Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    OpsPair pair(numerics, 2, 5);
    AttnLayer layer;
    layer.spec.heads = 4;
    layer.spec.kv_heads = 2;
    layer.spec.head_dim = 16;
    layer.spec.scale = 0.25f;
    layer.spec.rope.dim = 16;
    auto table = pair.weight<Split::kNone>(kVocab, kHidden, false, 1);
    auto qkv = pair.weight<Split::kColumns>(128, kHidden, true, 0.1f);
    auto output = pair.weight<Split::kRows>(kHidden, 64, false, 0.1f);
    auto up = pair.weight<Split::kColumns>(2 * kFfn, kHidden, false, 0.1f);
    auto down = pair.weight<Split::kRows>(kHidden, kFfn, false, 0.1f);
    auto norm = pair.norm(kHidden);
    const ExpertsLayer experts = five_experts(pair, kHidden);
    StepMaker steps({{std::nullopt, 64}}, 16, 2, 1);
    CacheSpec cache;
    cache.kv_heads = 2;
    cache.head_dim = 16;
    pair.make_ops({{cache}, steps.class_blocks(), 16}, 64);
    Ops& ops = pair.cpu_ops();
    SampleSpec greedy;
    greedy.temperature = 0;
    std::vector<SampleSpec> specs(2, greedy);

    int64_t inside = 0;  // allocations between begin and the logits
    auto step = [&](std::initializer_list<int> rows) {
      const StepView& view = steps.next(std::vector<int>(rows), kVocab, false);
      int64_t before = allocations.load();
      ops.begin(view);
      Value x = ops.embed(table.cpu, 1);
      Partial attended = ops.linear(ops.attend(ops.linear(ops.rms_norm(x, norm.cpu), qkv.cpu), layer), output.cpu);
      x = ops.reduce_add(std::move(attended), std::move(x));
      Partial fed = ops.linear(ops.gate(ops.linear(ops.rms_norm(x, norm.cpu), up.cpu), {}), down.cpu);
      x = ops.reduce_add(std::move(fed), std::move(x));
      Partial answers = ops.experts(ops.rms_norm(x, norm.cpu), experts);
      x = ops.reduce_add(std::move(answers), std::move(x));
      Value logits = ops.linear(ops.rms_norm(ops.select_rows(x), norm.cpu), table.cpu);
      inside = allocations.load() - before;
      EXPECT_TRUE(ops.sample(logits, specs).ok());
    };
    step({20, 9});
    EXPECT_GT(inside, 0) << "the count does not work";
    step({1, 1});
    for (int i = 0; i < 200; ++i) {
      step({1, 1});
      ASSERT_EQ(inside, 0) << "step " << i;
    }
    // As many rows as the first step had, which choose other experts.
    for (int i = 0; i < 8; ++i) {
      step({20, 9});
      ASSERT_EQ(inside, 0) << "step of many rows " << i;
    }
  }
}

}  // namespace
}  // namespace vernier
