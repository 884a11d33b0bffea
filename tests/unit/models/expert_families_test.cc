#include <gmock/gmock.h>

#include <cmath>

#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::config_of;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::read;

json mixtral_config() {
  json config = config_of("mixtral", "MixtralForCausalLM");
  config.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"router_aux_loss_coef", 0.001}});
  return config;
}

json qwen3_moe_config() {
  json config = config_of("qwen3_moe", "Qwen3MoeForCausalLM");
  config.update({{"num_experts", 8}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 48}, {"head_dim", 32}});
  return config;
}

// Keys as gpt-oss is published.
json gpt_oss_config() {
  json config = config_of("gpt_oss", "GptOssForCausalLM");
  config.update({{"head_dim", 32},
                 {"num_local_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"experts_per_token", 2},
                 {"initial_context_length", 16},
                 {"sliding_window", 8},
                 {"swiglu_limit", 7.0},
                 {"attention_bias", true},
                 {"rope_theta", 150000},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 32.0},
                   {"beta_fast", 32.0},
                   {"beta_slow", 1.0},
                   {"truncate", false},
                   {"original_max_position_embeddings", 16}}},
                 {"output_router_logits", false}});
  return config;
}

json gemma2_config() {
  json config = config_of("gemma2", "Gemma2ForCausalLM");
  config.update({{"head_dim", 32}, {"sliding_window", 8}});
  return config;
}

std::vector<int> windows(const DecoderSpec& spec) {
  std::vector<int> result;
  for (const LayerSpec& layer : spec.layers) result.push_back(layer.attn.window.value_or(0));
  return result;
}

TEST(Mixtral, EveryLayerHasExpertsOfTheFeedForwardWidth) {
  auto spec = read(mixtral_config());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  for (const LayerSpec& layer : spec->layers) {
    ASSERT_TRUE(layer.experts.has_value());
    EXPECT_EQ(layer.experts->experts, 4);
    EXPECT_EQ(layer.experts->chosen, 2);
    EXPECT_EQ(layer.experts->width, 160);
    EXPECT_TRUE(layer.experts->normalize);
    EXPECT_EQ(layer.ffn, 0);
    EXPECT_FALSE(layer.attn.window.has_value());
  }
  EXPECT_EQ(spec->layers[0].attn.rope.base, 1e6);
}

TEST(Qwen3Moe, DenseLayersAreThoseThatAreNamed) {
  json config = qwen3_moe_config();
  config["mlp_only_layers"] = {1};
  auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_TRUE(spec->layers[0].experts && !spec->layers[1].experts && spec->layers[2].experts);
  EXPECT_EQ(spec->layers[1].ffn, 160);
  EXPECT_EQ(spec->layers[0].experts->width, 48);
  EXPECT_FALSE(spec->layers[0].experts->normalize);
  EXPECT_TRUE(spec->layers[0].attn.qk_norm);
  config.update({{"decoder_sparse_step", 3}, {"norm_topk_prob", true}, {"mlp_only_layers", json::array()}});
  spec = read(config);
  EXPECT_TRUE(!spec->layers[0].experts && !spec->layers[1].experts && spec->layers[2].experts);
  EXPECT_TRUE(spec->layers[2].experts->normalize);
}

TEST(GptOss, SinksWindowsYarnAndTheClampedGate) {
  auto spec = read(gpt_oss_config());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_THAT(windows(*spec), ElementsAre(8, 0, 8));
  const LayerSpec& layer = spec->layers[1];
  EXPECT_TRUE(layer.attn.sinks);
  EXPECT_FLOAT_EQ(layer.attn.rope.magnitude(), static_cast<float>(0.1 * std::log(32.0) + 1));
  EXPECT_FLOAT_EQ(layer.experts->gate.limit, 7);
  EXPECT_FLOAT_EQ(layer.experts->gate.slope, 1.702f);
  EXPECT_FLOAT_EQ(layer.experts->gate.up_offset, 1);
  EXPECT_EQ(spec->qkv_bias, BiasRule::kRequired);
  EXPECT_EQ(spec->experts_bias, BiasRule::kRequired);
  EXPECT_EQ(spec->max_positions, 512);
}

