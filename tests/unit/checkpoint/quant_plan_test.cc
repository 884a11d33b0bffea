#include "checkpoint/quant_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/quant_dialects.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Result<QuantPlan> read(const std::string& scheme, const std::string& origin = "quantization_config") {
  return read_quant_source({origin, "config.json", Json::parse(scheme)});
}

QuantPlan plan(const std::string& scheme) {
  auto made = read(scheme);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return made.ok() ? *std::move(made) : QuantPlan();
}

std::string error(const std::string& scheme) {
  auto made = read(scheme);
  return made.ok() ? "no error" : made.error().to_string();
}

WeightForm form(const QuantPlan& plan, const std::string& module = "model.layers.1.mlp.down_proj") {
  return plan.decide(module).scheme.form;
}

TEST(QuantPlan, NoSourceMeansNoDecision) {
  EXPECT_TRUE(QuantPlan().empty());
  EXPECT_EQ(form(QuantPlan()), WeightForm::kDense);
  EXPECT_EQ(QuantPlan().decide("lm_head").rule, "");
}

TEST(QuantPlan, HuggingFaceFp8) {
  EXPECT_EQ(form(plan(R"({"quant_method":"fp8","activation_scheme":"dynamic"})")), WeightForm::kFp8Tensor);
  QuantPlan block = plan(R"({"quant_method":"fp8","fmt":"e4m3","weight_block_size":[64,32],"scale_fmt":"ue8m0"})");
  WeightScheme scheme = block.decide("model.layers.0.mlp.up_proj").scheme;
  EXPECT_EQ(scheme.form, WeightForm::kFp8Block);
  EXPECT_EQ(scheme.block_rows, 64);
  EXPECT_EQ(scheme.block_cols, 32);
  EXPECT_TRUE(scheme.power_of_two_scales);
  EXPECT_TRUE(plan(R"({"quant_method":"fp8","activation_scheme":"static"})").decide("x").scheme.needs_input_scale);
  EXPECT_EQ(form(plan(R"({"quant_method":"mxfp8","weight_block_size":[1,32]})")), WeightForm::kMxfp8);
  EXPECT_EQ(form(plan(R"({"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0})")), WeightForm::kFp8Channel);
  EXPECT_THAT(error(R"({"quant_method":"fp8","weight_block_size":[128]})"), HasSubstr("weight_block_size"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","weight_block_size":[0,128]})"), HasSubstr("weight_block_size"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","weight_block_size":[2.5,128]})"), HasSubstr("weight_block_size"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","weight_block_size":[8,8],"activation_scheme":"static"})"),
              HasSubstr("dynamic"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","fmt":"e3m4"})"), HasSubstr("e3m4"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","scale_fmt":"e5m3"})"), HasSubstr("e5m3"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","activation_scheme":"hybrid"})"), HasSubstr("hybrid"));
}

TEST(QuantPlan, KeysThatNobodyReadsAreRefused) {
  EXPECT_THAT(error(R"({"quant_method":"fp8","rotation":"hadamard"})"),
              AllOf(HasSubstr("quantization_config"), HasSubstr("rotation"), HasSubstr("hadamard")));
  EXPECT_EQ(error(R"({"quant_method":"fp8","rotation":null})"), "no error");
  EXPECT_THAT(error(R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{
    "weights":{"num_bits":8,"type":"float"},"targets":["Linear"],"rotation":"hadamard"}}})"),
              AllOf(HasSubstr("group_0"), HasSubstr("rotation")));
}

TEST(QuantPlan, Modelopt) {
  auto of = [](const std::string& algorithm) {
    return form(plan(R"({"quant_method":"modelopt","quant_algo":")" + algorithm + R"("})"));
  };
  EXPECT_EQ(of("FP8"), WeightForm::kFp8Tensor);
  EXPECT_EQ(of("fp8"), WeightForm::kFp8Tensor);
  EXPECT_EQ(of("FP8_PER_CHANNEL_PER_TOKEN"), WeightForm::kFp8Channel);
  EXPECT_EQ(of("FP8_PB_WO"), WeightForm::kFp8Block);
  EXPECT_EQ(of("NVFP4"), WeightForm::kNvfp4);
  EXPECT_EQ(of("W4A16_NVFP4"), WeightForm::kNvfp4);
  EXPECT_EQ(of("MXFP8"), WeightForm::kMxfp8);
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"NVFP4_AWQ"})"), HasSubstr("NVFP4_AWQ"));
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"NVFP4","group_size":32})"), HasSubstr("32"));
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"NVFP4","pre_quant_scale":true})"),
              HasSubstr("pre_quant_scale"));
  EXPECT_EQ(error(R"({"quant_method":"modelopt","quant_algo":"NVFP4","producer":{"name":"modelopt"},"group_size":16,
    "config_groups":{"group_0":{"weights":{"num_bits":4,"type":"float","group_size":16},"targets":["Linear"]}}})"),
            "no error");
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"NVFP4",
    "config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"},"targets":["Linear"]}}})"),
              AllOf(HasSubstr("NVFP4"), HasSubstr("8 bits")));
}

