#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_parts.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::TinyModel;

class GgufModelTest : public ::testing::Test {
 protected:
  std::string config_error(const GgufWriter& writer) {
    auto checkpoint = Checkpoint::open(folder_.write("m.gguf", writer.bytes()));
    if (!checkpoint.ok()) return "open: " + checkpoint.error().to_string();
    auto config = (*checkpoint)->config();
    return config.ok() ? "no error" : config.error().to_string();
  }
  Config config_of(const GgufWriter& writer) {
    auto checkpoint = Checkpoint::open(folder_.write("m.gguf", writer.bytes()));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    auto config = (*checkpoint)->config();
    EXPECT_TRUE(config.ok()) << config.error().to_string();
    return config.ok() ? std::move(config).value() : Config(Json::object(), "");
  }
  /// The tiny model, with what a test adds to its metadata.
  GgufWriter tiny() {
    GgufWriter writer;
    TinyModel::add_metadata(writer);
    model_.add_tensors(writer);
    return writer;
  }
  GgufWriter gemma(uint32_t layers) {
    GgufWriter writer;
    writer.text("general.architecture", "gemma3").u32("gemma3.block_count", layers).u32("gemma3.context_length", 128);
    writer.u32("gemma3.embedding_length", 64).u32("gemma3.feed_forward_length", 32);
    writer.u32("gemma3.attention.head_count", 4).u32("gemma3.attention.head_count_kv", 1);
    writer.u32("gemma3.attention.key_length", 32).u32("gemma3.attention.value_length", 32);
    writer.f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f).f32("gemma3.rope.freq_base", 1e6f);
    writer.u32("gemma3.attention.sliding_window", 512);
    writer.f32_tensor("token_embd.weight", {64, 2}, std::vector<float>(128));
    return writer;
  }
  /// Three parts; the head stands in part 2.
  void write_parts(const std::string& stem = "big") {
    for (int part = 0; part < 3; ++part) {
      GgufWriter writer;
      if (part == 0) TinyModel::add_metadata(writer);
      writer.u16("split.no", static_cast<uint16_t>(part)).u16("split.count", 3);
      writer.i32("split.tensors.count", static_cast<int32_t>(model_.tensors.size()));
      size_t index = 0;
      for (const auto& [name, tensor] : model_.tensors) {
        bool head = name == "lm_head.weight";
        if (head ? part == 1 : static_cast<int>(index % 3) == part) model_.add_tensor(writer, name);
        if (!head) ++index;
      }
      folder_.write(fmt::format("{}-{:05}-of-00003.gguf", stem, part + 1), writer.bytes());
    }
  }
  std::string part(int number) { return folder_.path(fmt::format("big-{:05}-of-00003.gguf", number)); }
  std::string open_error(const std::string& path) {
    auto checkpoint = Checkpoint::open(path);
    return checkpoint.ok() ? "no error" : checkpoint.error().to_string();
  }

  TempFolder folder_;
  TinyModel model_;
};

TEST_F(GgufModelTest, MetadataBecomeAHuggingFaceConfiguration) {
  Config config = config_of(tiny());
  EXPECT_EQ(config.text("model_type").value(), "llama");
  EXPECT_EQ(config.integer("hidden_size").value(), 8);
  EXPECT_EQ(config.integer("intermediate_size").value(), 12);
  EXPECT_EQ(config.integer("num_hidden_layers").value(), 2);
  EXPECT_EQ(config.integer("num_attention_heads").value(), 2);
  EXPECT_EQ(config.integer("num_key_value_heads").value(), 1);
  EXPECT_EQ(config.integer("head_dim").value(), 4);
  EXPECT_EQ(config.integer("vocab_size").value(), 6);
  EXPECT_EQ(config.integer("max_position_embeddings").value(), 64);
  EXPECT_EQ(config.number("rope_theta").value(), 20000);
  EXPECT_FLOAT_EQ(static_cast<float>(config.number("rms_norm_eps").value()), 1e-5f);
  EXPECT_FALSE(config.boolean("tie_word_embeddings", true).value());
  EXPECT_FALSE(config.boolean("attention_bias", true).value());
  EXPECT_FALSE(config.has("rope_scaling"));
}

