#include <gtest/gtest.h>

#include "gguf_twin.h"
#include "ops/ref_backend.h"
#include "testing/golden_model.h"
#include "testing/step_driver.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::Golden;
using testing::StepDriver;

class GgufTwin : public ::testing::TestWithParam<const char*> {};

// CKPT-9: the same model as a GGUF file gives the same logits: names and metadata, stacks of experts, sinks, YaRN,
// caps, folded norms and row orders.
TEST_P(GgufTwin, EqualsTheReferenceImplementation) {
  const std::string folder = std::string(VERNIER_TEST_DATA "/models/") + GetParam();
  testing::TempFolder temporary;
  const std::string path = temporary.path("twin.gguf");
  Status written = testing::write_gguf_twin(folder, path);
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  RefBackend backend;
  auto decoder = testing::load_decoder(path, backend);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  const Golden golden = Golden::read(folder + "/golden.safetensors");
  StepDriver driver(backend, cache_specs(decoder->spec(), CodecId::kF32),
                    {.sequences = golden.prompts.size(), .max_rows = 128});
  driver.begin(golden.prompts);
  const std::vector<float> logits = *driver.ops().read(decoder->head(driver.ops(), decoder->forward(driver.ops())));
  double error = 0;
  size_t at = 0;
  for (const auto& expected : golden.logits) {
    for (float number : expected) {
      const double difference = std::abs(double{logits.at(at++)} - number);
      if (!(difference <= error)) error = difference;
    }
  }
  EXPECT_LE(error / golden.spread, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufTwin, ::testing::Values("gemma2", "gpt-oss", "mixtral", "qwen3-moe"),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
