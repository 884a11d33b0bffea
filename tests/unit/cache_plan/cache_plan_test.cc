#include "engine/cache_plan.h"

#include <gmock/gmock.h>

#include "checkpoint/cache_scale_file.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Four layers of two KV heads; the odd ones have a window.
DecoderSpec model() {
  DecoderSpec spec;
  spec.family = "llama";
  for (int layer = 0; layer < 4; ++layer) {
    LayerSpec of;
    of.attn.heads = 4;
    of.attn.kv_heads = 2;
    of.attn.head_dim = 16;
    if (layer % 2 == 1) of.attn.window = 8;
    spec.layers.push_back(of);
  }
  return spec;
}

CacheSource scales_for(std::vector<int> layers) {
  CacheSource source;
  for (int layer : layers) {
    source.scales.push_back({layer, 'k', {0.03f + 0.01f * static_cast<float>(layer)}, "a.k_scale"});
    source.scales.push_back({layer, 'v', {0.07f}, "a.v_scale"});
  }
  return source;
}

CacheOptions fp8() {
  CacheOptions options;
  options.stored = CodecId::kE4M3Tensor;
  return options;
}

std::string refusal(const CacheOptions& options, const CacheSource& source = {}) {
  const auto plan = plan_cache(model(), options, source);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.error().message;
}

// ENGINE-13
TEST(CachePlan, AScaleIsThatOfItsLayerAndRoleWithItsOrigin) {
  const CachePlan plan = plan_cache(model(), fp8(), scales_for({0, 1, 2, 3})).value();
  EXPECT_THAT(plan.notes, IsEmpty());
  for (const CacheSpec& layer : plan.layers) {
    EXPECT_EQ(layer.key_scale().of(1), 0.03f + 0.01f * static_cast<float>(layer.layer));
    EXPECT_EQ(layer.value_scale().of(0), 0.07f);
    EXPECT_THAT(describe_cache(layer), AllOf(HasSubstr("a.k_scale"), HasSubstr("a.v_scale"), HasSubstr("fp8_e4m3")));
  }
}

TEST(CachePlan, AMissingScaleIsOneAndItsLayersAreNamedOnce) {
  CacheSource source = scales_for({0, 3});
  source.scales.push_back({1, 'k', {0.25f}, "a.k_scale"});
  const CachePlan plan = plan_cache(model(), fp8(), source).value();
  ASSERT_THAT(plan.notes, SizeIs(1));
  EXPECT_THAT(plan.notes[0], AllOf(HasSubstr("layers 1 to 2 "), HasSubstr("1 is used")));
  EXPECT_EQ(plan.layers[1].key_scale().of(0), 0.25f);
  EXPECT_EQ(plan.layers[1].value_scale().of(0), 1.0f);
  EXPECT_EQ(plan.layers[1].value_scale().origin(), "default");
  EXPECT_EQ(plan.layers[2].key_scale().of(0), 1.0f);

  CacheOptions quiet = fp8();
  quiet.missing = MissingScale::kOne;
  EXPECT_THAT(plan_cache(model(), quiet, source).value().notes, IsEmpty());
  CacheOptions strict = fp8();
  strict.missing = MissingScale::kError;
  EXPECT_THAT(refusal(strict, source), AllOf(HasSubstr("--kv-scale-missing"), HasSubstr("layers 1 to 2")));
  EXPECT_TRUE(plan_cache(model(), strict, scales_for({0, 1, 2, 3})).ok());
}

TEST(CachePlan, ACheckpointThatNamesAnFp8CacheGetsOneUnlessAnotherIsAskedFor) {
  CacheSource source = scales_for({0, 1, 2, 3});
  EXPECT_EQ(plan_cache(model(), {}, source).value().layers[0].stored, CodecId::kF16);
  source.type = "fp8";
  EXPECT_EQ(plan_cache(model(), {}, source).value().layers[0].stored, CodecId::kE4M3Tensor);
  CacheOptions bf16;
  bf16.stored = CodecId::kBF16;
  const CachePlan plan = plan_cache(model(), bf16, source).value();
  EXPECT_EQ(plan.layers[0].stored, CodecId::kBF16);
  EXPECT_EQ(plan.layers[0].key_scale().of(0), 1.0f);  // scales act only where the stored type has them
  EXPECT_THAT(plan.notes, ElementsAre(AllOf(HasSubstr("8 cache scales"), HasSubstr("act on nothing"))));
  source.type = "nvfp4";
  EXPECT_THAT(plan_cache(model(), {}, source).value().notes, Contains(HasSubstr("nvfp4")));
}

TEST(CachePlan, SkippedLayersKeepSixteenBits) {
  CacheOptions options = fp8();
  options.skip_windows = true;
  options.skip_layers = {0};
  const CachePlan plan = plan_cache(model(), options, scales_for({2})).value();
  EXPECT_THAT(plan.notes, IsEmpty());  // a layer of 16 bits lacks no scale
  EXPECT_EQ(plan.layers[0].stored, CodecId::kF16);
  EXPECT_EQ(plan.layers[1].stored, CodecId::kF16);
  EXPECT_EQ(plan.layers[2].stored, CodecId::kE4M3Tensor);
  EXPECT_EQ(plan.layers[3].stored, CodecId::kF16);
  EXPECT_EQ(plan.layers[0].cache_class, plan.layers[2].cache_class);
  options.skip_layers = {4};
  EXPECT_THAT(refusal(options), HasSubstr("layers 0 to 3"));
  CacheOptions f32;
  f32.stored = CodecId::kF32;
  f32.skip_windows = true;
  EXPECT_THAT(plan_cache(model(), f32, {}).value().notes, ElementsAre(HasSubstr("changes nothing")));
}