TEST_F(GgufModelTest, Gemma3DefaultsThatTheFileLeavesOut) {
  Config config = config_of(gemma(18));
  EXPECT_EQ(config.text("model_type").value(), "gemma3_text");
  EXPECT_EQ(config.integer("head_dim").value(), 32);
  EXPECT_EQ(config.integer("sliding_window").value(), 512);
  EXPECT_EQ(config.integer("sliding_window_pattern").value(), 6);
  EXPECT_EQ(config.number("rope_theta").value(), 1e6);
  EXPECT_EQ(config.number("rope_local_base_freq").value(), 1e4);
  EXPECT_EQ(config.integer("query_pre_attn_scalar").value(), 32);
  EXPECT_TRUE(config.boolean("tie_word_embeddings", false).value());
  // The 27B model: columns by heads, 64 / 4.
  EXPECT_EQ(config_of(gemma(62)).integer("query_pre_attn_scalar").value(), 16);
  // Keys of newer files override the defaults.
  GgufWriter newer = gemma(18);
  newer.f32("gemma3.rope.freq_base_swa", 5000).bools("gemma3.attention.sliding_window_pattern", {1, 0, 1});
  Config explicit_config = config_of(newer);
  EXPECT_EQ(explicit_config.number("rope_local_base_freq").value(), 5000);
  EXPECT_EQ(explicit_config.raw("layer_types"), Json({"sliding_attention", "full_attention", "sliding_attention"}));
}

TEST_F(GgufModelTest, WindowsOfLayersInEverySpelling) {
  const Json all(18, "sliding_attention");
  EXPECT_EQ(config_of(gemma(18).u32("gemma3.attention.sliding_window_pattern", 0)).raw("layer_types"), all);
  const Json every_third = config_of(gemma(18).u32("gemma3.attention.sliding_window_pattern", 3)).raw("layer_types");
  EXPECT_EQ(every_third[1], "sliding_attention");
  EXPECT_EQ(every_third[2], "full_attention");
  EXPECT_THAT(config_error(gemma(18).text("gemma3.attention.sliding_window_pattern", "all")), HasSubstr("integer"));
  EXPECT_THAT(config_error(gemma(18).bools("gemma3.attention.sliding_window_pattern", {})), HasSubstr("hold flags"));
  GgufWriter many = gemma(100000).u32("gemma3.attention.sliding_window_pattern", 3);
  EXPECT_THAT(config_error(many), HasSubstr("at most 65536"));
}

// Newer converters write what Hugging Face's configuration has; another reader's factor is beyond what YaRN gives.
TEST_F(GgufModelTest, YarnInEverySpelling) {
  auto yarn = [&] {
    return tiny()
        .text("llama.rope.scaling.type", "yarn")
        .f32("llama.rope.scaling.factor", 4)
        .u32("llama.rope.scaling.original_context_length", 16);
  };
  const Json plain = config_of(yarn()).raw("rope_scaling");
  EXPECT_FALSE(plain.contains("beta_fast") || plain.contains("attention_factor"));
  GgufWriter newer = yarn().f32("llama.rope.scaling.yarn_beta_fast", 8).f32("llama.rope.scaling.yarn_beta_slow", 2);
  newer.f32("llama.rope.scaling.yarn_ext_factor", 1).f32("llama.rope.scaling.yarn_attn_factor", 1.5F);
  const Json settings = config_of(newer).raw("rope_scaling");
  EXPECT_EQ(settings["beta_fast"], 8);
  EXPECT_EQ(settings["beta_slow"], 2);
  EXPECT_EQ(settings["attention_factor"], 1.5);
  const Json beyond = config_of(yarn().f32("llama.rope.scaling.attn_factor", 2)).raw("rope_scaling");
  EXPECT_NEAR(beyond["attention_factor"].get<double>(), 2 * (0.1 * std::log(4) + 1), 1e-9);
  EXPECT_THAT(config_error(yarn().f32("llama.rope.scaling.yarn_ext_factor", 0.5F)), HasSubstr("only 1 is built"));
  GgufWriter both = yarn().f32("llama.rope.scaling.attn_factor", 2).f32("llama.rope.scaling.yarn_attn_factor", 2);
  EXPECT_THAT(config_error(both), HasSubstr("both there"));
}

