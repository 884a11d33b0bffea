#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "checkpoint/gguf.h"
#include "checkpoint/scale_tensor.h"
#include "quantised_model.h"
#include "testing/gguf_writer.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::error_of;
using testing::expect_same_numbers;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::job_for;
using testing::kData;
using testing::quantise_model;
using testing::TempFolder;

/// A Mixtral of one layer as a GGUF file: three experts in one tensor each.
std::string gguf_with_experts(const TempFolder& folder, const std::string& further = "") {
  constexpr uint64_t kHidden = 64, kFfn = 128, kExperts = 3, kVocab = 16;
  GgufWriter writer;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.05f);
  auto add = [&](const std::string& name, std::vector<uint64_t> extents) {
    uint64_t count = 1;
    for (uint64_t extent : extents) count *= extent;
    std::vector<float> values(count);
    // Each expert has a size of its own, so that none may stand for another.
    for (size_t i = 0; i < count; ++i) values[i] = normal(random) * static_cast<float>(1 + 3 * i / count);
    writer.f32_tensor(name + ".weight", extents, values);
  };
  writer.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 64);
  writer.u32("llama.embedding_length", kHidden).u32("llama.feed_forward_length", kFfn);
  writer.u32("llama.attention.head_count", 2).u32("llama.attention.head_count_kv", 1);
  writer.u32("llama.expert_count", kExperts).u32("llama.expert_used_count", 2);
  writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).f32("llama.rope.freq_base", 20000);
  for (const char* table : {"token_embd", "output"}) add(table, {kHidden, kVocab});
  for (const char* norm : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) add(norm, {kHidden});
  add("blk.0.attn_q", {kHidden, kHidden});
  add("blk.0.attn_k", {kHidden, kHidden / 2});
  add("blk.0.attn_v", {kHidden, kHidden / 2});
  add("blk.0.attn_output", {kHidden, kHidden});
  add("blk.0.ffn_gate_inp", {kHidden, kExperts});
  add("blk.0.ffn_gate_exps", {kHidden, kFfn, kExperts});
  add("blk.0.ffn_up_exps", {kHidden, kFfn, kExperts});
  add("blk.0.ffn_down_exps", {kFfn, kHidden, kExperts});
  if (!further.empty()) writer.f32_tensor(further, {4}, {1, 2, 3, 4});
  writer.write(folder.path("experts.gguf"));
  return folder.path("experts.gguf");
}

TEST(StackedExperts, OfAGgufFileStayStacks) {
  for (const char* format : {"q8_0", "q6_k", "q4_k", "q4_1", "mxfp4", "nvfp4", "f16"}) {
    TempFolder folder;
    const std::string source = gguf_with_experts(folder);
    const QuantiseJob job = job_for(format, folder.path("out.gguf"));
    const auto summary = quantise_model(source, job);
    ASSERT_TRUE(summary.ok()) << summary.error().to_string();
    expect_same_numbers(source, job);
    const auto opened = Checkpoint::open(job.out).value();
    EXPECT_EQ(opened->find("model.layers.0.mlp.experts.2.up_proj.weight")->file_name, "blk.0.ffn_up_exps.weight[2]");
  }
}

std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  const auto file = Gguf::open(path).value();
  for (const GgufTensor& tensor : file->tensors()) names.insert(std::string(tensor.name));
  return names;
}

// AUDIT-6: a file that is written loads, so scales go with the codes that they belonged to; of what stays, they stay.
TEST(StackedExperts, ScalesOfAGgufFileGoWithTheirCodes) {
  TempFolder folder;
  ASSERT_EQ(error_of(quantise_model(gguf_with_experts(folder), job_for("nvfp4", folder.path("a.gguf")))), "no error");
  ASSERT_TRUE(names_in(folder.path("a.gguf")).contains("blk.0.ffn_up_exps.scale"));
  for (const char* format : {"q8_0", "f32", "nvfp4"}) {
    QuantiseJob job = job_for(format, folder.path(std::string(format) + ".gguf"));
    job.request.requantise = true;
    job.request.keep = {"*.q_proj"};
    ASSERT_EQ(error_of(quantise_model(folder.path("a.gguf"), job)), "no error") << format;
    const auto names = names_in(job.out);
    EXPECT_TRUE(names.contains("blk.0.attn_q.scale")) << format;
    for (const char* changed : {"blk.0.attn_k.scale", "blk.0.ffn_up_exps.scale"}) {
      EXPECT_EQ(names.contains(changed), std::string(format) == "nvfp4") << format << " " << changed;
    }
    expect_same_numbers(folder.path("a.gguf"), job);
  }
}

