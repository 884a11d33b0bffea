#include <gmock/gmock.h>

#include <cmath>

#include "models/decoder.h"
#include "ops/null_backend.h"
#include "testing/invented_binder.h"
#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using testing::error_of;
using ::testing::HasSubstr;
using testing::InventedBinder;
using testing::read;

// Keys as LongCat-Flash is published.
json longcat_config() {
  return {{"model_type", "longcat_flash"},
          {"architectures", {"LongcatFlashForCausalLM"}},
          {"attention_bias", false},
          {"attention_method", "MLA"},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"expert_ffn_hidden_size", 48},
          {"ffn_hidden_size", 160},
          {"hidden_size", 96},
          {"kv_lora_rank", 32},
          {"max_position_embeddings", 256},
          {"mla_scale_kv_lora", true},
          {"mla_scale_q_lora", true},
          {"moe_topk", 3},
          {"n_routed_experts", 8},
          {"num_attention_heads", 4},
          {"num_layers", 3},
          {"q_lora_rank", 48},
          {"qk_nope_head_dim", 16},
          {"qk_rope_head_dim", 16},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000000.0},
          {"routed_scaling_factor", 6.0},
          {"v_head_dim", 24},
          {"vocab_size", 320},
          {"zero_expert_num", 4},
          {"zero_expert_type", "identity"}};
}

json ngram_config() {
  json config = longcat_config();
  config["model_type"] = "longcat_flash_ngram";
  config["architectures"] = {"LongcatFlashNgramForCausalLM"};
  config.update({{"emb_neighbor_num", 4}, {"emb_split_num", 2}, {"ngram_vocab_size_ratio", 2}});
  return config;
}

// MODELS-7
TEST(LongCat, TwoAttentionsALayerAndExpertsThatJoinLate) {
  auto spec = read(longcat_config());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  ASSERT_EQ(spec->layers.size(), 6u);
  EXPECT_EQ(spec->stored_together, 2);
  for (size_t i = 0; i < 6; ++i) {
    const LayerSpec& layer = spec->layers[i];
    EXPECT_EQ(layer.ffn, 160);
    EXPECT_EQ(layer.experts.has_value(), i % 2 == 0);
    EXPECT_EQ(layer.experts_late, i % 2 == 0);
    EXPECT_FLOAT_EQ(layer.attn.scale, static_cast<float>(std::sqrt(96.0 / 48) / std::sqrt(32.0)));
    EXPECT_FLOAT_EQ(layer.attn.latent->norm_scale, static_cast<float>(std::sqrt(3.0)));
    EXPECT_TRUE(layer.attn.latent->neighbours);
  }
  const ExpertsSpec& experts = *spec->layers[0].experts;
  EXPECT_EQ(experts.experts, 12);
  EXPECT_EQ(experts.identity, 4);
  EXPECT_EQ(experts.chosen, 3);
  EXPECT_EQ(experts.scale, 6);
  EXPECT_FALSE(experts.normalize);
  EXPECT_TRUE(spec->corrects_scores);
  json plain = longcat_config();
  plain.update({{"mla_scale_q_lora", false}, {"mla_scale_kv_lora", false}, {"zero_expert_num", 0}});
  spec = read(plain);
  EXPECT_FLOAT_EQ(spec->layers[0].attn.scale, static_cast<float>(1 / std::sqrt(32.0)));
  EXPECT_EQ(spec->layers[0].attn.latent->norm_scale, 1);
  EXPECT_EQ(spec->layers[0].experts->weighted(), 8);
}

// A cache for each attention, not for each layer of the checkpoint.
TEST(LongCat, EveryAttentionHasItsCache) {
  const auto caches = cache_specs(*read(longcat_config()), CodecId::kF16);
  ASSERT_EQ(caches.size(), 6u);
  for (size_t i = 0; i < caches.size(); ++i) {
    EXPECT_EQ(caches[i].layer, static_cast<int>(i));
    EXPECT_EQ(caches[i].kind, CacheKind::kLatent);
    EXPECT_EQ(caches[i].bytes_per_token(), (32 + 16) * 2);
  }
}

TEST(LongCat, NamesAreThoseOfTheCheckpoint) {
  json config = longcat_config();
  config.update({{"num_layers", 1}, {"n_routed_experts", 1}});
  NullBackend backend;
  InventedBinder binder(backend, 1);
  auto decoder = Decoder::bind(*read(config), binder);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  std::vector<std::string> expected = {"model.embed_tokens", "model.norm", "lm_head"};
  const std::string layer = "model.layers.0.";
  for (const char* name : {"mlp.router.classifier", "mlp.router.e_score_correction_bias", "mlp.experts.0.gate_proj",
                           "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"}) {
    expected.push_back(layer + name);
  }
  for (const char* i : {"0", "1"}) {
    for (const char* norm : {"input_layernorm.", "post_attention_layernorm."}) expected.push_back(layer + norm + i);
    for (const char* name :
         {"q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "o_proj"}) {
      expected.push_back(layer + "self_attn." + i + "." + name);
    }
    // A matrix of keys and one of values for each head.
    for (int part = 0; part < 8; ++part) expected.push_back(layer + "self_attn." + i + ".kv_b_proj");
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) expected.push_back(layer + "mlps." + i + "." + name);
  }
  EXPECT_THAT(binder.names, ::testing::UnorderedElementsAreArray(expected));
}

