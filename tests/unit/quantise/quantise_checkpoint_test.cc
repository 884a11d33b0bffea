#include "audit/quantise_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "quantised_model.h"
#include "testing/gguf_writer.h"
#include "testing/safetensors_writer.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using testing::error_of;
using testing::expect_same_numbers;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::job_for;
using testing::kData;
using testing::quantise_model;
using testing::SafetensorsWriter;
using testing::TempFolder;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A llama of one layer as a GGUF file whose widths all formats divide.
class GgufSource {
 public:
  static constexpr int64_t kHidden = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 64, kFfn = 512, kVocab = 32;

  explicit GgufSource(const TempFolder& folder) {
    GgufWriter writer;
    writer.text("general.architecture", "llama").text("general.name", "tiny").u32("llama.block_count", 1);
    writer.u32("llama.context_length", 64)
        .u32("llama.embedding_length", kHidden)
        .u32("llama.feed_forward_length", kFfn);
    writer.u32("llama.attention.head_count", kHeads).u32("llama.attention.head_count_kv", kKvHeads);
    writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).f32("llama.rope.freq_base", 20000);
    writer.strings("general.tags", {"a", "", "long enough"})
        .f32s("general.numbers", {0.3f, -2})
        .u32("general.file_type", 0);
    add(writer, "token_embd", kHidden, kVocab);
    add(writer, "output", kHidden, kVocab);
    add(writer, "output_norm", kHidden, 0);
    add(writer, "blk.0.attn_norm", kHidden, 0);
    add(writer, "blk.0.ffn_norm", kHidden, 0);
    add(writer, "blk.0.attn_q", kHidden, kHeads * kHeadDim);
    add(writer, "blk.0.attn_k", kHidden, kKvHeads * kHeadDim);
    add(writer, "blk.0.attn_v", kHidden, kKvHeads * kHeadDim);
    add(writer, "blk.0.attn_output", kHeads * kHeadDim, kHidden);
    add(writer, "blk.0.ffn_gate", kHidden, kFfn);
    add(writer, "blk.0.ffn_up", kHidden, kFfn);
    add(writer, "blk.0.ffn_down", kFfn, kHidden);
    path = folder.path("source.gguf");
    writer.write(path);
  }

  std::string path;

 private:
  void add(GgufWriter& writer, const std::string& name, int64_t cols, int64_t rows) {
    std::normal_distribution<float> normal(0, 0.05f);
    std::vector<float> values(static_cast<size_t>(cols * std::max<int64_t>(rows, 1)));
    for (float& value : values) value = normal(random_);
    std::fill_n(values.begin(), 64, -0.0f);  // whole groups of nothing
    std::vector<uint64_t> extents = {static_cast<uint64_t>(cols)};
    if (rows > 0) extents.push_back(static_cast<uint64_t>(rows));
    writer.f32_tensor(name + ".weight", extents, values);
  }
  std::mt19937 random_{11};
};

class FolderFormatTest : public ::testing::TestWithParam<const char*> {};

// AUDIT-6: what is written is loaded again to the bit, and is what a load with --quantization computes with.
TEST_P(FolderFormatTest, AFolderHoldsWhatALoadWouldCompute) {
  for (const char* model : {"llama", "qwen3", "gemma3", "mixtral"}) {
    TempFolder folder;
    const QuantiseJob job = job_for(GetParam(), folder.path("out"));
    const auto summary = quantise_model(kData + model, job);
    ASSERT_TRUE(summary.ok()) << model << ": " << summary.error().to_string();
    expect_same_numbers(kData + model, job);
    EXPECT_FALSE(fs::exists(folder.path("out.partial")));
  }
}

TEST_P(FolderFormatTest, AGgufFileBecomesAFolder) {
  TempFolder folder;
  const GgufSource source(folder);
  const QuantiseJob job = job_for(GetParam(), folder.path("out"));
  const auto summary = quantise_model(source.path, job);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  expect_same_numbers(source.path, job);
}

INSTANTIATE_TEST_SUITE_P(All, FolderFormatTest,
                         ::testing::Values("fp8", "fp8_channel", "fp8_block", "mxfp8", "mxfp4", "nvfp4", "bf16", "f16"),
                         [](const auto& info) { return std::string(info.param); });

class GgufFormatTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufFormatTest, AFileHoldsWhatALoadWouldCompute) {
  TempFolder folder;
  const GgufSource source(folder);
  const QuantiseJob job = job_for(GetParam(), folder.path("out.gguf"));
  const auto summary = quantise_model(source.path, job);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  expect_same_numbers(source.path, job);
  const auto opened = Checkpoint::open(job.out);
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE((*opened)->warnings().empty());
}

INSTANTIATE_TEST_SUITE_P(All, GgufFormatTest,
                         ::testing::Values("q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "q3_k",
                                           "q2_k", "mxfp4", "nvfp4", "bf16", "f16"),
                         [](const auto& info) { return std::string(info.param); });

// Embeddings, norms, routers and the head stay; each is listed for readers that take every linear layer.
TEST(QuantiseCheckpointTest, WhatStaysIsListed) {
  TempFolder folder;
  const auto summary = quantise_model(kData + "mixtral", job_for("mxfp4", folder.path("out")));
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  for (const QuantisedMatrix& matrix : summary->matrices) {
    EXPECT_THAT(matrix.name, Not(AnyOf(HasSubstr("embed_tokens"), HasSubstr("lm_head"), ::testing::EndsWith(".gate"))));
  }
  const std::string config = text_of(folder.path("out/config.json"));
  EXPECT_THAT(config, AllOf(HasSubstr("mxfp4-pack-quantized"), HasSubstr("\"lm_head\""),
                            HasSubstr("model.layers.0.block_sparse_moe.gate")));
}

TEST(QuantiseCheckpointTest, TheHeadAndKeptModulesAreTheUsersChoice) {
  TempFolder folder;
  QuantiseJob job = job_for("fp8_channel", folder.path("out"));
  job.request.head = true;
  job.request.keep = {"model.layers.0*"};
  const auto summary = quantise_model(kData + "llama", job);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  std::vector<std::string> names;
  for (const QuantisedMatrix& matrix : summary->matrices) names.push_back(matrix.name);
  EXPECT_THAT(names, Contains("lm_head"));
  EXPECT_THAT(names, Not(Contains(HasSubstr("layers.0."))));
  expect_same_numbers(kData + "llama", job);
  job.request.keep = {"model.layers.77"};
  job.out = folder.path("other");
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job)), HasSubstr("no module is called so"));
}

