#include "audit/calibrate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "engine/cache_plan.h"
#include "engine/sequence_runner.h"
#include "testing/backends.h"
#include "testing/golden_model.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;

std::string folder(const std::string& model) {
  return std::string(VERNIER_TEST_DATA "/models/") + model;
}

std::vector<int32_t> text(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((37 * i * i + 11 * i + 5) % 311);
  return tokens;
}

std::unique_ptr<Backend> cpu() {
  return testing::exact_backends().back().make().value();
}

Calibration calibrated(const std::string& model, const std::vector<int32_t>& tokens, const CalibrateOptions& options) {
  auto checkpoint = Checkpoint::open(folder(model)).value();
  auto made = calibrate_cache(*checkpoint, cpu(), tokens, options);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *std::move(made);
}

/// The cache of a model under the side-car, as `--kv-scales` plans it.
std::vector<CacheSpec> planned(const std::string& model, const CacheScaleFile& file, const std::string& path) {
  CacheScaleFile named = file;
  named.path = path;
  EXPECT_TRUE(named.write().ok());
  auto checkpoint = Checkpoint::open(folder(model)).value();
  Config config = checkpoint->config().value();
  const DecoderSpec spec = read_decoder(config).value();
  CacheOptions options;
  options.stored = file.stored;
  options.scales_file = path;
  options.missing = MissingScale::kError;
  return plan_cache(spec, options, {}).value().layers;
}

/// Numbers that do not fit, of each layer, where a text runs under these scales.
std::vector<int64_t> saturated(const std::string& model, const std::vector<CacheSpec>& caches,
                               const std::vector<int32_t>& tokens) {
  auto backend = cpu();
  Decoder decoder = testing::load_decoder(folder(model), *backend).value();
  auto runner = SequenceRunner::make(*backend, decoder, {.caches = caches, .context_tokens = 64}).value();
  EXPECT_TRUE(runner->feed(tokens).ok());
  return runner->saturated();
}

class Calibrate : public ::testing::TestWithParam<std::tuple<const char*, bool, CodecId>> {};

/// The same with scales that bring just the largest number that was seen to the largest code, times `factor`.
std::vector<CacheSpec> with_scales(std::vector<CacheSpec> caches, const Calibration& made, bool of_keys, float factor) {
  const float limit = made.file.stored == CodecId::kE4M3Tensor ? 448 : 57344;
  for (size_t i = 0; i < caches.size(); ++i) {
    std::vector<float> scales = of_keys ? made.layers[i].k_largest : made.layers[i].v_largest;
    for (float& value : scales) value *= factor / limit;
    (of_keys ? caches[i].k_scale : caches[i].v_scale) = KvScale::make(scales, "test").value();
  }
  return caches;
}

