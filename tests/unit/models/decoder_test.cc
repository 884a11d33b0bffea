#include "models/decoder.h"

#include <gmock/gmock.h>

#include "ops/null_backend.h"
#include "testing/invented_binder.h"
#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::config_of;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::InventedBinder;
using testing::llama_config;
using ::testing::Not;
using testing::read;

TEST(CacheSpecs, LayersOfOneWindowShareAClass) {
  json config = config_of("gemma3_text", "Gemma3ForCausalLM");
  config.update({{"num_hidden_layers", 7}, {"head_dim", 32}, {"sliding_window", 8}});
  std::vector<CacheSpec> specs = cache_specs(*read(config), CodecId::kBF16);
  ASSERT_EQ(specs.size(), 7u);
  EXPECT_EQ(cache_classes(specs), 2);
  for (size_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(specs[layer].layer, static_cast<int>(layer));
    EXPECT_EQ(specs[layer].cache_class, layer == 5 ? 1 : 0);
    EXPECT_EQ(specs[layer].window.has_value(), layer != 5);
    EXPECT_EQ(specs[layer].stored, CodecId::kBF16);
  }
  EXPECT_EQ(cache_classes(cache_specs(*read(llama_config()), CodecId::kF32)), 1);
}

// MODELS-5: every weight is named once, q, k, v as one matrix and gate, up as another.
TEST(Decoder, BindsEveryWeightOnce) {
  NullBackend backend;
  InventedBinder binder(backend, 1);
  json config = llama_config();
  config["num_hidden_layers"] = 1;
  config["attention_bias"] = true;
  auto decoder = Decoder::bind(*read(config), binder);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  EXPECT_THAT(binder.names,
              ::testing::UnorderedElementsAre(
                  "model.embed_tokens", "model.layers.0.input_layernorm", "model.layers.0.self_attn.q_proj with bias",
                  "model.layers.0.self_attn.k_proj with bias", "model.layers.0.self_attn.v_proj with bias",
                  "model.layers.0.self_attn.o_proj with bias", "model.layers.0.post_attention_layernorm",
                  "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj",
                  "model.norm", "lm_head"));
}

// F13: a head that is stored beside a tie flag is used; without it one packed copy serves both.
TEST(Decoder, TiedHeads) {
  json config = llama_config();
  config["tie_word_embeddings"] = true;
  NullBackend backend;
  InventedBinder absent(backend, 1), stored(backend, 1);
  stored.stored_also = {"lm_head"};
  ASSERT_TRUE(Decoder::bind(*read(config), absent).ok());
  EXPECT_THAT(absent.names, Not(Contains("lm_head")));
  ASSERT_TRUE(Decoder::bind(*read(config), stored).ok());
  EXPECT_THAT(stored.names, Contains("lm_head"));
}

TEST(Decoder, TakesThePrefixThatTheCheckpointUses) {
  json config = {{"model_type", "gemma3"},
                 {"text_config", {{"hidden_size", 64}, {"num_hidden_layers", 1}, {"vocab_size", 100}}}};
  for (const char* prefix : {"model.language_model.", "language_model.model.", "model."}) {
    NullBackend backend;
    InventedBinder binder(backend, 1);
    binder.stored_also = {std::string(prefix) + "embed_tokens"};
    ASSERT_TRUE(Decoder::bind(*read(config), binder).ok());
    EXPECT_THAT(binder.names, Each(::testing::StartsWith(prefix)));
  }
}

}  // namespace
}  // namespace vernier