// AUDIT-10
TEST(QuantiseCheckpointTest, OneNvfp4WeightHasOneGlobalScale) {
  TempFolder folder;
  ASSERT_TRUE(quantise_model(kData + "llama", job_for("nvfp4", folder.path("out"))).ok());
  auto opened = Checkpoint::open(folder.path("out")).value();
  auto scale = [&](const char* module) {
    const StoredTensor* tensor = opened->find(std::string("model.layers.1.") + module + ".weight_global_scale");
    float value = 0;
    std::memcpy(&value, tensor->bytes.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(scale("self_attn.q_proj"), scale("self_attn.v_proj"));
  EXPECT_EQ(scale("mlp.gate_proj"), scale("mlp.up_proj"));
  EXPECT_NE(scale("mlp.gate_proj"), scale("self_attn.q_proj"));
}

// AUDIT-9: a matrix below the bound leaves nothing behind, and is named with its worst block.
TEST(QuantiseCheckpointTest, ABoundOnTheLossIsKept) {
  TempFolder folder;
  QuantiseJob job = job_for("mxfp4", folder.path("out"));
  job.min_snr_db = 40;
  const auto refused = quantise_model(kData + "llama", job);
  EXPECT_THAT(error_of(refused), AllOf(HasSubstr("--min-snr 40"), HasSubstr("q_proj"), HasSubstr("worst block")));
  EXPECT_FALSE(fs::exists(folder.path("out")));
  EXPECT_FALSE(fs::exists(folder.path("out.partial")));
  job.min_snr_db = 10;
  EXPECT_EQ(error_of(quantise_model(kData + "llama", job)), "no error");
}

// AUDIT-8: while it is written nothing there can be taken for a model, and what was there before stays until the end.
TEST(QuantiseCheckpointTest, AnInterruptedFolderIsNoModel) {
  TempFolder folder;
  QuantiseJob job = job_for("mxfp8", folder.path("out"));
  std::string seen = "never asked";
  job.on_progress = [&](const BindProgress& state) {
    if (state.done_bytes * 2 < state.total_bytes) return;
    const auto half = Checkpoint::open(folder.path("out.partial"));
    seen = half.ok() ? "a model" : "no model";
    EXPECT_FALSE(fs::exists(folder.path("out")));
  };
  ASSERT_TRUE(quantise_model(kData + "llama", job).ok());
  EXPECT_EQ(seen, "no model");
  EXPECT_TRUE(Checkpoint::open(folder.path("out")).ok());
}

TEST(QuantiseCheckpointTest, NothingButACheckpointIsReplaced) {
  TempFolder folder;
  folder.write("out/precious.txt", "kept");
  QuantiseJob job = job_for("mxfp8", folder.path("out"));
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job)), HasSubstr("--overwrite"));
  job.overwrite = true;
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job)), HasSubstr("no checkpoint"));
  EXPECT_EQ(text_of(folder.path("out/precious.txt")), "kept");
  folder.write("out/config.json", "{}");
  folder.write("out/model-00001-of-00002.safetensors", "old");
  EXPECT_EQ(error_of(quantise_model(kData + "llama", job)), "no error");
  EXPECT_EQ(text_of(folder.path("out/precious.txt")), "kept");
  EXPECT_FALSE(fs::exists(folder.path("out/model-00001-of-00002.safetensors")));
  EXPECT_FALSE(fs::exists(folder.path("out.replaced")));
  EXPECT_TRUE(Checkpoint::open(folder.path("out")).ok());
  folder.write("plain", "kept");
  job.out = folder.path("plain");
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job)), HasSubstr("is a file"));
  EXPECT_EQ(text_of(folder.path("plain")), "kept");
}

// Whatever is asked for, the source is there afterwards.
TEST(QuantiseCheckpointTest, TheSourceIsNeverReplaced) {
  TempFolder folder;
  fs::create_directories(folder.path("all/models"));
  fs::copy(kData + "llama", folder.path("all/models/llama"), fs::copy_options::recursive);
  const std::string source = folder.path("all/models/llama");
  fs::create_directory_symlink(source, folder.path("link"));
  folder.write("all/models/config.json", "{}");
  folder.write("all/models/x.safetensors", "");
  for (const char* out : {"all/models/llama", "all/models/llama/", "link", "all/models", "all",
                          "all/models/llama/model.safetensors", "all/models/llama/new"}) {
    QuantiseJob job = job_for("mxfp8", folder.path(out));
    job.overwrite = true;
    EXPECT_THAT(error_of(quantise_model(source, job)), HasSubstr("source")) << out;
    EXPECT_TRUE(Checkpoint::open(source).ok()) << out;
  }
  for (const char* out : {".", "..", "", "/"}) {
    EXPECT_THAT(error_of(quantise_model(source, job_for("mxfp8", out))), HasSubstr("name")) << out;
  }
}

TEST(QuantiseCheckpointTest, ManyFilesHaveAnIndex) {
  TempFolder folder;
  QuantiseJob job = job_for("fp8_block", folder.path("out"));
  job.shard_bytes = 20000;
  ASSERT_TRUE(quantise_model(kData + "llama", job).ok());
  EXPECT_TRUE(fs::exists(folder.path("out/model.safetensors.index.json")));
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path("out"))) {
    files += entry.path().extension() == ".safetensors" ? 1 : 0;
  }
  EXPECT_GT(files, 3);
  EXPECT_TRUE(fs::exists(folder.path(fmt::format("out/model-00001-of-{:05}.safetensors", files))));
  expect_same_numbers(kData + "llama", job);
}

// Every tensor begins at a multiple of its element: libraries that map files refuse others.
TEST(QuantiseCheckpointTest, TensorsAreAligned) {
  TempFolder folder;
  ASSERT_TRUE(quantise_model(kData + "llama", job_for("fp8", folder.path("out"))).ok());
  auto opened = Checkpoint::open(folder.path("out")).value();
  const std::byte* begin = opened->tensors().front().file->bytes().data();
  for (const StoredTensor& tensor : opened->tensors()) {
    const int64_t element = tensor.type == "F32" ? 4 : tensor.type == "BF16" ? 2 : 1;
    EXPECT_EQ((tensor.bytes.data() - begin) % element, 0) << tensor.name;
  }
}

