#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "backends/cpu/cpu_tactics.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/linear_tuner.h"
#include "base/log_sink.h"
#include "diff/cpu_linear/random_matrix.h"
#include "testing/isa.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using testing::random_matrix;
using testing::random_rows;

ThreadPool& pool() {
  static ThreadPool pool(2);
  return pool;
}

std::shared_ptr<const CpuMatrix> packed(std::span<const QTensor> parts, Isa isa, Numerics numerics,
                                        LinearTactics* tactics = nullptr) {
  auto matrix = pack_matrix(parts, PackUse::kLinear, isa, numerics, pool(), nullptr, tactics);
  CHECK(matrix.ok(), "{}", matrix.error().to_string());
  return std::move(matrix).value();
}

std::vector<float> product(const CpuMatrix& matrix, const std::vector<float>& x, int64_t tokens) {
  LinearScratch scratch(pool().threads());
  std::vector<float> out(static_cast<size_t>(tokens * matrix.rows()), std::numeric_limits<float>::quiet_NaN());
  linear(pool(), scratch, matrix, {x.data(), tokens, matrix.cols(), matrix.cols(), {}},
         {out.data(), matrix.rows(), nullptr, false});
  return out;
}

std::string text_of(const LinearPlan& plan, const CpuMatrix& matrix) {
  return name_plan(plan, matrix, matrix.segments().front()).to_string();
}

TacticScope scope() {
  return cpu_tactic_scope(testing::requested_isa(), 2).value();
}

Tactic tactic_of(const LinearPlan& plan, const CpuMatrix& matrix, int64_t rows, const TacticScope& scope) {
  Tactic tactic;
  tactic.problem = linear_problem(matrix, matrix.segments().front(), rows);
  tactic.chosen = name_plan(plan, matrix, matrix.segments().front());
  tactic.device = scope.device;
  tactic.version = "test";
  return tactic;
}

std::shared_ptr<TacticStore> empty_store() {
  return std::make_shared<TacticStore>(scope(), TacticStoreOptions());
}

class CpuPlan : public ::testing::TestWithParam<int> {
 protected:
  const Codec& codec() const { return all_codecs()[static_cast<size_t>(GetParam())]; }
};

