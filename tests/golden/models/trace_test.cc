#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint/strict_json.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"
#include "testing/golden_model.h"
#include "testing/invented_binder.h"
#include "testing/kept_text.h"
#include "testing/step_driver.h"

namespace vernier {
namespace {

using testing::InventedBinder;
using testing::StepDriver;

class GoldenTrace : public ::testing::TestWithParam<const char*> {};

// What a family asks of a backend: op, weights, shapes, windows, rope. A change here changes arithmetic or speed, so it
// is to be meant.
TEST_P(GoldenTrace, IsAsKept) {
  const std::string folder = std::string(VERNIER_TEST_DATA "/models/") + GetParam();
  Config config(read_strict_json(folder + "/config.json").value(), "config.json");
  auto spec = read_decoder(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  NullBackend backend;
  InventedBinder binder(backend, 1);
  auto decoder = Decoder::bind(*spec, binder);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  StepDriver driver(backend, cache_specs(*spec, CodecId::kF16), {});
  driver.begin({{1, 2, 3}});
  auto& ops = dynamic_cast<NullOps&>(driver.ops());
  { Value logits = decoder->head(ops, decoder->forward(ops)); }
  std::ostringstream trace;
  for (const std::string& line : ops.trace()) trace << line << "\n";
  trace << "activations " << ops.peak_bytes() << " bytes, weights " << backend.weight_bytes()
        << " bytes, cache of a token " <<
      [&] {
        int64_t bytes = 0;
        for (const CacheSpec& cache : cache_specs(*spec, CodecId::kF16)) bytes += cache.bytes_per_token();
        return bytes;
      }()
        << " bytes\n";
  testing::expect_kept(folder + "/trace.txt", std::string(GetParam()) + "_trace.txt", trace.str());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTrace, ::testing::ValuesIn(testing::kGoldenModels),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace vernier