// AUDIT-11, cases A33 and A34: the largest numbers are exactly those that are written, of every token: for keys and for
// values of each layer apart nothing saturates under a scale for just them, and something does where it is smaller by
// more than what rounding to the largest code forgives. Nothing saturates under the side-car.
TEST_P(Calibrate, ScalesHoldWhatIsWrittenAndNoMore) {
  const auto& [model, per_head, stored] = GetParam();
  const std::vector<int32_t> tokens = text(60);
  CalibrateOptions options;
  options.per_head = per_head;
  options.stored = stored;
  options.margin = 1;
  const Calibration made = calibrated(model, tokens, options);
  testing::TempFolder written;
  const std::vector<CacheSpec> caches = planned(model, made.file, written.path("scales.json"));
  EXPECT_EQ(caches[0].k_scale->per_head(), per_head && caches[0].kv_heads > 1);
  EXPECT_THAT(saturated(model, caches, tokens), Each(0));
  for (bool of_keys : {true, false}) {
    if (!of_keys && caches[0].kind == CacheKind::kLatent) continue;
    EXPECT_THAT(saturated(model, with_scales(caches, made, of_keys, 1.0001f), tokens), Each(0)) << of_keys;
    EXPECT_THAT(saturated(model, with_scales(caches, made, of_keys, 1 / 1.15f), tokens), Each(Gt(0))) << of_keys;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Calibrate,
                         ::testing::Values(std::tuple("llama", false, CodecId::kE4M3Tensor),
                                           std::tuple("llama", true, CodecId::kE5M2Tensor),
                                           std::tuple("qwen3", true, CodecId::kE4M3Tensor),
                                           std::tuple("gemma3", true, CodecId::kE4M3Tensor),
                                           std::tuple("gpt-oss", false, CodecId::kE4M3Tensor),
                                           std::tuple("deepseek-v2", true, CodecId::kE4M3Tensor)),
                         [](const auto& info) {
                           return testing::test_name(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_heads_" : "_layers_") +
                                  (std::get<2>(info.param) == CodecId::kE4M3Tensor ? "e4m3" : "e5m2");
                         });

// The observer computes norms and rotations itself; where a cache is read back without rounding, its largest numbers
// are those. Keys and values of a layer differ, and so do layers: none could stand for another.
TEST(CalibrateCache, LayersAndRolesHaveLargestNumbersOfTheirOwn) {
  const Calibration made = calibrated("llama", text(40), {});
  std::vector<float> all;
  for (const CalibratedLayer& layer : made.layers) {
    ASSERT_EQ(layer.k_largest.size(), 1u);
    all.insert(all.end(), {layer.k_largest[0], layer.v_largest[0]});
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// A33: no layer is left out, whichever kind of cache it has; the side-car would be one for another model.
TEST(CalibrateCache, EveryLayerHasItsScales) {
  for (const char* model : {"llama", "gemma3", "gpt-oss", "deepseek-v2"}) {
    auto checkpoint = Checkpoint::open(folder(model)).value();
    Config config = checkpoint->config().value();
    const CachePlan plan = plan_cache(read_decoder(config).value(), {}, {}).value();
    const Calibration made = calibrated(model, text(10), {});
    EXPECT_EQ(made.layers.size(), plan.layers.size()) << model;
    EXPECT_EQ(made.file.layers.size(), plan.layers.size()) << model;
    for (const CacheSpec& cache : plan.layers) {
      const auto found = made.file.layers.find(cache.layer);
      ASSERT_NE(found, made.file.layers.end()) << model << " layer " << cache.layer;
      EXPECT_FALSE(found->second.k.empty()) << model << " layer " << cache.layer;
      EXPECT_FALSE(found->second.v.empty()) << model << " layer " << cache.layer;
    }
  }
}

// A34: all of the text counts, whatever sequence or chunk it stands in.
TEST(CalibrateCache, TheLastSequenceCountsLikeTheFirst) {
  std::vector<int32_t> tokens = text(50);
  const auto largest = [&](std::span<const int32_t> of) {
    CalibrateOptions options;
    options.window = 10;
    options.prefix = {1};
    return calibrated("llama", {of.begin(), of.end()}, options).layers;
  };
  const auto all = largest(tokens);
  std::vector<std::vector<CalibratedLayer>> parts;  // nine tokens of text in each
  for (size_t at = 0; at < tokens.size(); at += 9) {
    parts.push_back(largest(std::span(tokens).subspan(at, std::min<size_t>(9, tokens.size() - at))));
  }
  for (size_t layer = 0; layer < all.size(); ++layer) {
    float k = 0, v = 0;
    for (const auto& part : parts) k = std::max(k, part[layer].k_largest[0]), v = std::max(v, part[layer].v_largest[0]);
    EXPECT_FLOAT_EQ(all[layer].k_largest[0], k) << layer;
    EXPECT_FLOAT_EQ(all[layer].v_largest[0], v) << layer;
  }
}

// A scale is that of its layer and its role: none is left out, and none changes places, as the numbers differ widely.
TEST(CalibrateCache, AScaleIsAPowerOfTwoWithTheMarginInIt) {
  CalibrateOptions options;
  options.per_head = true;
  options.margin = 3;
  const Calibration made = calibrated("qwen3", text(20), options);
  ASSERT_EQ(made.layers.size(), made.file.layers.size());
  const auto expect_fit = [](const std::vector<float>& scales, const std::vector<float>& largest) {
    ASSERT_EQ(scales.size(), largest.size());
    for (size_t head = 0; head < scales.size(); ++head) {
      int exponent = 0;
      EXPECT_EQ(std::frexp(scales[head], &exponent), 0.5f);
      EXPECT_GE(scales[head] * 448, largest[head] * 3);
      EXPECT_LT(scales[head] * 224, largest[head] * 3);
    }
  };
  bool differ = false;
  for (const CalibratedLayer& layer : made.layers) {
    const CacheScaleFile::Scales& scales = made.file.layers.at(layer.layer);
    expect_fit(scales.k, layer.k_largest);
    expect_fit(scales.v, layer.v_largest);
    differ = differ || scales.k != scales.v;
  }
  EXPECT_TRUE(differ) << "the model does not tell keys from values";
}

TEST(CalibrateCache, NothingIsClippedAndNoTextIsNoScale) {
  const auto refusal = [&](const char* model, const std::vector<int32_t>& tokens, const CalibrateOptions& options) {
    auto checkpoint = Checkpoint::open(folder(model)).value();
    return calibrate_cache(*checkpoint, std::make_unique<RefBackend>(), tokens, options).error().message;
  };
  CalibrateOptions small, narrow;
  small.margin = 0.9;
  narrow.window = 1;
  narrow.prefix = {1};
  EXPECT_THAT(refusal("llama", {}, {}), HasSubstr("no token"));
  EXPECT_THAT(refusal("llama", {1, 2}, small), HasSubstr("margin"));
  EXPECT_THAT(refusal("llama", {1, 2}, narrow), HasSubstr("none is left"));
  EXPECT_THAT(refusal("bert", {1, 2}, {}), HasSubstr("encoder"));
}

// AUDIT-8: a side-car has its name only when it is whole; what stood there stays where it cannot be written.
TEST(CacheScaleFile, IsWrittenWholeOrNotAtAll) {
  testing::TempFolder written;
  CacheScaleFile file = calibrated("llama", text(20), {}).file;
  file.path = written.path("scales.json");
  ASSERT_TRUE(file.write().ok());
  EXPECT_FALSE(std::filesystem::exists(file.path + ".partial"));
  const CacheScaleFile read = CacheScaleFile::read(file.path).value();
  ASSERT_EQ(read.layers.size(), file.layers.size());
  for (const auto& [layer, scales] : file.layers) {
    EXPECT_EQ(read.layers.at(layer).k, scales.k);
    EXPECT_EQ(read.layers.at(layer).v, scales.v);
  }
  file.path = written.path("no/such/folder.json");
  EXPECT_THAT(file.write().error().message, HasSubstr("cannot write"));
}

}  // namespace
}  // namespace vernier