// CPU-13: which plan a tactic names, if any, changes no bit of a result, in either numerics, on every level.
TEST_P(CpuPlan, EveryCandidateGivesTheBitsOfTheFixedPlanCpu13) {
  const int64_t cols =
      codec().column_multiple() > 1 ? codec().column_multiple() * (codec().group_cols == 256 ? 4 : 35) : 1100;
  const QTensor tensor = random_matrix(codec(), 37 * 3, cols, 11);
  for (Isa isa : machine_isas()) {
    for (Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
      const auto matrix = packed({&tensor, 1}, isa, numerics);
      for (int64_t tokens : {1, 2, 5, 8, 16, 64, 300}) {
        if (isa != machine_isas().back() && tokens > 16) continue;
        const std::vector<float> x = random_rows(tokens, cols, 7);
        const std::vector<float> want = product(*matrix, x, tokens);
        CpuMatrix view = view_of_kind(*matrix, matrix->segments().front());
        PreparedLinear prepared;
        view.set_prepared(0, prepared);
        for (const LinearPlan& plan : linear_candidates(view, view.segments().front(), tokens, 2)) {
          prepared.set(tokens, plan);
          const std::vector<float> got = product(view, x, tokens);
          ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
              << codec().name << " " << name(isa) << " " << tokens << " rows: " << text_of(plan, view);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachCodec, CpuPlan, ::testing::Range(0, static_cast<int>(all_codecs().size())),
                         [](const auto& info) {
                           std::string name(all_codecs()[static_cast<size_t>(info.param)].name);
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name + std::to_string(info.param);
                         });

// CPU-14: a plan is what its name says, and a name that says another thing is refused.
TEST(CpuPlanNames, APlanIsReadBackAsItWasNamedCpu14) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 400, 2048, 3);
  const auto matrix = packed({&tensor, 1}, machine_isas().back(), Numerics::kFast);
  const MatrixSegment& segment = matrix->segments().front();
  std::set<std::string> names;
  for (int64_t rows : {1, 16, 512}) {
    names.clear();
    const std::vector<LinearPlan> plans = linear_candidates(*matrix, segment, rows, 2);
    EXPECT_EQ(plans.front(), fixed_plan(*matrix, segment, rows, 2)) << "the fixed plan is measured, too";
    EXPECT_GE(plans.size(), 4u) << rows;
    for (const LinearPlan& plan : plans) {
      const NamedKernel named = name_plan(plan, *matrix, segment);
      EXPECT_TRUE(names.insert(named.to_string()).second) << named.to_string();
      EXPECT_FALSE(named.kernel_hash.empty()) << named.to_string();
      const Result<LinearPlan> read = read_plan(named, *matrix, segment, rows, 2);
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_EQ(*read, plan) << named.to_string();
    }
  }
}

TEST(CpuPlanNames, WhatCannotServeIsRefusedWithItsReasonCpu14) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 40, 64, 3);
  const auto matrix = packed({&tensor, 1}, Isa::kBaseline, Numerics::kFast);
  const auto refusal = [&](const std::string& kernel, Facts parameters, int64_t rows = 1) {
    const auto read = read_plan({kernel, "", std::move(parameters)}, *matrix, matrix->segments().front(), rows, 2);
    return read.ok() ? std::string("taken") : read.error().message;
  };
  EXPECT_EQ(refusal("int8_tile_baseline", {}), "taken");
  EXPECT_THAT(refusal("int8_tile_avx2", {}),
              HasSubstr("no kernel here is called int8_tile_avx2; there are int8_stream"));
  EXPECT_THAT(refusal("float_stream_baseline", {}), HasSubstr("float_stream_baseline cannot serve this: codec"));
  EXPECT_THAT(refusal("int8_stream_baseline", {}, 65), HasSubstr("rows, made for up to 64 rows; this step has 65"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"chunk_panels", "0"}}), HasSubstr("chunk_panels=0; expected 1 to 64"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"chunk_panels", "4x"}}), HasSubstr("chunk_panels=4x"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"rows_at_once", "257"}}), HasSubstr("expected 1 to 256"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"cols_at_once", "33"}}), HasSubstr("expected a multiple of 32"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"threads", "3"}}), HasSubstr("expected 1 to 2"));
  EXPECT_THAT(refusal("int8_tile_baseline", {{"unroll", "3"}}), HasSubstr("has no parameter unroll"));
  EXPECT_THAT(refusal("int8_stream_baseline", {{"cols_at_once", "32"}}), HasSubstr("has no parameter cols_at_once"));
}

/// Of a fused weight whose parts share a codec, and of one whose parts do not.
TEST(CpuTactics, AProductRunsByItsTacticAndCountsWhatHasNone) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const QTensor q = random_matrix(codec(CodecId::kQ4_1), 48, 64, 5), v = random_matrix(codec(CodecId::kQ8_0), 8, 64, 7);
  const QTensor parts[] = {q, v, q};
  LinearTactics tactics(2);
  const std::shared_ptr<TacticStore> store = empty_store();
  ASSERT_TRUE(tactics.use(store, {}).ok());
  const auto matrix = packed(parts, isa, Numerics::kFast, &tactics);
  const MatrixSegment &first = matrix->segments()[0], &second = matrix->segments()[1];
  EXPECT_EQ(first.prepared, matrix->segments()[2].prepared);
  EXPECT_NE(first.prepared, second.prepared);

  LinearPlan plan = fixed_plan(*matrix, first, 1, 2);
  plan.kernel = LinearKernel::kIntTile;
  plan.cols_at_once = 32;
  plan.rows_at_once = 16;
  const CpuMatrix view = view_of_kind(*matrix, first);
  ASSERT_TRUE(store->commit(tactic_of(plan, view, 1, scope())).ok());
  EXPECT_EQ(choose_linear(*matrix, first, 1, nullptr), LinearKernel::kIntStream) << "looked at when it is refreshed";
  ASSERT_TRUE(tactics.refresh().ok());
  EXPECT_EQ(plan_linear(*matrix, first, 1, 2), plan);
  EXPECT_EQ(choose_linear(*matrix, first, 2, nullptr), LinearKernel::kIntStream);
  EXPECT_EQ(choose_linear(*matrix, second, 1, nullptr), LinearKernel::kIntStream);
  const Choice told = explain_linear(*matrix, 1).at(0);
  EXPECT_TRUE(told.chosen().kernel.starts_with("int8_tile")) << told.chosen().kernel;
  EXPECT_THAT(facts_text(told.chosen().parameters), HasSubstr("cols_at_once=32"));
  EXPECT_EQ(told.chosen().reason.detail, "by its tactic");

  const std::vector<float> x = random_rows(3, 64, 1);
  product(*matrix, x, 1);
  product(*matrix, x, 3);
  const std::vector<UntunedLaunches> untuned = tactics.untuned();
  ASSERT_EQ(untuned.size(), 2u);
  EXPECT_EQ(untuned[0].shape, "96x64 q4_1");
  EXPECT_EQ(untuned[0].launches, 1) << "the step of one row has a tactic";
  EXPECT_EQ(untuned[1].launches, 2);
}

