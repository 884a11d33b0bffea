#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/built_for.h"
#include "backends/cuda/cuda_entry.h"
#include "backends/cuda/kernel_choice.h"
#include "backends/cuda/kernels/launch.h"
#include "ops/null_backend.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

/// The ranges that a row at `position` really meets.
int32_t ranges_of(int32_t position, std::optional<int> window) {
  const int32_t first = window ? std::max(0, position - *window + 1) : 0;
  return position / cuda::kRangeKeys - first / cuda::kRangeKeys + 1;
}

// A row with more ranges than there is room for would write behind its parts.
TEST(CudaPlan, NoRowMeetsMoreRangesThanPlanned) {
  const std::optional<int> windows[] = {{}, 1, 2, 100, 255, 256, 257, 258, 511, 512, 513, 1000};
  for (std::optional<int> window : windows) {
    for (int32_t end : {1, 2, 255, 256, 257, 512, 513, 1024, 1500, 2049}) {
      int32_t most = 0;
      for (int32_t position = 0; position < end; ++position) most = std::max(most, ranges_of(position, window));
      EXPECT_LE(most, most_ranges(end, window)) << end << " window " << window.value_or(0);
      EXPECT_LE(most_ranges(end, window), most + 1) << end << " window " << window.value_or(0);
    }
  }
}

TEST(CudaPlan, PartsStayWithinTheirBound) {
  for (int32_t rows : {1, 7, 200}) {
    for (int32_t ranges : {2, 500, 4000}) {
      for (int32_t head_dim : {64, 576}) {
        const AttendPlan plan = plan_attend(rows, 4, head_dim, ranges);
        ASSERT_GE(plan.rows_at_once, 1);
        EXPECT_LE(plan.rows_at_once, rows);
        EXPECT_EQ(plan.part_numbers, int64_t{plan.rows_at_once} * 4 * ranges * cuda::attend_part_numbers(head_dim));
        EXPECT_TRUE(plan.rows_at_once == 1 || plan.part_numbers <= 16 << 20) << plan.part_numbers;
      }
    }
  }
  EXPECT_EQ(plan_attend(1, 4, 64, 1).rows_at_once, 0) << "one range has nothing to be merged with";
  EXPECT_EQ(plan_attend(512, 9, 64, 8).rows_at_once, 0) << "many rows keep every processor busy";
}

// A row whose ranges touch more spans than there are places for would write behind its parts.
TEST(CudaPlan, TilesHaveRoomForEverySpan) {
  for (int32_t ranges : {1, 2, 7, 8, 9, 10, 16, 17, 100, 511}) {
    int32_t most = 0;
    for (int32_t first = 0; first < cuda::kSpanRanges; ++first) {
      most = std::max(most, (first + ranges - 1) / cuda::kSpanRanges + 1);
    }
    EXPECT_EQ(cuda::tile_spans(ranges), most) << ranges;
  }
  AttnSpec spec;
  spec.heads = 40;
  spec.kv_heads = 4;
  spec.head_dim = 128;
  EXPECT_EQ(cuda::tile_groups(40, 4), 8) << "ten query heads of a KV head are two groups";
  EXPECT_EQ(plan_attend_tiles(1, spec, 1).rows_at_once, 0);
  EXPECT_EQ(plan_attend_tiles(60, spec, 500).rows_at_once, 0) << "480 blocks keep every processor busy";
  for (int32_t ranges : {2, 64, 6000}) {
    const AttendPlan plan = plan_attend_tiles(40, spec, ranges);
    ASSERT_GE(plan.rows_at_once, 1);
    EXPECT_EQ(plan.part_numbers, plan.rows_at_once * cuda::tile_part_numbers(40, 128, ranges));
    EXPECT_TRUE(plan.rows_at_once == 1 || plan.part_numbers <= 16 << 20) << plan.part_numbers;
  }
  AttnSpec windowed = spec;
  windowed.window = 256;
  EXPECT_EQ(plan_attend_tiles(1, windowed, 2).rows_at_once, 0) << "few leaves are walked";
  windowed.window = 512;
  EXPECT_EQ(plan_attend_tiles(1, windowed, 3).rows_at_once, 1);
}

TEST(CudaPlan, SharedRangesAreEnoughAndFew) {
  int32_t last = 0, kinds = 0;
  for (int32_t ranges = 1; ranges <= 5000; ++ranges) {
    const int32_t shared = shared_ranges(ranges);
    EXPECT_GE(shared, ranges);
    EXPECT_LE(shared, ranges + ranges / 2);
    EXPECT_GE(shared, last);
    kinds += shared != last;
    last = shared;
  }
  EXPECT_LE(kinds, 26);
}

