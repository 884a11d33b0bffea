#include "api/kernel_bench.h"

#include <gmock/gmock.h>

#include "backends/cpu/cpu_backend.h"
#include "models/registry.h"
#include "testing/isa.h"

namespace vernier {
namespace {

const BenchEffort kLittle{1, 3, 1, 1e4, 128};

std::unique_ptr<Backend> processor() {
  return CpuBackend::make({.threads = 1, .isa = testing::requested_isa(), .numerics = Numerics::kFast}).value();
}

KernelTime measured(const KernelWork& work) {
  Result<KernelTime> time = measure_row(*processor(), {"row", work, {}}, kLittle);
  EXPECT_TRUE(time.ok()) << time.error().message;
  return time.ok() ? *time : KernelTime{};
}

TEST(KernelBench, MeasuresEachSortOfRow) {
  EXPECT_GT(measured(AttendWork{2, 1, 64, CodecId::kE4M3Tensor, 100}).seconds, 0);
  EXPECT_GT(measured(AttendWork{2, 1, 64, CodecId::kBF16, 100, 16}).seconds, 0);
  EXPECT_GT(measured(AttendWork{2, 1, 64, CodecId::kBF16, 0, 0, 40}).seconds, 0);
  const KernelTime product = measured(ProductWork{CodecId::kE4M3Block, 192, 256, 4});
  EXPECT_GT(product.seconds, 0);
  EXPECT_EQ(product.bytes, 192 * 256 + 2 * 2 * 4);
  EXPECT_EQ(product.operations, 2 * 192 * 256 * 4);
}

ExpertsWork small_experts(int rows) {
  ExpertsWork work;
  work.spec.experts = 8, work.spec.chosen = 2, work.spec.width = 64, work.spec.normalize = true;
  work.hidden = 64, work.rows = rows;
  return work;
}

// Bytes are those of the experts that some row chose.
TEST(KernelBench, CountsTheExpertsThatAreChosen) {
  constexpr double kExpert = 3 * 64 * (64 / 2 + 64 / 32);
  EXPECT_EQ(measured(small_experts(1)).bytes, 2 * kExpert);
  const double bytes = measured(small_experts(16)).bytes;
  EXPECT_GT(bytes, 2 * kExpert);
  EXPECT_LE(bytes, 8 * kExpert);
}

TEST(KernelBench, DecodesAModelOfANamedShape) {
  const char* config =
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64,
          "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
          "tie_word_embeddings": true, "hidden_act": "silu"})";
  EXPECT_GT(measured(DecodeWork{config, CodecId::kQ4_1, CodecId::kMxfp4, 4}).seconds, 0);
}

TEST(KernelBench, ShapesOfTheTableAreModelsThatCanBeRead) {
  for (const KernelRow& row : kernel_rows("decode ")) {
    ASSERT_TRUE(std::holds_alternative<DecodeWork>(row.work));
    DecodeWork work = std::get<DecodeWork>(row.work);
    Config config(nlohmann::json::parse(work.config), row.name);
    const auto spec = read_decoder(config);
    EXPECT_TRUE(spec.ok()) << row.name << ": " << spec.error().message;
  }
}

TEST(KernelBench, ABackendWithoutAVendorsLibrarySaysSo) {
  const KernelLimits limits = measure_kernel_limits(*processor()).value();
  EXPECT_GT(limits.copy_bytes_per_s, 0);
  EXPECT_FALSE(limits.product_ops_per_s);
  EXPECT_THAT(limits.no_products, ::testing::HasSubstr("cpu"));
}

}  // namespace
}  // namespace vernier