/// C01: a record that names what cannot serve here is as if there were none.
TEST(CpuTactics, ATacticThatCannotServeIsNotUsedAndALineSaysSo) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 48, 64, 5);
  LinearTactics tactics(2);
  const std::shared_ptr<TacticStore> store = empty_store();
  const auto plain = packed({&tensor, 1}, isa, Numerics::kFast);
  Tactic tactic = tactic_of(fixed_plan(*plain, plain->segments()[0], 1, 2), *plain, 1, scope());
  tactic.chosen.parameters = {{"chunk_panels", "1000000"}};
  ASSERT_TRUE(store->commit(tactic).ok());
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  ASSERT_TRUE(tactics.use(store, {}).ok());
  const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast, &tactics);
  set_log_sink({});
  EXPECT_EQ(matrix->segments()[0].prepared->find(1), nullptr);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("is not used: int8_stream"));
}

TEST(CpuTactics, APinComesFirstAndOneThatCannotServeIsRefused) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const std::string tile = fmt::format("int8_tile_{}", isa == Isa::kAmx ? "amx" : name(isa));
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 48, 64, 5);
  LinearTactics tactics(2);
  TacticUse use;
  use.pins = {TacticPin::parse("linear[48x64] batch=4 => " + tile + " rows_at_once=8").value()};
  ASSERT_TRUE(tactics.use(nullptr, use).ok());
  const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast, &tactics);
  EXPECT_EQ(plan_linear(*matrix, matrix->segments()[0], 3, 2).rows_at_once, 8);
  EXPECT_EQ(choose_linear(*matrix, matrix->segments()[0], 1, nullptr), LinearKernel::kIntStream);
  use.pins = {TacticPin::parse("linear => nothing").value()};
  const Status refused = tactics.use(nullptr, use);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("pin 'linear => nothing' for linear(codec=q4_1, rows=48"));
  EXPECT_THAT(refused.error().message, HasSubstr(tile));
}

// TUNE-19: a product whose record promised too much is told of in the log once, in the store, and where a server
// counts.
TEST(CpuTactics, ATacticThatProvesSlowerIsToldTune19) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 48, 64, 5);
  const auto plain = packed({&tensor, 1}, isa, Numerics::kFast);
  for (const bool promised : {true, false}) {
    const std::shared_ptr<TacticStore> store = empty_store();
    Tactic tactic = tactic_of(fixed_plan(*plain, plain->segments()[0], 1, 2), *plain, 1, scope());
    tactic.time = {promised ? 1.0 : 1e12, 0, 15};
    const TacticKey key = tactic_key(tactic.problem);
    ASSERT_TRUE(store->commit(tactic).ok());
    LinearTactics tactics(2);
    TacticUse use;
    use.watch_every = 2;
    ASSERT_TRUE(tactics.use(store, use).ok());
    const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast, &tactics);
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    const std::vector<float> x = random_rows(1, 64, 7);
    for (int i = 0; i < 2 * TacticWatch::kSamples - 1; ++i) product(*matrix, x, 1);
    EXPECT_TRUE(lines.empty());
    for (int i = 0; i < 200; ++i) product(*matrix, x, 1);
    set_log_sink({});
    EXPECT_EQ(store->slower(key).has_value(), promised);
    EXPECT_EQ(tactics.untuned()[0].slower, promised ? 1 : 0);
    ASSERT_EQ(lines.size(), promised ? 1u : 0u);
    for (const std::string& line : lines) {
      EXPECT_THAT(line, HasSubstr("in the median of 32 launches and was measured with 0.0 us"));
    }
  }
}