TEST(CudaChoice, TilesTakeWhatTheyCanRead) {
  AttnSpec spec;
  spec.heads = 9;
  spec.kv_heads = 3;
  spec.head_dim = 64;
  CacheSpec cache;
  EXPECT_EQ(judge_attend_tiles(spec, cache).code, ReasonCode::kChosen);
  cache.fresh = FreshRows::kRoundTrip;
  EXPECT_EQ(judge_attend_tiles(spec, cache).code, ReasonCode::kChosen) << "what went through the cache is read there";
  cache.fresh = FreshRows::kComputed;
  EXPECT_EQ(judge_attend_tiles(spec, cache).code, ReasonCode::kShape);
  cache.fresh = FreshRows::kStored;
  cache.stored = CodecId::kF32;
  EXPECT_THAT(judge_attend_tiles(spec, cache).detail, HasSubstr("f32"));
  cache.stored = CodecId::kF16;
  spec.head_dim = 80;
  EXPECT_THAT(judge_attend_tiles(spec, cache).detail, HasSubstr("80"));
  EXPECT_EQ(judge_fused_norm(1, 8192).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_fused_norm(1, 13024).code, ReasonCode::kShape);
  EXPECT_EQ(judge_fused_norm(8, 2048).code, ReasonCode::kShape);
  EXPECT_EQ(judge_fused_norm(9, 64).code, ReasonCode::kShape);
}

TEST(CudaChoice, RefusalsNameTheNumberThatDecided) {
  EXPECT_EQ(judge_attend(5000).code, ReasonCode::kShape);
  EXPECT_THAT(judge_attend(5000).detail, HasSubstr("5000"));
  EXPECT_EQ(judge_attend(576).code, ReasonCode::kChosen);
  ExpertsSpec experts;
  experts.chosen = 8;
  experts.experts = 512;
  EXPECT_EQ(judge_route(experts).code, ReasonCode::kChosen);
  experts.experts = 20000;
  EXPECT_THAT(judge_route(experts).detail, HasSubstr("20000"));
  std::vector<CudaRows> router(1);
  router[0].view.kind = cuda::Codes::kBF16;
  router[0].view.cols = 2880;
  experts.experts = 32;
  EXPECT_EQ(judge_router(router, experts, 64).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_router(router, experts, 65).code, ReasonCode::kSlower);
  router[0].view.cols = 16384;
  EXPECT_THAT(judge_router(router, experts, 1).detail, HasSubstr("65536"));
  router[0].view.cols = 2884;
  EXPECT_EQ(judge_router(router, experts, 1).code, ReasonCode::kShape) << "eight columns are laid out at once";
  router[0].view.cols = 2880;
  experts.experts = 2000;
  EXPECT_EQ(judge_router(router, experts, 1).code, ReasonCode::kShape);
  router[0].fast = cuda::FastCodes::kBF16;
  EXPECT_EQ(judge_router(router, experts, 1).code, ReasonCode::kCodec);
  EXPECT_EQ(judge_product_rows(1 << 20, 8192).code, ReasonCode::kChosen);
  EXPECT_EQ(judge_product_rows(64, 1 << 20).code, ReasonCode::kShape);
}

