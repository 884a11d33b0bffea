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
using testing::llama_config;
using testing::read;

constexpr auto kNone = std::optional<int>();

std::vector<std::optional<int>> windows(const Result<DecoderSpec>& spec) {
  std::vector<std::optional<int>> result;
  for (const LayerSpec& layer : spec.value().layers) result.push_back(layer.attn.window);
  return result;
}

TEST(Llama, Defaults) {
  json config = llama_config();
  config.erase("num_key_value_heads");
  auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  const AttnSpec& attn = spec->layers.at(2).attn;
  EXPECT_EQ(attn.kv_heads, 4);
  EXPECT_EQ(attn.head_dim, 16);
  EXPECT_FLOAT_EQ(attn.scale, 0.25f);
  EXPECT_FALSE(spec->tied);
  EXPECT_FALSE(spec->post_norms);
  EXPECT_EQ(spec->norm_rule, NormRule::kPlain);
  EXPECT_FLOAT_EQ(spec->norm_eps, 1e-6f);
  EXPECT_THAT(windows(spec), ElementsAre(kNone, kNone, kNone));
}

TEST(Llama, BiasKeysBindBiases) {
  json config = llama_config();
  config["attention_bias"] = true;
  auto attention = read(config);
  ASSERT_TRUE(attention.ok());
  EXPECT_EQ(attention->qkv_bias, BiasRule::kRequired);
  EXPECT_EQ(attention->output_bias, BiasRule::kRequired);
  EXPECT_EQ(attention->ffn_bias, BiasRule::kNone);
  config["mlp_bias"] = true;
  EXPECT_EQ(read(config)->ffn_bias, BiasRule::kRequired);
}

// What a published small Llama carries besides arithmetic.
TEST(Llama, HarmlessKeysPass) {
  json config = llama_config();
  config.update({{"is_llama_config", true},
                 {"rope_interleaved", false},
                 {"transformers.js_config", json::object()},
                 {"torch_dtype", "bfloat16"},
                 {"pretraining_tp", 1},
                 {"temperature", 0.6},
                 {"pruned_heads", json::object()},
                 {"id2label", {{"0", "LABEL_0"}}},
                 {"use_cache", true},
                 {"problem_type", nullptr}});
  EXPECT_EQ(error_of(config), "no error");
}

// MODELS-2: a key that may change arithmetic is never skipped.
TEST(Llama, UnknownKeysAreRefused) {
  for (const char* key :
       {"logit_scale", "embedding_multiplier", "sliding_window", "quantization_config", "layer_types"}) {
    json config = llama_config();
    config[key] = {{"x", 1}};
    EXPECT_THAT(error_of(config), HasSubstr(std::string("'") + key + "'")) << key;
  }
}

TEST(Llama, ImpossibleSizesAreErrors) {
  const std::pair<const char*, json> cases[] = {
      {"num_key_value_heads", 3},     {"num_attention_heads", 0},  {"hidden_size", -64},
      {"vocab_size", 1 << 30},        {"num_hidden_layers", 5000}, {"head_dim", 15},
      {"intermediate_size", 0},       {"rms_norm_eps", -1.0},      {"hidden_act", "relu"},
      {"max_position_embeddings", 0}, {"num_attention_heads", 4.5}};
  for (const auto& [key, value] : cases) {
    json config = llama_config();
    config[key] = value;
    EXPECT_THAT(error_of(config), HasSubstr("expected")) << key << " = " << value;
  }
  json config = llama_config();
  config["hidden_size"] = 66;
  EXPECT_THAT(error_of(config), HasSubstr("no multiple"));
}

TEST(Mistral, WindowOfAllLayers) {
  json config = config_of("mistral", "MistralForCausalLM");
  EXPECT_THAT(windows(read(config)), ElementsAre(4096, 4096, 4096));
  config["sliding_window"] = 7;
  config["head_dim"] = 32;
  auto spec = read(config);
  EXPECT_THAT(windows(spec), ElementsAre(7, 7, 7));
  EXPECT_EQ(spec->layers[0].attn.head_dim, 32);
  config["sliding_window"] = nullptr;
  EXPECT_THAT(windows(read(config)), ElementsAre(kNone, kNone, kNone));
  config["sliding_window"] = 0;
  EXPECT_THAT(error_of(config), HasSubstr("'sliding_window' is 0"));
}

