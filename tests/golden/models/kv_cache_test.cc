#include <gtest/gtest.h>

#include "engine/cache_plan.h"
#include "engine/sequence_runner.h"
#include "testing/backends.h"
#include "testing/golden_model.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::Golden;

/// Models whose checkpoints name an E4M3 cache, with scales for each layer and for keys and values apart.
constexpr const char* kModels[] = {"kv-llama", "kv-gemma3-window", "kv-gpt-oss-window"};
/// Of the spread of the logits: in another order of sums a rounding tie falls the other way. A scale or a mask that is
/// forgotten is above ten times that.
constexpr double kLimit = 5e-3;

class GoldenKvCache : public ::testing::TestWithParam<std::tuple<BackendCase, const char*, FreshRows>> {
 protected:
  void SetUp() override {
    const auto& [of, name, fresh] = GetParam();
    folder_ = std::string(VERNIER_TEST_DATA "/models/") + name;
    golden_ = Golden::read(folder_ + "/golden.safetensors");
    backend_ = of.make().value();
    decoder_.emplace(testing::load_decoder(folder_, *backend_).value());
  }

  CachePlan plan(FreshRows fresh) {
    auto checkpoint = Checkpoint::open(folder_).value();
    CacheOptions options;
    options.fresh = fresh;
    return plan_cache(decoder_->spec(), options, read_cache_source(*checkpoint).value()).value();
  }

  /// The largest difference from the golden's logits, prompts fed `chunk` rows at a time.
  double error(const std::vector<CacheSpec>& caches, int32_t chunk) {
    double most = 0;
    auto runner =
        SequenceRunner::make(*backend_, *decoder_, {.caches = caches, .context_tokens = 64, .chunk_rows = chunk})
            .value();
    for (size_t i = 0; i < golden_.prompts.size(); ++i) {
      runner->reset();
      auto expected = golden_.logits[i].begin();
      const Status fed = runner->feed_for_logits(golden_.prompts[i], [&](std::span<const float> rows) {
        for (float value : rows) {
          const double difference = std::abs(double{value} - *expected++);
          if (!(difference <= most)) most = difference;
        }
      });
      EXPECT_TRUE(fed.ok());
    }
    return most / golden_.spread;
  }

  std::string folder_;
  Golden golden_;
  std::unique_ptr<Backend> backend_;
  std::optional<Decoder> decoder_;
};

// OPS-5, OPS-12, ENGINE-13: the checkpoint's own cache type and scales, for any cut of the prompts.
TEST_P(GoldenKvCache, EqualsTheReferenceImplementation) {
  const CachePlan own = plan(std::get<2>(GetParam()));
  EXPECT_TRUE(own.notes.empty());
  for (int32_t chunk : {1, 7, 64}) {
    EXPECT_LE(error(own.layers, chunk), kLimit) << "chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenKvCache,
                         ::testing::Combine(::testing::ValuesIn(testing::exact_backends()),
                                            ::testing::ValuesIn(kModels),
                                            ::testing::Values(FreshRows::kStored, FreshRows::kRoundTrip)),
                         [](const auto& info) {
                           return testing::test_name(std::get<0>(info.param).name + "_" + std::get<1>(info.param) +
                                                     "_" + std::string(name(std::get<2>(info.param))));
                         });

}  // namespace
}  // namespace vernier