TEST(QuantiseCheckpointTest, WhatCannotBeWrittenIsRefusedByName) {
  TempFolder folder;
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job_for("q4_k", folder.path("out")))), HasSubstr(".gguf"));
  EXPECT_THAT(error_of(quantise_model(kData + "llama", job_for("mxfp8", folder.path("out.gguf")))),
              HasSubstr("GGUF files hold no such format"));
  // Codes of a checkpoint that its configuration calls quantised would be rounded a second time without a word.
  QuantiseJob job = job_for("mxfp4", folder.path("out"));
  EXPECT_THAT(error_of(quantise_model(kData + "llama-fp8-block", job)),
              AllOf(HasSubstr("quantised already"), HasSubstr("--allow-requantize")));
  job.request.requantise = true;
  const auto again = quantise_model(kData + "llama-fp8-block", job);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_THAT(again->notes, Contains(HasSubstr("their codes were decoded first")));
  expect_same_numbers(kData + "llama-fp8-block", job);
}

// What is of the format already stays as it is, to the bit, and is no second rounding; nor are dense weights whose
// cache has scales.
TEST(QuantiseCheckpointTest, CodesOfTheFormatItselfStay) {
  TempFolder folder;
  for (const char* out : {"out", "out.gguf"}) {
    const QuantiseJob job = job_for("mxfp4", folder.path(out));
    const auto summary = quantise_model(kData + "gpt-oss-mxfp4", job);
    ASSERT_TRUE(summary.ok()) << summary.error().to_string();
    for (const QuantisedMatrix& matrix : summary->matrices) EXPECT_EQ(matrix.from, "bf16") << matrix.name;
    const auto before = testing::with_halves_joined(testing::numbers_of(kData + "gpt-oss-mxfp4", nullptr));
    const auto after = testing::with_halves_joined(testing::numbers_of(job.out, nullptr));
    for (const auto& [name, values] : before) {
      if (name.find("experts") == std::string::npos) continue;
      EXPECT_TRUE(testing::same_bits(values, after.at(name))) << name;
    }
  }
  EXPECT_THAT(error_of(quantise_model(kData + "gpt-oss-mxfp4", job_for("q8_0", folder.path("other.gguf")))),
              AllOf(HasSubstr("quantised already"), HasSubstr("experts.0.gate_up_proj")));
}

// Scales of the cache are written as they are, and so is what they were made for: without it they would act on nothing.
TEST(QuantiseCheckpointTest, ACacheThatHasScalesKeepsItsType) {
  for (const char* format : {"mxfp8", "fp8_block", "bf16"}) {
    TempFolder folder;
    const QuantiseJob job = job_for(format, folder.path("out"));
    ASSERT_EQ(error_of(quantise_model(kData + "kv-llama", job)), "no error");
    expect_same_numbers(kData + "kv-llama", job);
    const auto written = Checkpoint::open(job.out).value();
    EXPECT_EQ(written->plan().cache, "fp8") << format;
    const auto scales = [](const Checkpoint& of) {
      return stream_weights(
                 of, [](auto, PackUse, auto&) { return Status(); }, nullptr)
          .value()
          .cache_scales;
    };
    const auto before = scales(*Checkpoint::open(kData + "kv-llama").value()), after = scales(*written);
    ASSERT_EQ(before.size(), 6U);
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].values, before[i].values);
  }
}

