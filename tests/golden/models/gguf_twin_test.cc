#include <gtest/gtest.h>

#include "gguf_twin.h"
#include "golden_error.h"
#include "ops/ref_backend.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::Golden;

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
  EXPECT_LE(testing::golden_error(backend, *decoder, golden), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufTwin, ::testing::Values("gemma2", "gpt-oss", "mixtral", "qwen3-moe"),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