// CKPT-7: two keys for one number.
TEST(Experts, CountsThatDisagreeOrCannotBeAreErrors) {
  json config = gpt_oss_config();
  config["experts_per_token"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("'num_experts_per_tok' is 2 and 'experts_per_token' is 3"));
  config = qwen3_moe_config();
  config["num_local_experts"] = 9;
  EXPECT_THAT(error_of(config), HasSubstr("remove the wrong one"));
  config = mixtral_config();
  config["num_experts_per_tok"] = 5;
  EXPECT_THAT(error_of(config), HasSubstr("5 of 4 experts"));
  config["num_experts_per_tok"] = 0;
  EXPECT_THAT(error_of(config), HasSubstr("expected 1 to"));
  config = qwen3_moe_config();
  config["mlp_only_layers"] = {3};
  EXPECT_THAT(error_of(config), HasSubstr("expected layers 0 to 2"));
  config = gpt_oss_config();
  config["swiglu_limit"] = -1;
  EXPECT_THAT(error_of(config), HasSubstr("'swiglu_limit'"));
  config = gpt_oss_config();
  config["hidden_act"] = "gelu_pytorch_tanh";
  EXPECT_THAT(error_of(config), HasSubstr("'hidden_act'"));
}

TEST(Gemma2, CapsAndAlternatingWindows) {
  auto spec = read(gemma2_config());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_THAT(windows(*spec), ElementsAre(8, 0, 8));
  EXPECT_FLOAT_EQ(spec->layers[0].attn.soft_cap, 50);
  EXPECT_FLOAT_EQ(spec->final_soft_cap, 30);
  EXPECT_FLOAT_EQ(spec->layers[0].attn.scale, 1.0f / 16);  // of query_pre_attn_scalar 256, not of the head's 32
  EXPECT_TRUE(spec->post_norms && spec->tied);
  json config = gemma2_config();
  config.update({{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  spec = read(config);
  EXPECT_EQ(spec->layers[0].attn.soft_cap, 0);
  EXPECT_EQ(spec->final_soft_cap, 0);
  config["attn_logit_softcapping"] = -3;
  EXPECT_THAT(error_of(config), HasSubstr("'attn_logit_softcapping'"));
}

// F19: YaRN in each of its spellings gives the same frequencies and the longer context.
TEST(Yarn, SpellingsAgree) {
  json base = testing::llama_config();
  base["max_position_embeddings"] = 64;
  auto with = [&](json fields) {
    json config = base;
    config.update(fields);
    return read(config);
  };
  const json settings = {{"factor", 4.0}, {"original_max_position_embeddings", 64}};
  json newer = settings, older = settings, parameters = settings, implied = {{"rope_type", "yarn"}, {"factor", 4.0}};
  newer["rope_type"] = "yarn";
  older["type"] = "yarn";
  parameters.update({{"rope_type", "yarn"}, {"rope_theta", 10000.0}});
  auto expected = with({{"rope_scaling", newer}});
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  EXPECT_EQ(expected->max_positions, 256);
  EXPECT_FLOAT_EQ(expected->layers[0].attn.rope.magnitude(), static_cast<float>(0.1 * std::log(4.0) + 1));
  for (const json& other :
       {json{{"rope_scaling", older}}, json{{"rope_parameters", parameters}}, json{{"rope_scaling", implied}}}) {
    auto spec = with(other);
    ASSERT_TRUE(spec.ok()) << other << ": " << spec.error().to_string();
    EXPECT_EQ(spec->layers[0].attn.rope.frequencies(), expected->layers[0].attn.rope.frequencies()) << other;
    EXPECT_EQ(spec->layers[0].attn.rope.magnitude(), expected->layers[0].attn.rope.magnitude()) << other;
    EXPECT_EQ(spec->max_positions, 256) << other;
  }
}

TEST(Yarn, MagnitudeIsThatOfItsKeys) {
  auto magnitude = [&](json more) {
    json settings = {{"rope_type", "yarn"}, {"factor", 40.0}, {"original_max_position_embeddings", 64}};
    settings.update(more);
    json config = testing::llama_config();
    config["rope_scaling"] = settings;
    auto spec = read(config);
    EXPECT_TRUE(spec.ok()) << spec.error().to_string();
    return spec->layers[0].attn.rope.magnitude();
  };
  EXPECT_FLOAT_EQ(magnitude({{"attention_factor", 0.7}}), 0.7f);
  EXPECT_FLOAT_EQ(magnitude({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}), 1);
  const double small = 0.1 * 0.707 * std::log(40.0) + 1, large = 0.1 * std::log(40.0) + 1;
  EXPECT_FLOAT_EQ(magnitude({{"mscale", 1.0}, {"mscale_all_dim", 0.707}}), static_cast<float>(large / small));
  EXPECT_FLOAT_EQ(magnitude({{"mscale", 1.0}}), static_cast<float>(large));
  json config = testing::llama_config();
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 1.0}, {"beta_slow", 32.0}};
  EXPECT_THAT(error_of(config), HasSubstr("'beta_fast'"));
}

}  // namespace
}  // namespace vernier
