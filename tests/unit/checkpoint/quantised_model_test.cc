#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/cache_scales.h"
#include "checkpoint/checkpoint_binder.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "ops/ref_backend.h"
#include "tensor/scalar.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempFolder;
using testing::TinyModel;

bool ends_in(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.ends_with(end);
}

/// A whole llama of two layers whose projections are E4M3 with one scale each, all of them different.
class QuantisedModelTest : public ::testing::Test {
 protected:
  /// Modules whose name ends so stay F32, without a scale.
  void write(const std::string& scheme, const std::vector<std::string>& kept = {}, const std::string& more = "",
             bool reversed = false) {
    std::vector<std::pair<std::string, TinyModel::Named>> tensors(model_.tensors.begin(), model_.tensors.end());
    if (reversed) std::reverse(tensors.begin(), tensors.end());
    SafetensorsWriter writer;
    float scale = 0.3f;
    for (const auto& [name, tensor] : tensors) {
      const std::string module = name.substr(0, name.rfind('.'));
      const bool is_kept = std::any_of(kept.begin(), kept.end(), [&](const auto& end) { return ends_in(module, end); });
      if (!ends_in(name, "_proj.weight") || is_kept) {
        writer.f32(name, tensor.extents, tensor.values);
        continue;
      }
      std::string codes;
      for (float value : tensor.values) codes += static_cast<char>(f32_to_e4m3(value / scale));
      writer.tensor(name, tensor.extents, "F8_E4M3", codes);
      writer.f32(module + ".weight_scale", {}, {scale});
      scale += 0.017f;
    }
    for (const auto& [name, values] : extra_) {
      writer.f32(name, values.size() == 1 ? std::vector<int64_t>{} : std::vector{static_cast<int64_t>(values.size())},
                 values);
    }
    folder_.write("config.json", TinyModel::config(R"(,"quantization_config":)" + scheme + more));
    folder_.write("model.safetensors", writer.bytes());
  }
  std::string bind() {
    auto opened = Checkpoint::open(folder_.path());
    if (!opened.ok()) return opened.error().to_string();
    checkpoint_ = std::move(opened).value();
    binder_ = std::make_unique<CheckpointBinder>(*checkpoint_, backend_);
    auto config = checkpoint_->config();
    if (!config.ok()) return config.error().to_string();
    auto spec = read_decoder(*config);
    if (!spec.ok()) return spec.error().to_string();
    auto decoder = Decoder::bind(*spec, *binder_);
    if (!decoder.ok()) return decoder.error().to_string();
    Status finished = binder_->finish(spec->unneeded);
    return finished.ok() ? "no error" : finished.error().to_string();
  }
  std::string cache_table() const {
    std::string text;
    for (const CacheScale& scale : binder_->report().cache_scales) {
      text += fmt::format("{}{} {} ", scale.layer, scale.of, fmt::join(scale.values, ","));
    }
    return text;
  }

  TempFolder folder_;
  TinyModel model_;
  std::vector<std::pair<std::string, std::vector<float>>> extra_;
  RefBackend backend_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointBinder> binder_;
};

constexpr const char* kFp8 = R"({"quant_method":"fp8","ignored_layers":["lm_head"]})";

TEST_F(QuantisedModelTest, EveryTensorIsBoundAndEveryScaleHasItsWeight) {
  write(kFp8);
  ASSERT_EQ(bind(), "no error");
  EXPECT_TRUE(binder_->report().unused().empty());
  for (const TensorReport& tensor : binder_->report().tensors) {
    if (!ends_in(tensor.name, "weight_scale")) continue;
    EXPECT_EQ(tensor.use, TensorUse::kScale) << tensor.name;
    EXPECT_THAT(tensor.bound_as, HasSubstr(tensor.name.substr(0, tensor.name.rfind('.'))));
  }
}

// A fused weight keeps one scale for each of its parts.
TEST_F(QuantisedModelTest, PartsOfAFusedWeightKeepTheirScales) {
  write(kFp8);
  ASSERT_EQ(bind(), "no error");
  CheckpointBinder again(*checkpoint_, backend_);
  auto fused = again.weight<Split::kColumns>(
      {{"model.layers.0.mlp.gate_proj", 12, 0}, {"model.layers.0.mlp.up_proj", 12, 0}}, 8);
  ASSERT_TRUE(fused.ok()) << fused.error().to_string();
  const auto& stored = dynamic_cast<const RefMatrix&>(*fused->matrix);
  for (int64_t row : {0, 11, 12, 23}) {
    std::vector<float> values(8);
    stored.decode_row(row, values);
    const auto& source =
        model_.tensors.at(row < 12 ? "model.layers.0.mlp.gate_proj.weight" : "model.layers.0.mlp.up_proj.weight");
    for (size_t c = 0; c < 8; ++c) {
      const float expected = source.values[static_cast<size_t>(row % 12) * 8 + c];
      EXPECT_NEAR(values[c], expected, expected / 16) << row << " " << c;
    }
  }
  EXPECT_THAT(fused->matrix->info().scale_origin,
              AllOf(HasSubstr("gate_proj.weight x weight_scale"), HasSubstr("up_proj.weight x weight_scale")));
}