constexpr const char* kMixed = R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{
  "model.layers.0.self_attn.q_proj":{"quant_algo":"FP8"},
  "model.language_model.layers.0.mlp.down_proj":{"quant_algo":"NVFP4","group_size":16},
  "model.layers.1.mlp.gate_up_proj":{"quant_algo":"W4A16_NVFP4"},
  "model.layers.1.mlp.down_proj":{"quant_algo":"mxfp8"},
  "lm_head":{"quant_algo":"FP8_PB_WO"}}})";

TEST(QuantPlan, MixedPrecisionIsDecidedLayerByLayer) {
  QuantPlan mixed = plan(kMixed);
  EXPECT_EQ(form(mixed, "model.layers.0.self_attn.q_proj"), WeightForm::kFp8Tensor);
  EXPECT_EQ(form(mixed, "model.layers.0.mlp.down_proj"), WeightForm::kNvfp4);
  EXPECT_EQ(form(mixed, "model.layers.1.mlp.gate_proj"), WeightForm::kNvfp4);
  EXPECT_EQ(form(mixed, "model.layers.1.mlp.up_proj"), WeightForm::kNvfp4);
  EXPECT_EQ(form(mixed, "model.layers.1.mlp.down_proj"), WeightForm::kMxfp8);
  EXPECT_EQ(form(mixed, "lm_head"), WeightForm::kFp8Block);
  EXPECT_EQ(form(mixed, "model.layers.0.mlp.up_proj"), WeightForm::kDense);
  EXPECT_THAT(mixed.decide("model.layers.0.mlp.up_proj").rule, HasSubstr("the default of"));
}

TEST(QuantPlan, AnUnknownAlgorithmOnAListedLayerIsFatalAndNamed) {
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{
    "model.layers.0.self_attn.q_proj":{"quant_algo":"FP8"},"model.layers.3.mlp.up_proj":{"quant_algo":"INT3_X"}}})"),
              AllOf(HasSubstr("model.layers.3.mlp.up_proj"), HasSubstr("INT3_X")));
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"})"), HasSubstr("quantized_layers"));
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","exclude_modules":["*down_proj"],
    "quantized_layers":{"model.layers.0.mlp.down_proj":{"quant_algo":"FP8"}}})"),
              AllOf(HasSubstr("model.layers.0.mlp.down_proj"), HasSubstr("*down_proj")));
}

std::string compressed(const std::string& weights, const std::string& format, const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","quantization_status":"compressed","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],)"
         R"("input_activations":null,"weights":)" +
         weights + "}}" + more + "}";
}

// Rows may be rounded further by a backend where the activations were to be, and not where the weights alone were.
TEST(QuantPlan, WeightsAloneAreToldApart) {
  const auto weights_only = [](const std::string& json) { return plan(json).decide("x").scheme.weights_only; };
  const std::string alone = compressed(R"({"num_bits":8,"type":"float","strategy":"channel"})", "float-quantized");
  EXPECT_TRUE(weights_only(alone));
  std::string both = alone;
  both.replace(both.find("null"), 4, R"({"num_bits":8,"type":"float","strategy":"token","dynamic":true})");
  EXPECT_FALSE(weights_only(both));
  EXPECT_TRUE(weights_only(R"({"quant_method":"modelopt","quant_algo":"FP8_PB_WO"})"));
  EXPECT_TRUE(weights_only(R"({"quant_method":"modelopt","quant_algo":"W4A16_NVFP4"})"));
  EXPECT_FALSE(weights_only(R"({"quant_method":"modelopt","quant_algo":"FP8"})"));
  EXPECT_FALSE(weights_only(R"({"quant_method":"fp8","weight_block_size":[128,128]})"));
}

