#include "audit/verify_numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/cpu_backend.h"
#include "tensor/tensor.h"
#include "testing/isa.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Backend> cpu(Numerics numerics) {
  return CpuBackend::make({.threads = 2, .isa = testing::requested_isa(), .numerics = numerics}).value();
}

/// A CPU of which one matrix comes out wrong: `share` is added to a few of its numbers.
class FaultyBackend final : public Backend {
 public:
  FaultyBackend(Backend& real, std::string matrix, float share)
      : real_(real), matrix_(std::move(matrix)), share_(share) {}
  std::string_view name() const override { return "faulty"; }
  Features features() const override { return real_.features(); }
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor> segments, PackUse use) override {
    std::vector<QTensor> own(segments.begin(), segments.end());
    for (QTensor& segment : own) {
      if (segment.origin().find(matrix_) == std::string::npos) continue;
      std::vector<float> values = segment.decode();
      for (size_t i = 0; i < values.size(); i += 97) values[i] += share_;
      segment =
          QTensor::from_dense(Tensor::from_floats(Shape{segment.rows(), segment.cols()}, values), "wrong").value();
    }
    return real_.pack(own, use);
  }
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float> values) override {
    return real_.upload(values);
  }
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout& layout) override { return real_.make_kv(layout); }
  Result<std::unique_ptr<Ops>> make_ops(KvStore& kv, int64_t max_rows) override { return real_.make_ops(kv, max_rows); }
  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override {
    return real_.explain_linear(matrix, batch_rows);
  }
  Choice explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const override {
    return real_.explain_attend(spec, cache, batch_rows);
  }

 private:
  Backend& real_;
  std::string matrix_;
  float share_;
};

NumericsReport verify(const std::string& model, Backend& tested, Backend* unquantised, CodecId cache = CodecId::kF16) {
  auto checkpoint = Checkpoint::open(std::string(VERNIER_TEST_DATA) + "/models/" + model);
  EXPECT_TRUE(checkpoint.ok());
  NumericsRequest request{tested, unquantised, std::vector<int32_t>(17), {}};
  std::iota(request.prompt.begin(), request.prompt.end(), 3);
  request.runner.kv_type = cache;
  request.runner.context_tokens = 64;
  request.runner.chunk_rows = 7;
  request.runner.block_tokens = 16;
  Result<NumericsReport> report = verify_numerics(**checkpoint, request);
  EXPECT_TRUE(report.ok()) << report.error().to_string();
  return report.ok() ? *report : NumericsReport{};
}

const NumericsRow* find(const NumericsReport& report, const std::string& op, int layer) {
  for (const NumericsRow& row : report.rows) {
    if (row.op == op && row.layer == layer) return &row;
  }
  return nullptr;
}

class VerifyNumericsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VerifyNumericsTest, EveryOpIsWithinItsBound) {
  auto exact = cpu(Numerics::kExact), fast = cpu(Numerics::kFast);
  for (const NumericsReport& report : {verify(GetParam(), *exact, nullptr), verify(GetParam(), *fast, exact.get())}) {
    EXPECT_TRUE(report.passed()) << report.to_string(false);
    const NumericsRow* attend = find(report, "attend", 1);
    ASSERT_NE(attend, nullptr) << report.to_string(true);
    EXPECT_GT(attend->quantisation, 0) << "a float16 cache rounds";
    EXPECT_GT(attend->fraction, 0);
    EXPECT_NE(find(report, "head", -1), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VerifyNumericsTest,
                         ::testing::Values("llama", "gemma3", "gpt-oss-mxfp4", "qwen2-ct-nvfp4", "deepseek-v2",
                                           "qwen3-moe", "llama-fp8-block"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// AUDIT-4: a broken kernel turns its own op and layer red, and nothing that follows it.
TEST(VerifyNumerics, ABrokenProductIsNamed) {
  auto exact = cpu(Numerics::kExact);
  FaultyBackend faulty(*exact, "layers.1.mlp.down_proj", 2e-4f);
  const NumericsReport report = verify("llama", faulty, nullptr);
  EXPECT_FALSE(report.passed());
  for (const NumericsRow& row : report.rows) {
    EXPECT_EQ(row.passed(), row.op != "down_proj" || row.layer != 1) << row.op << " of layer " << row.layer;
  }
  EXPECT_THAT(report.to_string(false), HasSubstr("FAIL      1 down_proj"));
  EXPECT_EQ(report.to_json()["passed"], false);
}

TEST(VerifyNumerics, FastNumericsSplitTheErrorOfQuantisedRowsFromTheKernels) {
  auto exact = cpu(Numerics::kExact), fast = cpu(Numerics::kFast);
  const NumericsReport report = verify("gpt-oss-mxfp4", *fast, exact.get());
  const NumericsRow* experts = find(report, "experts", 1);
  ASSERT_NE(experts, nullptr);
  EXPECT_GT(experts->quantisation, 10 * experts->kernel);
}

}  // namespace
}  // namespace vernier