TEST(CachePlan, OneScaleForEachHeadOrOneForAll) {
  CacheSource source = scales_for({1, 2, 3});
  source.scales.push_back({0, 'k', {0.3f, 1.7f}, "a.k_scale"});
  source.scales.push_back({0, 'v', {0.6f}, "a.v_scale"});
  const CachePlan plan = plan_cache(model(), fp8(), source).value();
  EXPECT_EQ(plan.layers[0].key_scale().of(0), 0.3f);
  EXPECT_EQ(plan.layers[0].key_scale().of(1), 1.7f);
  source.scales.back().values = {0.6f, 0.6f, 0.6f};
  EXPECT_THAT(refusal(fp8(), source), AllOf(HasSubstr("3 scales"), HasSubstr("2 KV heads"), HasSubstr("a.v_scale")));
}

class SideCar : public ::testing::Test {
 protected:
  CacheOptions options(const std::string& json) {
    CacheOptions options = fp8();
    options.scales_file = folder_.write("scales.json", json);
    return options;
  }
  testing::TempFolder folder_;
};

constexpr const char* kSglang =
    R"({"model_type": "llama", "kv_cache": {"dtype": "float8_e4m3fn", "scaling_factor":
        {"0": {"0": 4.0, "1": 0.3, "2": 1.7, "3": 0.6}}}})";

// Case A01: one number scales keys and values alike.
TEST_F(SideCar, ReachesTheWriteOfEveryLayer) {
  const CachePlan plan = plan_cache(model(), options(kSglang), {}).value();
  EXPECT_THAT(plan.notes, IsEmpty());
  const CacheSpec& first = plan.layers[0];
  const KvScale scale = first.key_scale();
  EXPECT_EQ(scale.of(0), 4.0f);
  EXPECT_EQ(plan.layers[3].value_scale().of(1), 0.6f);
  EXPECT_THAT(scale.origin(), HasSubstr("scales.json"));
}

TEST_F(SideCar, TakesThePlaceOfTheCheckpointsScalesAndSaysSo) {
  const CachePlan plan = plan_cache(model(), options(kSglang), scales_for({0, 1, 2, 3})).value();
  EXPECT_EQ(plan.layers[1].key_scale().of(0), 0.3f);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("give way")));
}

TEST_F(SideCar, OfAnotherModelTypeOrSetOfLayersIsRefused) {
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string json = kSglang;
    json.replace(json.find(from), from.size(), to);
    return refusal(options(json));
  };
  EXPECT_THAT(with("llama", "qwen2"), AllOf(HasSubstr("qwen2"), HasSubstr("llama")));
  EXPECT_THAT(with("float8_e4m3fn", "float8_e5m2"), HasSubstr("fp8_e5m2"));
  EXPECT_THAT(with("float8_e4m3fn", "int8"), HasSubstr("int8"));
  EXPECT_THAT(with(R"("3": 0.6)", R"("5": 0.6)"), HasSubstr("layer 5"));
  EXPECT_THAT(with(R"("3": 0.6)", R"("3": 0.6, "03": 64.0)"), HasSubstr("03"));
  EXPECT_THAT(with(R"(, "3": 0.6)", ""), HasSubstr("layer 3"));
  EXPECT_THAT(with("1.7", "-1.0"), AllOf(HasSubstr("layer 2"), HasSubstr("above 0")));
  EXPECT_THAT(with("1.7", "\"x\""), HasSubstr("layer 2"));
  EXPECT_THAT(with("1.7", "[0.1, 0.2, 0.3]"), HasSubstr("3 scales"));
  EXPECT_THAT(with(R"("scaling_factor")", R"("factors")"), HasSubstr("scaling_factor"));
  EXPECT_THAT(with(R"({"0": 4.0)", R"({"0": 4.0}, "1": {"0": 4.5)"), HasSubstr("ranks"));
  CacheOptions f16 = options(kSglang);
  f16.stored.reset();
  EXPECT_THAT(refusal(f16), AllOf(HasSubstr("f16"), HasSubstr("--kv-cache-dtype fp8_e4m3")));
}

TEST_F(SideCar, WhatWasWrittenIsRead) {
  CacheScaleFile file;
  file.path = folder_.path("made.json");
  file.model_type = "llama";
  for (int layer = 0; layer < 4; ++layer) file.layers[layer] = {{0.3f, 1.7f}, {0.06f * static_cast<float>(1 + layer)}};
  ASSERT_TRUE(file.write().ok());
  CacheOptions made = fp8();
  made.scales_file = file.path;
  const CachePlan plan = plan_cache(model(), made, {}).value();
  for (const CacheSpec& layer : plan.layers) {
    EXPECT_EQ(layer.key_scale().of(1), 1.7f);
    EXPECT_EQ(layer.value_scale().of(1), 0.06f * static_cast<float>(1 + layer.layer));
  }
}

}  // namespace
}  // namespace vernier
