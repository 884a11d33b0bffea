#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "ops/ref_backend.h"
#include "testing/golden_model.h"
#include "testing/kept_text.h"

namespace vernier {
namespace {

class GoldenLoadReport : public ::testing::TestWithParam<const char*> {};

// CKPT-6: for each tensor of a checkpoint its type, where its scales are and the weight that it became; for each weight
// what was made of it. The reference backend keeps weights as they are stored, so no layout of a machine shows here.
TEST_P(GoldenLoadReport, IsAsKept) {
  const std::string folder = std::string(VERNIER_TEST_DATA "/models/") + GetParam();
  auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  auto config = (*checkpoint)->config();
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  auto spec = read_decoder(*config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  RefBackend backend;
  CheckpointBinder binder(**checkpoint, backend);
  auto decoder = Decoder::bind(*spec, binder);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  Status finished = binder.finish(spec->unneeded);
  ASSERT_TRUE(finished.ok()) << finished.error().to_string();
  testing::expect_kept(folder + "/load_report.txt", std::string(GetParam()) + "_load_report.txt",
                       binder.report().to_string());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLoadReport, ::testing::ValuesIn(testing::kGoldenModels),
                         [](const auto& info) { return testing::test_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Quantised, GoldenLoadReport, ::testing::ValuesIn(testing::kQuantisedModels),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