// No tensor is dropped without a word.
TEST(StackedExperts, ATensorThatIsNamedLikeAnExpertStays) {
  TempFolder folder;
  const QuantiseJob job = job_for("q8_0", folder.path("out.gguf"));
  const std::string source = gguf_with_experts(folder, "further[3]");
  ASSERT_EQ(error_of(quantise_model(source, job)), "no error");
  EXPECT_EQ(names_in(job.out), names_in(source));
}

/// Every number of a model's biases and norms by name, experts' halves apart.
std::map<std::string, std::vector<float>> vectors_of(const std::string& path) {
  std::map<std::string, std::vector<float>> all;
  const auto checkpoint = Checkpoint::open(path).value();
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    if (tensor.name.ends_with(".bias")) all[tensor.name] = read_floats(tensor).value();
  }
  return all;
}

// AUDIT-6: experts in one tensor of three dimensions, with rows of gate and up that take turns, transposed, or as
// blocks.
TEST(StackedExperts, OfAFolderAreWrittenOneByOne) {
  for (const char* model : {"gpt-oss", "gpt-oss-mxfp4"}) {
    for (const char* format : {"mxfp4", "nvfp4", "mxfp8", "fp8", "fp8_channel", "f16"}) {
      TempFolder folder;
      QuantiseJob job = job_for(format, folder.path("out"));
      job.request.requantise = true;
      const auto summary = quantise_model(kData + model, job);
      ASSERT_TRUE(summary.ok()) << model << " " << format << ": " << summary.error().to_string();
      expect_same_numbers(kData + model, job);
      const auto before = vectors_of(kData + model), after = vectors_of(job.out);
      const std::string expert = "model.layers.1.mlp.experts.2.";
      const std::vector<float>& both = before.at(expert + "gate_up_proj.bias");
      const std::vector<float>&gate = after.at(expert + "gate_proj.bias"), &up = after.at(expert + "up_proj.bias");
      ASSERT_EQ(gate.size() * 2, both.size());
      for (size_t i = 0; i < gate.size(); ++i) {
        EXPECT_EQ(gate[i], both[2 * i]) << i;
        EXPECT_EQ(up[i], both[2 * i + 1]) << i;
      }
      EXPECT_EQ(after.at(expert + "down_proj.bias"), before.at(expert + "down_proj.bias"));
    }
  }
}

/// A copy of a Qwen3-MoE with the experts of a layer in two tensors, as newer libraries save them.
std::string with_stacks(const std::string& model, const TempFolder& folder) {
  struct Stack {
    std::vector<int64_t> extents;
    std::vector<float> values;
  };
  std::map<std::string, Stack> tensors;
  const auto checkpoint = Checkpoint::open(model).value();
  auto values = [&](const std::string& name) { return read_floats(*checkpoint->find(name)).value(); };
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    const size_t at = tensor.name.find(".experts.");
    if (at == std::string::npos) {
      tensors[tensor.name] = {tensor.extents, values(tensor.name)};
    } else if (tensor.name.ends_with(".0.gate_proj.weight")) {
      const std::string layer = tensor.name.substr(0, at + 9);
      const int64_t width = tensor.extents[0], hidden = tensor.extents[1];
      Stack both{{0, 2 * width, hidden}, {}}, down{{0, hidden, width}, {}};
      for (; checkpoint->find(fmt::format("{}{}.up_proj.weight", layer, both.extents[0])) != nullptr;
           ++both.extents[0], ++down.extents[0]) {
        for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
          const auto own = values(fmt::format("{}{}.{}.weight", layer, both.extents[0], name));
          std::vector<float>& to = std::string(name) == "down_proj" ? down.values : both.values;
          to.insert(to.end(), own.begin(), own.end());
        }
      }
      tensors[layer + "gate_up_proj"] = std::move(both);
      tensors[layer + "down_proj"] = std::move(down);
    }
  }
  testing::SafetensorsWriter writer;
  for (const auto& [name, tensor] : tensors) writer.f32(name, tensor.extents, tensor.values);
  folder.write("stacked/model.safetensors", writer.bytes());
  std::filesystem::copy_file(model + "/config.json", folder.path("stacked/config.json"));
  return folder.path("stacked");
}

