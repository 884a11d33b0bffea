#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "audit/quantise_checkpoint.h"
#include "checkpoint/checkpoint.h"
#include "golden_error.h"
#include "ops/ref_backend.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::Golden;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempFolder;

const std::string kFolder = VERNIER_TEST_DATA "/models/gpt-oss-mxfp4";

constexpr std::array<std::pair<const char*, const char*>, 13> kNames = {{
    {"attn.norm.scale", "input_layernorm.weight"},
    {"attn.out.weight", "self_attn.o_proj.weight"},
    {"attn.out.bias", "self_attn.o_proj.bias"},
    {"attn.sinks", "self_attn.sinks"},
    {"mlp.norm.scale", "post_attention_layernorm.weight"},
    {"mlp.gate.weight", "mlp.router.weight"},
    {"mlp.gate.bias", "mlp.router.bias"},
    {"mlp.mlp1_weight.blocks", "mlp.experts.gate_up_proj_blocks"},
    {"mlp.mlp1_weight.scales", "mlp.experts.gate_up_proj_scales"},
    {"mlp.mlp1_bias", "mlp.experts.gate_up_proj_bias"},
    {"mlp.mlp2_weight.blocks", "mlp.experts.down_proj_blocks"},
    {"mlp.mlp2_weight.scales", "mlp.experts.down_proj_scales"},
    {"mlp.mlp2_bias", "mlp.experts.down_proj_bias"},
}};

/// The tiny model as OpenAI's first files name and join its tensors.
class OriginalGptOss : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = Safetensors::open(kFolder + "/model.safetensors").value();
    for (const SafetensorsTensor& tensor : file->tensors()) {
      Part& part = parts_[tensor.name];
      const std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      part = {std::vector<int64_t>(tensor.extents.begin(), tensor.extents.end()), std::string(tensor.type->name),
              bytes};
    }
    copy("embedding.weight", "model.embed_tokens.weight");
    copy("norm.scale", "model.norm.weight");
    copy("unembedding.weight", "lm_head.weight");
    for (int layer = 0; layer < 4; ++layer) {
      const std::string theirs = fmt::format("block.{}.", layer), ours = fmt::format("model.layers.{}.", layer);
      for (const auto& [name, hf] : kNames) copy(theirs + name, ours + hf);
      for (const char* kind : {"weight", "bias"}) {
        Part whole = parts_.at(ours + "self_attn.q_proj." + kind);
        for (const char* other : {"k_proj.", "v_proj."}) {
          const Part& part = parts_.at(ours + "self_attn." + other + kind);
          whole.extents[0] += part.extents[0];
          whole.bytes += part.bytes;
        }
        writer_.tensor(theirs + "attn.qkv." + kind, whole.extents, whole.dtype, whole.bytes);
      }
    }
    config_ = nlohmann::json::parse(R"({"num_hidden_layers": 4, "num_experts": 4, "experts_per_token": 2,
      "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "swiglu_limit": 7.0, "head_dim": 32,
      "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8, "initial_context_length": 16,
      "rope_theta": 150000, "rope_scaling_factor": 32.0, "rope_ntk_alpha": 1, "rope_ntk_beta": 32})");
  }

  Result<Decoder> load(Backend& backend) {
    folder_.write("config.json", config_.dump());
    folder_.write("model.safetensors", writer_.bytes());
    return testing::load_decoder(folder_.path(), backend);
  }

  struct Part {
    std::vector<int64_t> extents;
    std::string dtype;
    std::string bytes;
  };
  void copy(const std::string& theirs, const std::string& ours) {
    const Part& part = parts_.at(ours);
    writer_.tensor(theirs, part.extents, part.dtype, part.bytes);
  }

  std::map<std::string, Part> parts_;
  SafetensorsWriter writer_;
  nlohmann::json config_;
  TempFolder folder_;
};

// CKPT-9: a format's names are no part of what a model computes.
TEST_F(OriginalGptOss, EqualsTheReferenceImplementation) {
  RefBackend backend;
  auto decoder = load(backend);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  const Golden golden = Golden::read(kFolder + "/golden.safetensors");
  EXPECT_LE(testing::golden_error(backend, *decoder, golden), 1e-4);
}

// No tensor is lost where names of the source are not those that are written.
TEST_F(OriginalGptOss, IsWrittenAsHuggingFaceLaysItOut) {
  RefBackend backend;
  ASSERT_TRUE(load(backend).ok());
  QuantiseJob job;
  job.request.target = find_quant_target("--to", "mxfp4").value();
  job.request.keep = {"*.self_attn.*"};
  job.request.requantise = true;
  TempFolder written_folder;
  job.out = written_folder.path("out");
  const auto summary = quantise_checkpoint(*Checkpoint::open(folder_.path()).value(), job);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  const auto written = Checkpoint::open(job.out).value(), reference = Checkpoint::open(kFolder).value();
  for (const StoredTensor& tensor : reference->tensors()) {
    if (tensor.name.find(".experts.") != std::string::npos) continue;
    const StoredTensor* found = written->find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.name;
  }
  auto decoder = testing::load_decoder(job.out, backend);
  EXPECT_TRUE(decoder.ok()) << decoder.error().to_string();
}

TEST_F(OriginalGptOss, WhatItsConfigurationDoesNotKnowIsRefused) {
  RefBackend backend;
  config_["rope_flavour"] = "new";
  EXPECT_THAT(load(backend).error().to_string(), HasSubstr("rope_flavour"));
  config_.erase("rope_flavour");
  config_["num_key_value_heads"] = 1;
  EXPECT_THAT(load(backend).error().to_string(), HasSubstr("block.0.attn.qkv"));
  config_["num_key_value_heads"] = "two";
  EXPECT_THAT(load(backend).error().to_string(), HasSubstr("num_key_value_heads"));
}

}  // namespace
}  // namespace vernier