TEST(Qwen2, BiasOfQkvOnly) {
  auto spec = read(config_of("qwen2", "Qwen2ForCausalLM"));
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->qkv_bias, BiasRule::kRequired);
  EXPECT_EQ(spec->output_bias, BiasRule::kNone);
  EXPECT_EQ(spec->ffn_bias, BiasRule::kNone);
}

TEST(Qwen2, WindowsNeedTheSwitch) {
  json config = config_of("qwen2", "Qwen2ForCausalLM");
  config["sliding_window"] = 6;
  config["max_window_layers"] = 1;
  EXPECT_THAT(windows(read(config)), ElementsAre(kNone, kNone, kNone));
  config["use_sliding_window"] = true;
  EXPECT_THAT(windows(read(config)), ElementsAre(kNone, 6, 6));
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(windows(read(config)), ElementsAre(6, kNone, 6));
  config["use_sliding_window"] = false;
  EXPECT_THAT(error_of(config), HasSubstr("layer 0 is of type 'sliding_attention'"));
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(error_of(config), HasSubstr("one for each of 3 layers"));
  config["layer_types"] = {"full_attention", "chunked_attention", "full_attention"};
  EXPECT_THAT(error_of(config), HasSubstr("chunked_attention"));
}

TEST(Qwen3, NormsOfHeadsAndItsOwnHeadSize) {
  auto spec = read(config_of("qwen3", "Qwen3ForCausalLM"));
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_TRUE(spec->layers[0].attn.qk_norm);
  EXPECT_EQ(spec->layers[0].attn.head_dim, 128);
  EXPECT_EQ(spec->qkv_bias, BiasRule::kNone);
}

json gemma() {
  json config = config_of("gemma3_text", "Gemma3ForCausalLM");
  config.update({{"num_hidden_layers", 7}, {"head_dim", 32}, {"sliding_window", 8}, {"query_pre_attn_scalar", 24}});
  return config;
}

TEST(Gemma3, FiveLocalToOneGlobal) {
  auto spec = read(gemma());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_THAT(windows(spec), ElementsAre(8, 8, 8, 8, 8, kNone, 8));
  EXPECT_EQ(spec->layers[0].attn.rope.base, 1e4);
  EXPECT_EQ(spec->layers[5].attn.rope.base, 1e6);
  EXPECT_EQ(spec->norm_rule, NormRule::kOnePlus);
  EXPECT_TRUE(spec->post_norms);
  EXPECT_TRUE(spec->tied);
  EXPECT_EQ(spec->act, Act::kGeluTanh);
  EXPECT_FLOAT_EQ(spec->embed_scale, 8);
  EXPECT_FLOAT_EQ(spec->layers[0].attn.scale, static_cast<float>(1 / std::sqrt(24.0)));
  EXPECT_TRUE(spec->layers[0].attn.qk_norm);
}

TEST(Gemma3, PatternAndLayerTypes) {
  json config = gemma();
  config["sliding_window_pattern"] = 3;
  EXPECT_THAT(windows(read(config)), ElementsAre(8, 8, kNone, 8, 8, kNone, 8));
  config["layer_types"] = json::array({"full_attention", "full_attention", "sliding_attention", "full_attention",
                                       "full_attention", "full_attention", "full_attention"});
  EXPECT_THAT(windows(read(config)), ElementsAre(kNone, kNone, 8, kNone, kNone, kNone, kNone));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(error_of(config), HasSubstr("'sliding_window' is null"));
}