TEST_F(GgufModelTest, TwoNamesStandForNoVocabulary) {
  for (const char* name : {"none", "no_vocab", "gpt2"}) {
    const auto checkpoint =
        Checkpoint::open(folder_.write("m.gguf", tiny().text("tokenizer.ggml.model", name).bytes()));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    EXPECT_EQ((*checkpoint)->tokenizer().gguf != nullptr, std::string(name) == "gpt2") << name;
  }
}

TEST_F(GgufModelTest, AWindowMakesAMistralOfALlama) {
  Config config = config_of(tiny().u32("llama.attention.sliding_window", 4096));
  EXPECT_EQ(config.text("model_type").value(), "mistral");
  EXPECT_EQ(config.integer("sliding_window").value(), 4096);
  EXPECT_FALSE(config.has("mlp_bias"));
  // 0 stands for none.
  Config without = config_of(tiny().u32("llama.attention.sliding_window", 0));
  EXPECT_EQ(without.text("model_type").value(), "llama");
  EXPECT_FALSE(without.has("sliding_window"));
  EXPECT_THAT(config_error(tiny().i32("llama.attention.sliding_window", -3)), HasSubstr("is -3"));
  GgufWriter biased = tiny().u32("llama.attention.sliding_window", 4096);
  biased.f32_tensor("blk.0.attn_q.bias", {8}, std::vector<float>(8, 0.3f));
  EXPECT_THAT(config_error(biased), HasSubstr("together with biases"));
}

// CKPT-8
TEST_F(GgufModelTest, UnknownArchitectureKeysAreNamed) {
  EXPECT_THAT(config_error(tiny().f32("llama.logit_scale", 0.5f)), HasSubstr("llama.logit_scale"));
  EXPECT_THAT(config_error(tiny().f32("llama.attention.scale", 0.3f)), HasSubstr("llama.attention.scale"));
  EXPECT_EQ(config_error(tiny().text("general.url", "x").u32("general.file_type", 3)), "no error");
}

// CKPT-8
TEST_F(GgufModelTest, OtherArithmeticIsRefusedByName) {
  EXPECT_THAT(config_error(tiny().u32("llama.expert_count", 8)), HasSubstr("llama.expert_used_count"));
  EXPECT_EQ(config_error(tiny().u32("llama.expert_count", 0)), "no error");
  EXPECT_THAT(config_error(tiny().boolean("llama.attention.causal", false)), HasSubstr("causal"));
  EXPECT_THAT(config_error(tiny().u32("llama.rope.dimension_count", 2)), HasSubstr("rope over 2 of a head's 4"));
  EXPECT_THAT(config_error(tiny().u32("llama.attention.value_length", 6)), HasSubstr("values of 6"));
  EXPECT_THAT(config_error(GgufWriter().text("general.architecture", "deepseek2")), HasSubstr("deepseek_v3"));
  EXPECT_THAT(config_error(GgufWriter().text("general.architecture", "qwen2moe")), HasSubstr("qwen2_moe"));
  EXPECT_THAT(config_error(GgufWriter().text("general.architecture", "nonsense")), HasSubstr("nonsense"));
  EXPECT_THAT(config_error(tiny().text("general.type", "adapter")), HasSubstr("adapter"));
  EXPECT_THAT(config_error(GgufWriter().u32("a", 1)), HasSubstr("general.architecture"));
}

// CKPT-7
TEST_F(GgufModelTest, TwoSourcesOfTheVocabularySizeMustAgree) {
  EXPECT_EQ(config_error(tiny().u32("llama.vocab_size", 6)), "no error");
  EXPECT_THAT(config_error(tiny().u32("llama.vocab_size", 7)), AllOf(HasSubstr("7"), HasSubstr("6 rows")));
  std::vector<std::string> seven(7, "t");
  EXPECT_THAT(config_error(tiny().strings("tokenizer.ggml.tokens", seven)), HasSubstr("7 entries"));
}

