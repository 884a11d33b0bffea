#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops_pair.h"

namespace vernier {
namespace {

using testing::OpsPair;
using testing::relative_error;
using testing::StepMaker;

constexpr int kVocab = 300;
constexpr double kTolerance = 1e-5;  // float32 against float64, sums of some hundred terms

/// Both backends at the start of a step of `rows` rows, without a cache.
class CpuOpsTest : public ::testing::Test {
 protected:
  CpuOpsTest() : pair_(Numerics::kExact, 2, 11), steps_({}, 16, 1, 3) { pair_.make_ops({{}, {}, 16}, 64); }

  void begin(int rows, bool sample_all) {
    const int counts[] = {rows};
    view_ = steps_.next(counts, kVocab, sample_all);
    pair_.cpu_ops().begin(view_);
    pair_.ref_ops().begin(view_);
  }

  void expect_equal(const Value& cpu, const Value& ref) {
    std::vector<float> got = pair_.cpu_ops().read(cpu).value();
    std::vector<float> expected = pair_.ref_ops().read(ref).value();
    EXPECT_LE(relative_error(got, expected), kTolerance);
  }

  OpsPair pair_;
  StepMaker steps_;
  StepView view_;
};

TEST_F(CpuOpsTest, EmbeddingIsScaled) {
  auto table = pair_.weight<Split::kNone>(kVocab, 40, false, 1);
  begin(9, false);
  expect_equal(pair_.cpu_ops().embed(table.cpu, 1.7f), pair_.ref_ops().embed(table.ref, 1.7f));
}

// CPU-6
TEST_F(CpuOpsTest, APendingNormTakenTwiceIsRightBothTimes) {
  for (int cols : {40, 37, 8}) {
    auto table = pair_.weight<Split::kNone>(kVocab, cols, false, 1);
    auto first = pair_.weight<Split::kNone>(21, cols, true, 0.3f);
    auto second = pair_.weight<Split::kColumns>(18, cols, false, 0.3f);
    auto down = pair_.weight<Split::kRows>(12, 18, true, 0.3f);
    auto norm = pair_.norm(cols);
    begin(7, false);
    auto run = [&](Ops& ops, auto side) {
      Value normed = ops.rms_norm(ops.embed(side(table), 1), side(norm));
      Value a = ops.linear(normed, side(first));
      Value b = ops.reduce(ops.linear(ops.linear(normed, side(second)), side(down)));
      Value c = ops.linear(normed, side(first));
      std::vector<std::vector<float>> numbers;
      for (const Value* x : {&normed, &a, &b, &c}) numbers.push_back(ops.read(*x).value());
      return numbers;
    };
    auto got = run(pair_.cpu_ops(), [](auto& both) { return both.cpu; });
    auto expected = run(pair_.ref_ops(), [](auto& both) { return both.ref; });
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(relative_error(got[i], expected[i]), kTolerance) << i;
    EXPECT_EQ(got[1], got[3]) << "fused and materialised norms differ";
  }
}

TEST_F(CpuOpsTest, GatesOfBothKinds) {
  auto table = pair_.weight<Split::kNone>(kVocab, 30, false, 2);
  auto up = pair_.weight<Split::kColumns>(74, 30, false, 0.5f);
  auto down = pair_.weight<Split::kRows>(30, 37, true, 0.3f);
  for (Act act : {Act::kSilu, Act::kGeluTanh}) {
    for (int rows : {1, 6}) {
      begin(rows, false);
      auto run = [&](Ops& ops, auto side) {
        return ops.reduce(ops.linear(ops.gate(ops.linear(ops.embed(side(table), 1), side(up)), {act}), side(down)));
      };
      expect_equal(run(pair_.cpu_ops(), [](auto& both) { return both.cpu; }),
                   run(pair_.ref_ops(), [](auto& both) { return both.ref; }));
    }
  }
}

// CPU-6
TEST_F(CpuOpsTest, ResidualsAreAddedOnceAndTheirOtherUsersKeepThem) {
  auto table = pair_.weight<Split::kNone>(kVocab, 30, false, 1);
  auto up = pair_.weight<Split::kColumns>(20, 30, false, 0.5f);
  auto down = pair_.weight<Split::kRows>(30, 20, true, 0.3f);
  auto norm = pair_.norm(30);
  begin(6, false);
  auto run = [&](Ops& ops, auto side) {
    Value x = ops.embed(side(table), 1);
    Value old_norm = ops.rms_norm(x, side(norm));  // still pending when x is added to
    Partial product = ops.linear(ops.linear(x, side(up)), side(down));
    Value sum = ops.reduce_add(std::move(product), std::move(x));
    Value normed = ops.rms_norm(sum, side(norm));
    Value twice = ops.add(std::move(normed), std::move(sum));
    Value both = ops.add(std::move(old_norm), std::move(twice));
    Partial partial = ops.linear(ops.linear(both, side(up)), side(down));
    return ops.reduce_add(std::move(partial), std::move(both));
  };
  expect_equal(run(pair_.cpu_ops(), [](auto& both) { return both.cpu; }),
               run(pair_.ref_ops(), [](auto& both) { return both.ref; }));
}

TEST_F(CpuOpsTest, SampledRowsAndSoftCap) {
  auto table = pair_.weight<Split::kNone>(kVocab, 30, false, 1);
  auto head = pair_.weight<Split::kNone>(kVocab, 30, false, 3);
  for (bool all : {false, true}) {
    begin(5, all);
    auto run = [&](Ops& ops, auto side) {
      return ops.soft_cap(ops.linear(ops.select_rows(ops.embed(side(table), 1)), side(head)), 11);
    };
    Value cpu = run(pair_.cpu_ops(), [](auto& both) { return both.cpu; });
    EXPECT_EQ(cpu.rows(), all ? 5 : 1);
    expect_equal(cpu, run(pair_.ref_ops(), [](auto& both) { return both.ref; }));
  }
}

TEST_F(CpuOpsTest, SamplingIsThatOfTheDefinition) {
  constexpr int kWide = 40000;  // several chunks of logits
  auto table = pair_.weight<Split::kNone>(kVocab, 16, false, 1);
  auto head = pair_.weight<Split::kNone>(kWide, 16, false, 1);
  begin(4, true);
  Ops& ops = pair_.cpu_ops();
  Value logits = ops.linear(ops.embed(table.cpu, 1), head.cpu);
  std::vector<float> numbers = ops.read(logits).value();
  std::vector<SampleSpec> specs(4);
  specs[0].temperature = 0;
  specs[0].top_logprobs = 0;
  specs[1].temperature = 0;
  specs[1].edits = {{5, 100, 1, 0}};
  specs[2].seed = 9;
  specs[2].top_k = 40;
  specs[2].top_logprobs = 0;
  specs[3].top_p = 0.9f;
  // A grammar's mask, also where the largest logit wins: all but the row's best token.
  std::vector<uint32_t> mask((kWide + 31) / 32, ~0U);
  const auto best = std::max_element(numbers.begin(), numbers.begin() + kWide) - numbers.begin();
  mask[static_cast<size_t>(best / 32)] &= ~(1U << (best % 32));
  specs[0].mask = mask;
  for (int round = 0; round < 2; ++round) {  // sampling leaves the logits as they were
    SampledRows got = ops.sample(logits, specs).value();
    for (size_t i = 0; i < specs.size(); ++i) {
      std::vector<float> row(numbers.begin() + static_cast<ptrdiff_t>(i) * kWide,
                             numbers.begin() + static_cast<ptrdiff_t>(i + 1) * kWide);
      SampledToken expected = sample_row(row, specs[i]).value();
      EXPECT_EQ(got[i]->token, expected.token) << i;
      EXPECT_NEAR(got[i]->logprob, expected.logprob, 1e-5) << i;
    }
  }
  EXPECT_EQ(ops.sample(logits, specs).value()[1]->token, 5);
  EXPECT_NE(ops.sample(logits, specs).value()[0]->token, best);
}

// CPU-9
TEST_F(CpuOpsTest, TheLargestLogitGoesToTheLowestIdAndNaNIsAnError) {
  constexpr int kWide = 40000;
  auto one_column = [&](std::vector<float> values) {
    QTensor tensor = QTensor::from_dense(Tensor::from_floats(Shape{kWide, 1}, values), "test").value();
    return Weight<Split::kNone>{"test", pair_.cpu().pack(std::span(&tensor, 1), PackUse::kLinear).value(), nullptr, {}};
  };
  std::vector<float> ones(kVocab, 1.0f);
  QTensor table = QTensor::from_dense(Tensor::from_floats(Shape{kVocab, 1}, ones), "test").value();
  Weight<Split::kNone> embedding{
      "test", pair_.cpu().pack(std::span(&table, 1), PackUse::kEmbedding).value(), nullptr, {}};
  std::vector<float> values(kWide, 0.0f);
  values[39000] = values[20001] = values[20002] = 3;
  SampleSpec greedy;
  greedy.temperature = 0;
  begin(1, true);
  Ops& ops = pair_.cpu_ops();
  {
    Value logits = ops.linear(ops.embed(embedding, 1), one_column(values));
    EXPECT_EQ(ops.sample(logits, std::span(&greedy, 1)).value()[0]->token, 20001);
  }
  values[33333] = std::numeric_limits<float>::quiet_NaN();
  Value logits = ops.linear(ops.embed(embedding, 1), one_column(values));
  EXPECT_FALSE(ops.sample(logits, std::span(&greedy, 1)).value()[0].ok());
}

// OPS-2: no handle outlives its step.
TEST_F(CpuOpsTest, AnActivationOfAnEarlierStepIsRefused) {
  auto table = pair_.weight<Split::kNone>(kVocab, 16, false, 1);
  begin(1, true);
  Value kept = pair_.cpu_ops().embed(table.cpu, 1);
  EXPECT_DEATH(pair_.cpu_ops().begin(view_), "still live");
}

}  // namespace
}  // namespace vernier