TEST(CudaChoice, PromptsGoToWarpGroupsWhereOrdersAreFree) {
  AttnSpec spec;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  CacheSpec cache;
  PromptProblem problem{.rows = cuda::kPromptTokens, .block_tokens = 16, .own_orders = true, .warpgroups = true};
  for (CodecId stored : {CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    cache.stored = stored;
    for (int head_dim : {64, 96, 128, 192, 256}) {
      spec.head_dim = head_dim;
      EXPECT_EQ(judge_attend_prompt(spec, cache, problem).code, ReasonCode::kChosen) << head_dim;
      EXPECT_EQ(explain_cuda_attend(spec, cache, problem).chosen().kernel, "attend_prompt");
    }
  }
  const auto refuses = [&](ReasonCode code, std::string_view number, auto change) {
    AttnSpec of = spec;
    CacheSpec in = cache;
    PromptProblem when = problem;
    change(of, in, when);
    const Reason reason = judge_attend_prompt(of, in, when);
    EXPECT_EQ(reason.code, code) << reason.detail;
    EXPECT_THAT(reason.detail, HasSubstr(std::string(number)));
    EXPECT_NE(explain_cuda_attend(of, in, when).chosen().kernel, "attend_prompt");
  };
  refuses(ReasonCode::kRows, "63", [](auto&, auto&, auto& when) { when.rows = 63; });
  refuses(ReasonCode::kShape, "12", [](auto&, auto&, auto& when) { when.block_tokens = 12; });
  refuses(ReasonCode::kShape, "32", [](auto& of, auto&, auto&) { of.head_dim = 32; });
  refuses(ReasonCode::kShape, "f32", [](auto&, auto& in, auto&) { in.stored = CodecId::kF32; });
  // --numerics exact and --deterministic; chips without products of warp groups: sm_80, sm_100, sm_120.
  refuses(ReasonCode::kNumerics, "same rows", [](auto&, auto&, auto& when) { when.own_orders = false; });
  refuses(ReasonCode::kNeedsFeature, "warpgroup_mma", [](auto&, auto&, auto& when) { when.warpgroups = false; });
  EXPECT_TRUE(CudaOptions{}.own_orders());
  EXPECT_FALSE((CudaOptions{.same_rows = true}.own_orders()));
  EXPECT_FALSE((CudaOptions{.numerics = Numerics::kExact}.own_orders()));
}

TEST(CudaChoice, OneAttentionKernelIsChosenWithTheOthersReason) {
  AttnSpec spec;
  spec.heads = 9;
  spec.kv_heads = 3;
  CacheSpec cache;
  spec.head_dim = 64;
  EXPECT_EQ(explain_cuda_attend(spec, cache, {.rows = 1}).chosen().kernel, "attend_tiles");
  // A head that is refused when its cache is made has a choice all the same: no file may end the program.
  for (int head_dim : {80, 5000}) {
    spec.head_dim = head_dim;
    EXPECT_EQ(explain_cuda_attend(spec, cache, {.rows = 1}).chosen().kernel, "attend_ranges_f32");
  }
  for (int64_t rows : {1, 512}) {
    const Choice choice = explain_cuda_attend(spec, cache, {.rows = rows});
    EXPECT_EQ(
        std::ranges::count(choice.candidates, ReasonCode::kChosen, [](const Candidate& of) { return of.reason.code; }),
        1);
    EXPECT_EQ(choice.chosen().kernel, rows == 1 ? "attend_ranges_f32" : "attend_rows_f32");
  }
}

// CUDA-1 (CUDA-7 is check_layers' to see): a build, or a machine, without a GPU is told so and what to use instead.
TEST(CudaBackendEntry, SaysWhatIsMissing) {
  const auto devices = list_cuda_devices();
  if (devices.ok()) GTEST_SKIP() << "a GPU answers here: " << devices->front();
  EXPECT_EQ(devices.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(devices.error().message, HasSubstr("cpu"));
  EXPECT_FALSE(check_cuda_device(0).ok());
  const auto backend = make_cuda_backend({});
  ASSERT_FALSE(backend.ok());
  EXPECT_THAT(backend.error().message, HasSubstr("cpu"));
}

// K04: which GPUs a build's kernels run on, by the rules of binary compatibility; another is named with the build that
// it needs.
TEST(CudaBackendEntry, AGpuThatNothingWasBuiltForIsNamed) {
  struct {
    const char* architectures;
    int major, minor;
    bool runs;
  } const cases[] = {{"90a-real", 9, 0, true},
                     {"90a-real", 10, 0, false},
                     {"90a-real", 8, 9, false},
                     {"90a", 12, 0, false},
                     {"80-real", 8, 0, true},
                     {"80-real", 8, 9, true},
                     {"89-real", 8, 0, false},
                     {"80-real", 9, 0, false},
                     {"80", 12, 0, true},
                     {"80-virtual", 12, 0, true},
                     {"90-virtual", 8, 9, false},
                     {"80-real;90a-real", 9, 0, true},
                     {"80-real;100a-real", 9, 0, false},
                     {"100a-real;120a-real", 12, 0, true},
                     {"120a-real", 12, 1, false},
                     {"", 9, 0, false}};
  for (const auto& one : cases) {
    const Status built = check_built_for(one.architectures, "GPU", one.major, one.minor);
    EXPECT_EQ(built.ok(), one.runs) << one.architectures << " on " << one.major << '.' << one.minor;
  }
  const Status refused = check_built_for("90a-real", "NVIDIA RTX 5090", 12, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"NVIDIA RTX 5090", "12.0", "90a-real", "-DVERNIER_CUDA_ARCHS=120-real", "--backend cpu"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace vernier