TEST(QuantPlan, CompressedTensors) {
  auto of = [](const std::string& weights, const std::string& format) {
    return form(plan(compressed(weights, format)));
  };
  EXPECT_EQ(of(R"({"num_bits":8,"type":"float","strategy":"tensor"})", "float-quantized"), WeightForm::kFp8Tensor);
  EXPECT_EQ(of(R"({"num_bits":8,"type":"float","strategy":"channel"})", "float-quantized"), WeightForm::kFp8Channel);
  EXPECT_EQ(of(R"({"num_bits":8,"type":"float","strategy":"channel"})", "naive-quantized"), WeightForm::kFp8Channel);
  EXPECT_EQ(of(R"({"num_bits":8,"type":"float","strategy":"block","block_structure":[64,32]})", "float-quantized"),
            WeightForm::kFp8Block);
  EXPECT_EQ(plan(compressed(R"({"num_bits":8,"type":"float","strategy":"block","block_structure":"64x32"})",
                            "float-quantized"))
                .decide("x")
                .scheme.block_cols,
            32);
  WeightScheme nvfp4 = plan(compressed(R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16})",
                                       "nvfp4-pack-quantized"))
                           .decide("model.layers.0.mlp.up_proj")
                           .scheme;
  EXPECT_EQ(nvfp4.form, WeightForm::kNvfp4);
  EXPECT_TRUE(nvfp4.global_divides);
  EXPECT_EQ(of(R"({"num_bits":4,"type":"float","strategy":"group","group_size":32})", "mxfp4-pack-quantized"),
            WeightForm::kMxfp4);
  EXPECT_EQ(
      form(plan(compressed(R"({"num_bits":8,"type":"float","strategy":"tensor"})", "float-quantized")), "lm_head"),
      WeightForm::kDense);
  EXPECT_THAT(error(compressed(R"({"num_bits":6,"type":"float","strategy":"tensor"})", "float-quantized")),
              AllOf(HasSubstr("group_0"), HasSubstr("6 bits")));
  EXPECT_THAT(error(compressed(R"({"num_bits":8,"type":"float","strategy":"tensor"})", "marlin-24")),
              HasSubstr("marlin-24"));
  EXPECT_THAT(error(compressed(R"({"num_bits":8,"type":"float","strategy":"tensor"})", "float-quantized",
                               R"(,"sparsity_config":{"format":"sparse-24-bitmask"})")),
              HasSubstr("sparse"));
  EXPECT_THAT(
      error(compressed(R"({"num_bits":8,"type":"float","strategy":"tensor","dynamic":true})", "float-quantized")),
      HasSubstr("dynamically"));
}