/// A llama whose numbers a test chooses.
void write_llama(const TempFolder& folder, int64_t ffn, const std::string& changed, float number) {
  SafetensorsWriter writer;
  auto add = [&](const std::string& name, std::vector<int64_t> extents) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    std::vector<float> values(static_cast<size_t>(count), 0.5f);
    if (name == changed) values.back() = number;
    writer.f32(name + ".weight", extents, values);
  };
  add("model.embed_tokens", {8, 32});
  add("model.norm", {32});
  add("lm_head", {8, 32});
  add("model.layers.0.input_layernorm", {32});
  add("model.layers.0.post_attention_layernorm", {32});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    add(std::string("model.layers.0.self_attn.") + name, {32, 32});
  }
  add("model.layers.0.mlp.gate_proj", {ffn, 32});
  add("model.layers.0.mlp.up_proj", {ffn, 32});
  add("model.layers.0.mlp.down_proj", {32, ffn});
  folder.write("in/model.safetensors", writer.bytes());
  folder.write(
      "in/config.json",
      R"({"model_type":"llama","hidden_size":32,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":16,)"
      R"("vocab_size":8,"num_hidden_layers":1,"max_position_embeddings":64,"rms_norm_eps":1e-5,)"
      R"("intermediate_size":)" +
          std::to_string(ffn) + "}");
}

TEST(QuantiseCheckpointTest, NanAndRaggedWidthsAreRefusedWithTheTensor) {
  TempFolder folder;
  write_llama(folder, 48, "", 0);
  QuantiseJob job = job_for("mxfp4", folder.path("out"));
  EXPECT_THAT(error_of(quantise_model(folder.path("in"), job)),
              AllOf(HasSubstr("down_proj"), HasSubstr("48"), HasSubstr("--keep")));
  job.request.keep = {"down_proj"};
  EXPECT_EQ(error_of(quantise_model(folder.path("in"), job)), "no error");
  expect_same_numbers(folder.path("in"), job);
  write_llama(folder, 64, "model.layers.0.mlp.up_proj", std::nanf(""));
  EXPECT_THAT(error_of(quantise_model(folder.path("in"), job_for("fp8_block", folder.path("other")))),
              AllOf(HasSubstr("mlp.up_proj"), HasSubstr("[63, 31] is NaN")));
}

/// The most memory that this process has held, in bytes.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// AUDIT-7: 200 MB of weights pass through a few MB: one matrix at a time, and of that a slab of numbers.
TEST(QuantiseCheckpointTest, MemoryIsBounded) {
  TempFolder folder;
  constexpr int64_t kHidden = 1024, kFfn = 4096;
  constexpr int kLayers = 4;
  {
    std::mt19937 random(3);
    std::vector<uint16_t> numbers(static_cast<size_t>(kFfn * kHidden));
    for (uint16_t& number : numbers) number = static_cast<uint16_t>(0x3D00 + random() % 256);
    std::ofstream out(folder.path("model"), std::ios::binary);
    SafetensorsWriter writer;
    auto add = [&](const std::string& name, std::vector<int64_t> extents) {
      int64_t count = 1;
      for (int64_t extent : extents) count *= extent;
      writer.tensor(name + ".weight", extents, "BF16",
                    {reinterpret_cast<const char*>(numbers.data()), static_cast<size_t>(count) * 2});
    };
    add("model.embed_tokens", {16, kHidden});
    add("model.norm", {kHidden});
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(prefix + "input_layernorm", {kHidden});
      add(prefix + "post_attention_layernorm", {kHidden});
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        add(prefix + "self_attn." + name, {kHidden, kHidden});
      }
      add(prefix + "mlp.gate_proj", {kFfn, kHidden});
      add(prefix + "mlp.up_proj", {kFfn, kHidden});
      add(prefix + "mlp.down_proj", {kHidden, kFfn});
    }
    folder.write("in/model.safetensors", writer.bytes());
    folder.write("in/config.json",
                 R"({"model_type":"llama","hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":16,)"
                 R"("head_dim":64,"vocab_size":16,"max_position_embeddings":64,"rms_norm_eps":1e-5,)"
                 R"("tie_word_embeddings":true,"intermediate_size":4096,"num_hidden_layers":)" +
                     std::to_string(kLayers) + "}");
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const int64_t before = peak_bytes();
  const auto summary = quantise_model(folder.path("in"), job_for("fp8", folder.path("out")));
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_GT(summary->source_bytes, 130'000'000);
  if (testing::kSanitized) GTEST_SKIP() << "a sanitised build keeps what is freed for a while";
  EXPECT_LT(peak_bytes() - before, 60'000'000);
}

}  // namespace
}  // namespace vernier
