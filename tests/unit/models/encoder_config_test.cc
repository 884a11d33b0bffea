#include <gmock/gmock.h>

#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json bert_config() {
  return {{"model_type", "bert"},      {"architectures", {"BertModel"}},
          {"vocab_size", 60},          {"hidden_size", 24},
          {"intermediate_size", 44},   {"num_hidden_layers", 2},
          {"num_attention_heads", 3},  {"max_position_embeddings", 40},
          {"layer_norm_eps", 3e-5},    {"hidden_act", "gelu"},
          {"type_vocab_size", 2},      {"position_embedding_type", "absolute"},
          {"classifier_dropout", 0.1}, {"use_cache", true}};
}

std::string refused(const char* key, const json& value) {
  json tree = bert_config();
  tree[key] = value;
  Config config(std::move(tree), "config.json");
  auto spec = read_encoder(config);
  return spec.ok() ? "no error" : spec.error().to_string();
}

TEST(EncoderConfig, BertIsReadAsItStands) {
  Config config(bert_config(), "config.json");
  EXPECT_TRUE(names_encoder(config));
  auto spec = read_encoder(config);
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->layers, 2);
  EXPECT_EQ(spec->attn.heads, 3);
  EXPECT_EQ(spec->attn.head_dim, 8);
  EXPECT_FALSE(spec->attn.causal);
  EXPECT_EQ(spec->act, Act::kGelu);
  EXPECT_FLOAT_EQ(spec->norm_eps, 3e-5f);
}

// MODELS-2: what would change arithmetic is refused by name.
TEST(EncoderConfig, WhatChangesArithmeticIsRefused) {
  EXPECT_EQ(refused("hidden_act", "gelu_new"), "no error");
  EXPECT_THAT(refused("hidden_act", "relu6"), HasSubstr("'hidden_act' is 'relu6'"));
  EXPECT_THAT(refused("position_embedding_type", "relative_key"), HasSubstr("relative_key"));
  EXPECT_THAT(refused("is_decoder", true), HasSubstr("'is_decoder' is true"));
  EXPECT_THAT(refused("add_cross_attention", true), HasSubstr("cross attention"));
  EXPECT_THAT(refused("num_attention_heads", 5), HasSubstr("expected a multiple"));
  EXPECT_THAT(refused("embedding_size", 12), HasSubstr("embedding_size"));
  EXPECT_THAT(refused("architectures", {"BertForSequenceClassification"}), HasSubstr("is not built"));
}

// MODELS-4: an encoder where a decoder is wanted is said to be one, and where to ask it.
TEST(EncoderConfig, AnEncoderIsNoDecoder) {
  EXPECT_THAT(testing::error_of(bert_config()), HasSubstr("/v1/embeddings"));
  Config llama(testing::llama_config(), "config.json");
  EXPECT_FALSE(names_encoder(llama));
}

}  // namespace
}  // namespace vernier