TEST(Gemma3, RopeSpellingsAgree) {
  json older = gemma();
  older.update({{"rope_theta", 2e6},
                {"rope_local_base_freq", 3e4},
                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  json newer = gemma();
  newer["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  auto a = read(older), b = read(newer);
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  ASSERT_TRUE(b.ok()) << b.error().to_string();
  for (size_t layer : {0, 5}) {
    EXPECT_EQ(a->layers[layer].attn.rope.frequencies(), b->layers[layer].attn.rope.frequencies());
  }
  EXPECT_NE(a->layers[0].attn.rope.frequencies(), a->layers[5].attn.rope.frequencies());
  json both = newer;
  both["rope_local_base_freq"] = 3e4;
  both["rope_theta"] = 2e6;
  EXPECT_EQ(error_of(both), "no error");
  both["rope_local_base_freq"] = 1e4;
  EXPECT_THAT(error_of(both), HasSubstr("'rope_local_base_freq' disagrees"));
}

TEST(Gemma3, CapsAndDirections) {
  json config = gemma();
  config["final_logit_softcapping"] = 30.0;
  EXPECT_FLOAT_EQ(read(config)->final_soft_cap, 30);
  config["attn_logit_softcapping"] = 50.0;
  EXPECT_THAT(error_of(config), HasSubstr("attn_logit_softcapping"));
  config = gemma();
  config["use_bidirectional_attention"] = true;
  EXPECT_THAT(error_of(config), HasSubstr("use_bidirectional_attention"));
}

// F17, F18: a picture model whose text part is sparse or half null still gives its text model.
TEST(Gemma3, TextPartOfAPictureModel) {
  json config = {{"model_type", "gemma3"},
                 {"architectures", {"Gemma3ForConditionalGeneration"}},
                 {"mm_tokens_per_image", 256},
                 {"vision_config", {{"hidden_size", 1152}}},
                 {"vocab_size", 400},
                 {"text_config",
                  {{"model_type", "gemma3_text"},
                   {"hidden_size", 2560},
                   {"intermediate_size", 10240},
                   {"num_hidden_layers", 34},
                   {"sliding_window", 1024},
                   {"vocab_size", nullptr},
                   {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}}}};
  auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->vocab, 400);
  EXPECT_EQ(spec->layers.size(), 34u);
  EXPECT_EQ(spec->layers[0].attn.heads, 8);
  EXPECT_EQ(spec->layers[0].attn.kv_heads, 4);
  EXPECT_EQ(spec->layers[0].attn.head_dim, 256);
  EXPECT_EQ(spec->layers[0].attn.window, 1024);
  EXPECT_TRUE(std::holds_alternative<RopeLinear>(spec->layers[5].attn.rope.scaling));
  EXPECT_TRUE(std::holds_alternative<RopePlain>(spec->layers[0].attn.rope.scaling));
  for (const json& vision : {json(nullptr), json::object()}) {
    config["vision_config"] = vision;
    EXPECT_EQ(error_of(config), "no error");
  }
  config.erase("vision_config");
  EXPECT_EQ(error_of(config), "no error");
  config["text_config"]["new_trick"] = 2;
  EXPECT_THAT(error_of(config), HasSubstr("'new_trick' = 2"));
  config.erase("text_config");
  EXPECT_THAT(error_of(config), HasSubstr("'text_config' is missing"));
}

// Text keys on both levels: the nested one's, unless it is null; two that disagree are not decided by their place.
TEST(Gemma3, TwoLevelsOfOneConfiguration) {
  const json config = {{"model_type", "gemma3"},
                       {"num_hidden_layers", 12},
                       {"image_token_id", 7},
                       {"torch_dtype", "float32"},
                       {"text_config",
                        {{"model_type", "gemma3_text"},
                         {"hidden_size", 2560},
                         {"image_token_id", nullptr},
                         {"num_hidden_layers", nullptr},
                         {"torch_dtype", "bfloat16"}}}};
  auto spec = read(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->layers.size(), 12U);
  EXPECT_EQ(spec->hidden, 2560);
  json same = config, other = config;
  same["text_config"]["num_hidden_layers"] = 12;
  EXPECT_EQ(error_of(same), "no error");
  other["text_config"]["num_hidden_layers"] = 6;
  EXPECT_THAT(error_of(other), HasSubstr("'num_hidden_layers' is 12, and 6 in 'text_config'"));
}

}  // namespace
}  // namespace vernier