TEST(StackedExperts, AreTheSameWrittenFromEitherForm) {
  for (const char* format : {"nvfp4", "fp8_channel"}) {
    TempFolder folder;
    const std::string stacked = with_stacks(kData + "qwen3-moe", folder);
    const QuantiseJob job = job_for(format, folder.path("out"));
    ASSERT_EQ(error_of(quantise_model(stacked, job)), "no error") << format;
    expect_same_numbers(stacked, job);
    QuantiseJob apart = job_for(format, folder.path("apart"));
    ASSERT_EQ(error_of(quantise_model(kData + "qwen3-moe", apart)), "no error") << format;
    const auto a = testing::numbers_of(job.out, nullptr), b = testing::numbers_of(apart.out, nullptr);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, values] : a) EXPECT_TRUE(testing::same_bits(values, b.at(name))) << format << " " << name;
  }
}

// A folder's experts become a GGUF file's stacks, from either form.
TEST(StackedExperts, OfAFolderAreStackedInAGgufFile) {
  for (const std::string& name : {std::string("mixtral"), std::string("qwen3-moe")}) {
    TempFolder folder;
    QuantiseJob job = job_for("nvfp4", folder.path("out.gguf"));
    job.request.keep = {name == "mixtral" ? "*.w2" : "*.down_proj"};  // widths that no block divides
    ASSERT_EQ(error_of(quantise_model(kData + name, job)), "no error");
    expect_same_numbers(kData + name, job);
    const auto opened = Checkpoint::open(job.out).value();
    EXPECT_EQ(opened->find("model.layers.0.mlp.experts.2.up_proj.weight")->file_name, "blk.0.ffn_up_exps.weight[2]");
    EXPECT_EQ(opened->find("model.layers.0.mlp.experts.2.up_proj.scale")->file_name, "blk.0.ffn_up_exps.scale[2]");
    job.request.keep.push_back("*.experts.1.*");
    job.out = folder.path("other.gguf");
    EXPECT_THAT(error_of(quantise_model(kData + name, job)), HasSubstr("all or none"));
    if (name == "mixtral") continue;
    QuantiseJob of_stacks = job_for("f16", folder.path("stacks.gguf"));
    const std::string stacked = with_stacks(kData + name, folder);
    ASSERT_EQ(error_of(quantise_model(stacked, of_stacks)), "no error");
    expect_same_numbers(stacked, of_stacks);
  }
}

TEST(StackedExperts, StayTogetherOrNot) {
  TempFolder folder;
  QuantiseJob job = job_for("mxfp4", folder.path("out"));
  job.request.keep = {"*experts*"};
  ASSERT_EQ(error_of(quantise_model(kData + "gpt-oss", job)), "no error");
  expect_same_numbers(kData + "gpt-oss", job);
  const auto kept = Checkpoint::open(job.out).value();
  EXPECT_EQ(kept->find("model.layers.0.mlp.experts.1.down_proj.weight")->file_name,
            "model.layers.0.mlp.experts.down_proj[1]");
  job.request.keep = {"*experts.1.*"};
  job.out = folder.path("other");
  EXPECT_THAT(error_of(quantise_model(kData + "gpt-oss", job)), HasSubstr("all or none"));
}

}  // namespace
}  // namespace vernier