TEST_F(GgufModelTest, WrongTypesOfKnownKeysAreErrors) {
  GgufWriter writer;
  writer.text("general.architecture", "llama").text("llama.embedding_length", "8").u32("llama.attention.head_count", 2);
  model_.add_tensors(writer);
  EXPECT_THAT(config_error(writer), AllOf(HasSubstr("llama.embedding_length"), HasSubstr("integer")));
  GgufWriter no_heads;
  no_heads.text("general.architecture", "llama").u32("llama.embedding_length", 8).u32("llama.attention.head_count", 0);
  no_heads.u32("llama.feed_forward_length", 4).u32("llama.block_count", 1).u32("llama.context_length", 8);
  no_heads.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  EXPECT_THAT(config_error(no_heads), HasSubstr("0 heads"));
}

// F28
TEST_F(GgufModelTest, RopeFactorsAreAppliedAndNotIgnored) {
  GgufWriter writer = tiny();
  writer.f32_tensor("rope_freqs.weight", {2}, {2.0f, 1.7f});
  Config config = config_of(writer);
  Json scaling = config.raw("rope_scaling");
  EXPECT_EQ(scaling["rope_type"], "frequency_factors");
  EXPECT_EQ(scaling["factors"], Json({2.0f, 1.7f}));
  auto checkpoint = Checkpoint::open(folder_.path("m.gguf"));
  EXPECT_THAT((*checkpoint)->find("rope_freqs.weight")->used_by_configuration, HasSubstr("rope"));
  // Two kinds of scaling at once: neither is dropped without a word.
  writer.f32("llama.rope.scaling.factor", 4).text("llama.rope.scaling.type", "linear");
  EXPECT_THAT(config_error(writer), HasSubstr("together"));
}

TEST_F(GgufModelTest, LinearRopeScalingInEitherSpelling) {
  Json linear = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(config_of(tiny().f32("llama.rope.scale_linear", 8)).raw("rope_scaling"), linear);
  EXPECT_EQ(config_of(tiny().f32("llama.rope.scaling.factor", 8).text("llama.rope.scaling.type", "linear"))
                .raw("rope_scaling"),
            linear);
  EXPECT_FALSE(config_of(tiny().text("llama.rope.scaling.type", "none")).has("rope_scaling"));
  EXPECT_FALSE(config_of(tiny().f32("llama.rope.scale_linear", 1)).has("rope_scaling"));
  EXPECT_EQ(config_of(tiny().text("llama.rope.scaling.type", "yarn")).raw("rope_scaling")["rope_type"], "yarn");
}