// CPU-13: with other kernels and cuts for each number of rows, a row's bits are those that it has alone: the choice
// that is made by the shape of a step shows nowhere, so answers repeat with tactics as they do without.
TEST_P(CpuPlan, ARowIsTheSameAloneAndInACrowdByWhateverTacticsCpu13) {
  const int64_t cols = codec().column_multiple() > 1 ? codec().column_multiple() * 4 : 264;
  const QTensor tensor = random_matrix(codec(), 72, cols, 11);
  const auto matrix = packed({&tensor, 1}, choose_isa(testing::requested_isa()).value(), Numerics::kFast);
  const std::vector<float> x = random_rows(300, cols, 7);
  for (size_t turn = 0; turn < 4; ++turn) {
    CpuMatrix view = view_of_kind(*matrix, matrix->segments().front());
    PreparedLinear prepared;
    view.set_prepared(0, prepared);
    for (int bucket = 0; bucket < kBatchBuckets; ++bucket) {
      const auto plans = linear_candidates(view, view.segments().front(), bucket_rows(bucket), 2);
      prepared.set(bucket_rows(bucket), plans[(turn * 3 + static_cast<size_t>(bucket)) % plans.size()]);
    }
    for (int64_t tokens : {2, 3, 7, 16, 60, 300}) {
      const std::vector<float> crowd = product(view, {x.begin(), x.begin() + tokens * cols}, tokens);
      for (int64_t row : {int64_t{0}, tokens / 2, tokens - 1}) {
        const std::vector<float> alone = product(view, {x.begin() + row * cols, x.begin() + (row + 1) * cols}, 1);
        ASSERT_EQ(std::memcmp(alone.data(), crowd.data() + row * view.rows(), alone.size() * sizeof(float)), 0)
            << codec().name << ", row " << row << " of " << tokens << ", turn " << turn;
      }
    }
  }
}

/// Skipped ops keep their fixed choice, whatever is known.
TEST(CpuTactics, ASkippedOpTakesNone) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 48, 64, 5);
  LinearTactics tactics(2);
  const std::shared_ptr<TacticStore> store = empty_store();
  const auto plain = packed({&tensor, 1}, isa, Numerics::kFast);
  ASSERT_TRUE(store->commit(tactic_of(fixed_plan(*plain, plain->segments()[0], 1, 2), *plain, 1, scope())).ok());
  ASSERT_TRUE(tactics.use(store, {{"linear"}, {}}).ok());
  const auto matrix = packed({&tensor, 1}, isa, Numerics::kFast, &tactics);
  EXPECT_EQ(matrix->segments()[0].prepared->find(1), nullptr);
  ASSERT_TRUE(tactics.use(store, {}).ok());
  EXPECT_NE(matrix->segments()[0].prepared->find(1), nullptr);
}

/// What is measured is this matrix, and every candidate is compared before it is timed.
TEST(CpuTuner, MeasuresEveryCandidateOfAMatrix) {
  const Isa isa = choose_isa(testing::requested_isa()).value();
  const QTensor parts[] = {random_matrix(codec(CodecId::kQ4_1), 64, 512, 5),
                           random_matrix(codec(CodecId::kQ8_0), 16, 512, 6)};
  for (Numerics numerics : {Numerics::kFast, Numerics::kExact}) {
    const auto matrix = packed(parts, isa, numerics);
    for (const MatrixSegment* kind : linear_kinds(*matrix)) {
      for (int64_t rows : {1, 16}) {
        LinearTuner tuner(pool(), *matrix, *kind, rows);
        const Result<Measured> found = tuner.measure({});
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_GT(found->time.median_ns, 0);
        EXPECT_GE(found->time.repeats, 3);
        EXPECT_GT(found->first_ns, 0);
        for (const TriedCandidate& tried : found->others) {
          EXPECT_TRUE(tried.verdict == "slower" || tried.verdict == "tie" || tried.verdict == "unclear")
              << tried.named.to_string() << ": " << tried.verdict << ", " << tried.detail;
        }
      }
    }
  }
}

/// C11: what would take too much memory is refused before it takes any.
TEST(CpuTuner, AMemoryBudgetIsKept) {
  const QTensor tensor = random_matrix(codec(CodecId::kQ4_1), 64, 512, 5);
  const auto matrix = packed({&tensor, 1}, Isa::kBaseline, Numerics::kFast);
  LinearTuner tuner(pool(), *matrix, matrix->segments()[0], 1);
  MeasureRules rules;
  rules.most_bytes = tuner.needed_bytes() - 1;
  const Result<Measured> found = tuner.measure(rules);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace vernier