// What a row reads of its experts: identity ones are chosen like others and have nothing to read.
TEST(LongCat, IdentityExpertsCountAsNoBytes) {
  NullBackend backend;
  InventedBinder binder(backend, 1);
  const Decoder decoder = Decoder::bind(*read(longcat_config()), binder).value();
  int found = 0;
  for (const DecoderPart& part : decoder.parts()) {
    if (part.op != "experts_gate_up" && part.op != "experts_down") continue;
    ++found;
    EXPECT_EQ(part.alike, 8);
    EXPECT_DOUBLE_EQ(part.matrices_of_row(), 8 * 3 / 12.0);
    EXPECT_EQ(part.rows_of(256), 64);
  }
  EXPECT_EQ(found, 6);
  std::vector<std::string> ops;
  for (const DecoderPart& part : decoder.parts()) {
    if (part.layer == 0) ops.push_back(part.op);
  }
  EXPECT_THAT(ops, AllOf(Contains("gate_up"), Contains("router"), ::testing::Not(Contains("shared_gate_up"))));
}

TEST(LongCat, WhatIsNotBuiltOrCannotBeIsRefused) {
  auto with = [](json fields) {
    json config = longcat_config();
    config.update(fields);
    return error_of(config);
  };
  EXPECT_THAT(with({{"router_bias", true}}), HasSubstr("'router_bias'"));
  EXPECT_THAT(with({{"zero_expert_type", "drop"}}), HasSubstr("'zero_expert_type' is 'drop'"));
  EXPECT_THAT(with({{"attention_method", "GQA"}}), HasSubstr("'attention_method' is 'GQA'"));
  EXPECT_THAT(with({{"attention_bias", true}}), HasSubstr("'attention_bias'"));
  EXPECT_THAT(with({{"moe_topk", 13}}), HasSubstr("13 of 8 experts and 4 that are the identity"));
  EXPECT_THAT(with({{"num_hidden_layers", 5}}), HasSubstr("expected 'num_layers', 3, or the number of attentions, 6"));
  EXPECT_THAT(with({{"intermediate_size", 161}}), HasSubstr("remove the wrong one"));
  EXPECT_THAT(with({{"routed_scaling_factor", 0}}), HasSubstr("'routed_scaling_factor' is 0"));
  EXPECT_THAT(with({{"ngram_vocab_size_ratio", 78}}), HasSubstr("'ngram_vocab_size_ratio'"));
  EXPECT_EQ(with({{"num_hidden_layers", 6}}), "no error");
  EXPECT_EQ(with({{"num_hidden_layers", 3}}), "no error");
}

TEST(LongCatNgram, TablesByLengthAndSplit) {
  auto spec = read(ngram_config());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  ASSERT_EQ(spec->ngrams.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const NgramSpec& one = spec->ngrams[i];
    EXPECT_EQ(one.order, static_cast<int>(2 + i / 2));
    EXPECT_EQ(one.rows, static_cast<int64_t>(640 + 2 * i + 1));
    EXPECT_EQ(one.vocab, 320);
    EXPECT_EQ(one.end_token, 2);
  }
  NullBackend backend;
  InventedBinder binder(backend, 1);
  ASSERT_TRUE(Decoder::bind(*spec, binder).ok());
  EXPECT_THAT(binder.names,
              AllOf(Contains("model.ngram_embeddings.embedders.5"), Contains("model.ngram_embeddings.post_projs.5")));
}

// Tables that the configuration does not ask for are not left out in silence.
TEST(LongCatNgram, MoreTablesThanConfiguredAreRefused) {
  for (const auto& [config, table] : {std::pair{ngram_config(), "6"}, {longcat_config(), "0"}}) {
    NullBackend backend;
    InventedBinder binder(backend, 1);
    binder.stored_also = {"model.embed_tokens", std::string("model.ngram_embeddings.embedders.") + table};
    auto decoder = Decoder::bind(*read(config), binder);
    ASSERT_FALSE(decoder.ok());
    EXPECT_THAT(decoder.error().to_string(), HasSubstr(std::string("embedders.") + table + " is stored"));
  }
}

TEST(LongCatNgram, SettingsThatCannotBeAreErrors) {
  for (const json& fields : {json{{"emb_split_num", 5}}, json{{"emb_neighbor_num", 1}}, json{{"eos_token_id", 320}},
                             json{{"ngram_vocab_size_ratio", 0}}, json{{"ngram_vocab_size_ratio", 1e9}}}) {
    json config = ngram_config();
    config.update(fields);
    EXPECT_THAT(error_of(config), HasSubstr("tables of")) << fields;
  }
  json config = ngram_config();
  config.erase("emb_split_num");
  EXPECT_THAT(error_of(config), HasSubstr("'emb_split_num'"));
}

}  // namespace
}  // namespace vernier