// F21
TEST_F(QuantisedModelTest, ExclusionsNameFusedOrSinglePartsAndNeverHalfAWeight) {
  auto with = [](const std::string& list) {
    return R"({"quant_method":"fp8","ignored_layers":["lm_head",)" + list + "]}";
  };
  write(with(R"("gate_up_proj")"), {"gate_proj", "up_proj"});
  EXPECT_EQ(bind(), "no error");
  write(with(R"("gate_proj","up_proj")"), {"gate_proj", "up_proj"});
  EXPECT_EQ(bind(), "no error");
  write(with(R"("gate_proj")"), {"gate_proj"});
  EXPECT_THAT(bind(), AllOf(HasSubstr("mlp.gate_proj"), HasSubstr("mlp.up_proj"), HasSubstr("parts of one weight")));
}

// F22, F23
TEST_F(QuantisedModelTest, ExclusionsHoldWithAnyWrapperAndPattern) {
  for (const char* listed : {"model.language_model.layers.1.mlp.down_proj", R"(re:.*layers\\.1\\.mlp\\.down.*)",
                             "layers.1.mlp.down_proj", "*1.mlp.down*"}) {
    write(fmt::format(R"({{"quant_method":"fp8","ignored_layers":["lm_head","{}"]}})", listed), {"1.mlp.down_proj"});
    EXPECT_EQ(bind(), "no error") << listed;
  }
  write(kFp8, {"1.mlp.down_proj"});
  EXPECT_THAT(bind(), AllOf(HasSubstr("model.layers.1.mlp.down_proj.weight"), HasSubstr("F32")));
}

// F16
TEST_F(QuantisedModelTest, ATiedHeadSharesTheEmbeddingWhetherItIsListedOrNot) {
  model_ = TinyModel(true);
  for (const char* scheme : {R"({"quant_method":"fp8"})", R"({"quant_method":"fp8","ignored_layers":["lm_head"]})"}) {
    write(scheme, {}, R"(,"tie_word_embeddings":true)");
    EXPECT_EQ(bind(), "no error") << scheme;
    EXPECT_FALSE(binder_->has("lm_head"));
  }
}

// A13: the same scales under three configurations give the same numbers.
TEST_F(QuantisedModelTest, DialectsThatSpellOneSchemeGiveTheSameNumbers) {
  std::vector<std::vector<float>> numbers;
  for (const char* scheme :
       {kFp8, R"({"quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"]})",
        R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":)"
        R"({"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"tensor"}}}})"}) {
    write(scheme);
    ASSERT_EQ(bind(), "no error") << scheme;
    numbers.push_back(read_matrix(*checkpoint_, "model.layers.1.mlp.down_proj", 8, 12)->matrix.decode());
  }
  EXPECT_EQ(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[0], numbers[2]);
}

// CKPT-6
TEST_F(QuantisedModelTest, AScaleWithoutItsWeightStopsTheLoad) {
  extra_ = {{"model.layers.1.mlp.down_proj.weight_scale_3", {0.3f}}};
  write(kFp8);
  EXPECT_THAT(bind(), AllOf(HasSubstr("weight_scale_3"), HasSubstr("look like scales")));
  extra_ = {{"lm_head.weight_scale", {0.3f}}};
  write(kFp8);
  EXPECT_THAT(bind(), AllOf(HasSubstr("lm_head.weight_scale"), HasSubstr("look like scales")));
}

TEST_F(QuantisedModelTest, StaticInputScalesAreReportedAsUnused) {
  for (const auto& [name, tensor] : model_.tensors) {
    if (ends_in(name, "_proj.weight")) extra_.push_back({name.substr(0, name.rfind('.')) + ".input_scale", {0.6f}});
  }
  write(R"({"quant_method":"fp8","activation_scheme":"static","ignored_layers":["lm_head"]})");
  ASSERT_EQ(bind(), "no error");
  EXPECT_THAT(binder_->report().warnings, Contains(AllOf(HasSubstr("14 static input scales"), HasSubstr("not used"))));
  EXPECT_THAT(binder_->report().to_string(), HasSubstr("input scale"));
}