TEST_F(GgufModelTest, TensorNamesHaveOneSpelling) {
  const GgufFamily& llama = *gguf_family("llama");
  EXPECT_EQ(hf_tensor_name(llama, "blk.13.ffn_norm.weight"), "model.layers.13.post_attention_layernorm.weight");
  EXPECT_EQ(hf_tensor_name(*gguf_family("gemma3"), "blk.13.ffn_norm.weight"),
            "model.layers.13.pre_feedforward_layernorm.weight");
  EXPECT_EQ(hf_tensor_name(*gguf_family("gemma3"), "blk.0.post_ffw_norm.weight"),
            "model.layers.0.post_feedforward_layernorm.weight");
  EXPECT_EQ(hf_tensor_name(llama, "blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
  for (const char* name :
       {"blk.01.attn_q.weight", "blk..attn_q.weight", "blk.0.attn_q", "blk.0.attn_qkv.weight",
        "blk.9999999.attn_q.weight", "x", "", "blk.", "blk.0.post_ffw_norm.weight", "blk.0.attn_q.scales"}) {
    EXPECT_EQ(hf_tensor_name(llama, name), std::nullopt) << name;
  }
}

// F26
TEST_F(GgufModelTest, TyingIsDecidedOnTheUnionOfParts) {
  write_parts();
  auto checkpoint = Checkpoint::open(part(1));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_FALSE((*checkpoint)->config()->boolean("tie_word_embeddings", true).value());
  EXPECT_NE((*checkpoint)->find("lm_head.weight"), nullptr);
  EXPECT_EQ((*checkpoint)->tensors().size(), model_.tensors.size());
}

// F27
TEST_F(GgufModelTest, AnyPartOrTheFolderOpensTheWholeSet) {
  write_parts();
  for (const std::string& path : {part(1), part(2), part(3), folder_.path()}) {
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    EXPECT_TRUE((*checkpoint)->config().ok());
    EXPECT_EQ((*checkpoint)->tensors().size(), model_.tensors.size());
    EXPECT_THAT((*checkpoint)->files(), ElementsAre(part(1), part(2), part(3)));
  }
}

// F27, CKPT-7
TEST_F(GgufModelTest, MissingSwappedAndRepeatedPartsAreErrors) {
  namespace fs = std::filesystem;
  write_parts();
  fs::rename(part(3), folder_.path("away"));
  EXPECT_THAT(open_error(part(1)), AllOf(HasSubstr("big-00003-of-00003.gguf"), HasSubstr("missing")));
  fs::copy_file(part(2), part(3));
  EXPECT_THAT(open_error(part(1)), AllOf(HasSubstr("part 3 of 3"), HasSubstr("part 2 of 3")));
  fs::remove(part(3));
  fs::rename(part(2), part(3));
  fs::rename(folder_.path("away"), part(2));
  EXPECT_THAT(open_error(part(2)), HasSubstr("swapped"));
  // A part that lost its name cannot be placed.
  fs::copy_file(part(1), folder_.path("alone.gguf"));
  EXPECT_THAT(open_error(folder_.path("alone.gguf")), HasSubstr("one of 3 parts"));
}

TEST_F(GgufModelTest, PartsOfTwoModelsAreNotMixed) {
  write_parts();
  GgufWriter other;
  other.u16("split.no", 2).u16("split.count", 3).i32("split.tensors.count", 4);
  folder_.write("big-00003-of-00003.gguf", other.bytes());
  EXPECT_THAT(open_error(part(1)), HasSubstr("split.tensors.count"));
  write_parts();
  GgufWriter twin;
  twin.u16("split.no", 2).u16("split.count", 3);
  twin.i32("split.tensors.count", static_cast<int32_t>(model_.tensors.size()));
  model_.add_tensor(twin, "lm_head.weight");
  folder_.write("big-00003-of-00003.gguf", twin.bytes());
  EXPECT_THAT(open_error(part(1)), AllOf(HasSubstr("output.weight"), HasSubstr("part 2 and in part 3")));
}

TEST_F(GgufModelTest, AFolderWithSeveralModelsAsksWhich) {
  folder_.write("a.gguf", model_.gguf());
  folder_.write("mmproj-a.gguf", GgufWriter().text("general.architecture", "clip").bytes());
  EXPECT_EQ(open_error(folder_.path()), "no error");
  folder_.write("b.gguf", model_.gguf());
  EXPECT_THAT(open_error(folder_.path()), AllOf(HasSubstr("a.gguf, b.gguf"), HasSubstr("several")));
}

TEST_F(GgufModelTest, EndTokensAndTemplatesComeFromMetadata) {
  GgufWriter writer = tiny();
  writer.u32("tokenizer.ggml.eos_token_id", 5)
      .u32("tokenizer.ggml.eot_token_id", 3)
      .u32("tokenizer.ggml.bos_token_id", 1);
  writer.text("tokenizer.chat_template.tools", "{{ tools }}").text("tokenizer.chat_template", "{{ messages }}");
  writer.f32("general.sampling.temp", 0.5f).i32("general.sampling.top_k", 20);
  auto opened = Checkpoint::open(folder_.write("m.gguf", writer.bytes()));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  const Checkpoint& checkpoint = **opened;
  EXPECT_THAT(checkpoint.generation().eos_ids, ElementsAre(3, 5));
  EXPECT_EQ(checkpoint.generation().bos_id, 1);
  EXPECT_EQ(checkpoint.generation().temperature, 0.5);
  EXPECT_EQ(checkpoint.generation().top_k, 20);
  ASSERT_NE(checkpoint.chat_template(), nullptr);
  EXPECT_EQ(checkpoint.chat_template()->text, "{{ messages }}");
  EXPECT_EQ(checkpoint.chat_template("tools")->text, "{{ tools }}");
  EXPECT_EQ(checkpoint.chat_template("other"), nullptr);
}

TEST_F(GgufModelTest, WhatIsNoModelIsNamed) {
  EXPECT_THAT(open_error(folder_.path("absent")), HasSubstr("no such file"));
  EXPECT_THAT(open_error(folder_.path()), HasSubstr("no model there"));
  EXPECT_THAT(open_error(folder_.write("x.bin", "abc")), HasSubstr("not a model"));
}

}  // namespace
}  // namespace vernier