TEST(QuantPlan, GroupsTargetByNameThenByPatternThenEveryLinear) {
  QuantPlan groups = plan(R"({"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{
    "a":{"targets":["Linear"],"format":"float-quantized","weights":{"num_bits":8,"type":"float","strategy":"tensor"}},
    "b":{"targets":["re:.*down_proj"],"format":"float-quantized","weights":{"num_bits":8,"type":"float","strategy":"channel"}},
    "c":{"targets":["model.layers.0.mlp.down_proj"],"format":"nvfp4-pack-quantized",
         "weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})");
  EXPECT_EQ(form(groups, "model.layers.0.mlp.up_proj"), WeightForm::kFp8Tensor);
  EXPECT_EQ(form(groups, "model.layers.1.mlp.down_proj"), WeightForm::kFp8Channel);
  EXPECT_EQ(form(groups, "model.layers.0.mlp.down_proj"), WeightForm::kNvfp4);
  EXPECT_EQ(groups.decide("model.layers.0.mlp.down_proj").rule, "c of quantization_config");
}

TEST(QuantPlan, Mxfp4ConcernsExpertsAlone) {
  QuantPlan mxfp4 = plan(R"({"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn","lm_head"]})");
  EXPECT_EQ(form(mxfp4, "model.layers.2.mlp.experts"), WeightForm::kMxfp4);
  EXPECT_EQ(form(mxfp4, "model.layers.2.mlp.router"), WeightForm::kDense);
  EXPECT_EQ(form(mxfp4, "model.layers.2.self_attn.q_proj"), WeightForm::kDense);
}

// F24
TEST(QuantPlan, TheExclusionListHasFourNamesAndOneContent) {
  for (const char* key : {"ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules"}) {
    QuantPlan one = plan(std::string(R"({"quant_method":"fp8",")") + key + R"(":["model.layers.1.mlp.down_proj"]})");
    EXPECT_EQ(form(one), WeightForm::kDense) << key;
    EXPECT_EQ(form(one, "model.layers.0.mlp.down_proj"), WeightForm::kFp8Tensor) << key;
    EXPECT_THAT(one.decide("model.layers.1.mlp.down_proj").rule, HasSubstr(key));
  }
  EXPECT_EQ(error(R"({"quant_method":"fp8","ignore":["a","b"],"ignored_layers":["b","a"]})"), "no error");
  EXPECT_THAT(error(R"({"quant_method":"fp8","ignore":["a"],"modules_to_not_convert":["b"]})"),
              AllOf(HasSubstr("ignore"), HasSubstr("modules_to_not_convert")));
  EXPECT_THAT(error(R"({"quant_method":"fp8","ignore":"lm_head"})"), HasSubstr("ignore"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","ignore":[3]})"), HasSubstr("ignore"));
  EXPECT_THAT(error(R"({"quant_method":"fp8","ignore":["re:("]})"), HasSubstr("re:("));
}

TEST(QuantPlan, HeadsEmbeddingsAndRoutersMayBeKeptWithoutBeingListed) {
  QuantPlan fp8 = plan(R"({"quant_method":"fp8"})");
  for (const char* module : {"lm_head", "model.embed_tokens", "model.layers.0.mlp.gate", "model.layers.0.mlp.router"}) {
    EXPECT_TRUE(fp8.decide(module).only_if_stored) << module;
  }
  EXPECT_FALSE(fp8.decide("model.layers.0.mlp.gate_proj").only_if_stored);
}

const std::vector<std::string> kModules = {"model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj", "lm_head"};

std::string agreement(const std::string& config, const std::string& legacy) {
  auto made = read_quant_plan({{"quantization_config", "config.json", Json::parse(config)},
                               {"hf_quant_config.json", "hf_quant_config.json", Json::parse(legacy)}},
                              kModules);
  return made.ok() ? "no error" : made.error().to_string();
}

// CKPT-7
TEST(QuantPlan, TwoSourcesThatDisagreeStopTheLoad) {
  const std::string legacy =
      R"({"quant_method":"modelopt","quant_algo":"FP8","kv_cache_quant_algo":"FP8","exclude_modules":["lm_head"]})";
  const std::string head = R"({"quant_method":"modelopt","ignore":["lm_head"],"quant_algo":)";
  EXPECT_EQ(agreement(head + R"("FP8","kv_cache_scheme":{"type":"float","num_bits":8,"dynamic":false}})", legacy),
            "no error");
  EXPECT_EQ(agreement(head + R"("FP8"})", legacy), "no error");
  EXPECT_THAT(agreement(head + R"("NVFP4"})", legacy),
              AllOf(HasSubstr("model.layers.0.mlp.down_proj"), HasSubstr("quantization_config"),
                    HasSubstr("hf_quant_config.json"), HasSubstr("NVFP4")));
  EXPECT_THAT(
      agreement(R"({"quant_method":"modelopt","ignore":["lm_head","model.layers.1*"],"quant_algo":"FP8"})", legacy),
      HasSubstr("model.layers.1.mlp.down_proj"));
  EXPECT_THAT(agreement(head + R"("FP8","kv_cache_scheme":null})", legacy), HasSubstr("KV cache"));
  EXPECT_THAT(error(R"({"quant_method":"modelopt","quant_algo":"FP8","kv_cache_quant_algo":"NVFP4",
                        "kv_cache_scheme":{"type":"float","num_bits":8}})"),
              AllOf(HasSubstr("nvfp4"), HasSubstr("fp8")));
}

TEST(QuantPlan, EntriesThatMatchNothingAreFound) {
  EXPECT_THAT(unmatched_entries(plan(R"({"quant_method":"fp8","ignore":["lm_head","model.layers.0*","model.layers.7",
                                         "re:.*down_proj","re:.*q_proj"]})"),
                                kModules),
              ElementsAre("model.layers.7", "re:.*q_proj"));
  EXPECT_THAT(unmatched_entries(plan(kMixed), kModules),
              ElementsAre("layers.0.self_attn.q_proj", "layers.1.mlp.gate_up_proj"));
}

TEST(QuantPlan, UnknownMethodsAreRefusedByName) {
  for (const char* method : {"bitsandbytes", "quark", "torchao", "auto-round"}) {
    EXPECT_THAT(error(std::string(R"({"quant_method":")") + method + "\"}"), HasSubstr(method));
  }
  EXPECT_THAT(error("{}"), HasSubstr("with no quant_method"));
  EXPECT_THAT(error(R"({"quant_method":7})"), HasSubstr("7"));
}

}  // namespace
}  // namespace vernier