// A04: every spelling reaches the table; one that is nearly right stops the load.
TEST_F(QuantisedModelTest, CacheScalesInEverySpellingAreListedWithTheirOrigin) {
  for (const char* name : {"self_attn.k_scale", "self_attn.attn.k_scale", "self_attn.k_proj.k_scale",
                           "self_attn.k_proj.output_scale", "self_attn.qkv_proj.k_scale"}) {
    extra_ = {{std::string("model.layers.1.") + name, {0.25f}}};
    write(kFp8);
    ASSERT_EQ(bind(), "no error") << name;
    EXPECT_EQ(cache_table(), "1k 0.25 ") << name;
    EXPECT_THAT(binder_->report().to_string(), HasSubstr(fmt::format("from model.layers.1.{}", name)));
  }
  extra_ = {{"model.layers.0.self_attn.kv_scale", {0.25f}}};
  write(kFp8);
  ASSERT_EQ(bind(), "no error");
  EXPECT_EQ(cache_table(), "0k 0.25 0v 0.25 ");
  extra_ = {{"model.layers.0.self_attn.kk_scale", {0.25f}}};
  write(kFp8);
  EXPECT_THAT(bind(), HasSubstr("kk_scale"));
}

// LongCat-Flash: each of a stored layer's two attentions is a layer of the cache.
TEST_F(QuantisedModelTest, CacheScalesOfSeveralAttentionsOfALayerKeepTheirOwn) {
  extra_ = {{"model.layers.0.self_attn.0.k_scale", {0.3f}},
            {"model.layers.0.self_attn.1.k_scale", {0.6f}},
            {"model.layers.1.self_attn.1.attn.kv_scale", {1.7f}},
            {"model.layers.1.self_attn.0.k_proj.output_scale", {0.9f}}};
  write(kFp8);
  ASSERT_EQ(bind(), "no error");
  EXPECT_EQ(cache_table(), "0k 0.3 1k 0.6 2k 0.9 3k 1.7 3v 1.7 ");
  EXPECT_THAT(binder_->report().to_string(), HasSubstr("from model.layers.1.self_attn.1.attn.kv_scale"));

  extra_ = {{"model.layers.0.self_attn.1.k_scale", {0.6f}}, {"model.layers.1.self_attn.k_scale", {0.3f}}};
  write(kFp8);
  EXPECT_THAT(bind(),
              AllOf(HasSubstr("layers.1.self_attn.k_scale"), HasSubstr("which of the 2 attentions of layer 1")));
}

// A05: names are sorted by their role, whatever order the tensors stand in.
TEST_F(QuantisedModelTest, TheOrderOfTensorsDoesNotMatter) {
  extra_ = {{"model.layers.0.self_attn.k_proj.k_scale", {0.3f}},
            {"model.layers.1.self_attn.v_proj.v_scale", {1.7f, 0.6f}}};
  write(kFp8);
  ASSERT_EQ(bind(), "no error");
  const std::string table = cache_table();
  EXPECT_EQ(table, "0k 0.3 1v 1.7,0.6 ");
  write(kFp8, {}, "", true);
  ASSERT_EQ(bind(), "no error");
  EXPECT_EQ(cache_table(), table);
}

TEST_F(QuantisedModelTest, CacheScalesThatAreNoneOrDisagreeStopTheLoad) {
  for (float bad : {-1.0f, 0.0f, std::nanf("")}) {
    extra_ = {{"model.layers.0.self_attn.k_scale", {bad}}};
    write(kFp8);
    EXPECT_THAT(bind(), HasSubstr("self_attn.k_scale")) << bad;
  }
  extra_ = {{"model.layers.0.self_attn.k_scale", {0.3f}}, {"model.layers.0.self_attn.k_proj.k_scale", {0.6f}}};
  write(kFp8);
  EXPECT_THAT(bind(), AllOf(HasSubstr("k_proj.k_scale"), HasSubstr("self_attn.k_scale"), HasSubstr("wrong")));
}

TEST_F(QuantisedModelTest, ACheckpointWhoseCacheAloneIsQuantisedLoads) {
  extra_ = {{"model.layers.0.self_attn.k_proj.k_scale", {0.3f}}};
  write(
      R"({"quant_method":"modelopt","quant_algo":null,"ignore":["*"],"kv_cache_scheme":{"type":"float","num_bits":8}})",
      {"_proj"});
  EXPECT_EQ(bind(), "no error");
}

// The rule that decided stands beside each matrix, before anything is loaded.
TEST_F(QuantisedModelTest, TheReportSaysWhichRuleDecided) {
  write(R"({"quant_method":"fp8","ignored_layers":["lm_head","layers.1.mlp.down_proj"]})", {"1.mlp.down_proj"});
  auto checkpoint = Checkpoint::open(folder_.path()).value();
  const std::string text = describe(*checkpoint).to_string();
  EXPECT_THAT(text,
              HasSubstr("model.layers.0.mlp.down_proj.weight F8_E4M3 [8, 12] 96 bytes, scales weight_scale, unused, "
                        "fp8, one scale by quantization_config\n"));
  EXPECT_THAT(text, HasSubstr("not quantised by 'layers.1.mlp.down_proj' of ignored_layers\n"));
  EXPECT_THAT(text,
              HasSubstr("model.embed_tokens.weight F32 [6, 8] 192 bytes, scales none, unused, not quantised, as its "
                        "kind is by convention\n"));
}

}  // namespace
}  // namespace vernier
