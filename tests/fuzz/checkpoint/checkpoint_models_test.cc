#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "checkpoint/checkpoint_binder.h"
#include "models/decoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"
#include "unit/checkpoint/tiny_model.h"

namespace vernier {
namespace {

using testing::GgufWriter;
using testing::TempFolder;
using testing::TinyModel;

/// Mutations for each kind of file; VERNIER_FUZZ_RUNS asks for more.
int runs() {
  const char* asked = std::getenv("VERNIER_FUZZ_RUNS");
  return asked != nullptr ? std::max(1, std::atoi(asked)) : 600;
}

/// Changes a few bytes in ways that reach lengths, counts and offsets, or cuts, repeats or inserts a stretch.
std::string mutate(std::string bytes, std::mt19937& random) {
  auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound == 0 ? 0 : bound - 1)(random);
  };
  constexpr unsigned char kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x09, 0x08, '"', '{', '[', ',', '-', '9', '.'};
  size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(kTelling[below(std::size(kTelling))]);
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        for (size_t k = at; k < std::min(at + 8, bytes.size()); ++k) {
          bytes[k] = static_cast<char>(kTelling[below(5)]);
        }
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.erase(at, 1 + below(16));
        break;
      default:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(24)));
    }
  }
  return bytes;
}

/// Everything that a program does with a model before it computes. Returns whether all of it worked.
bool use(const std::string& path) {
  auto checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok()) return false;
  LoadReport described = describe(**checkpoint);
  EXPECT_EQ(described.tensors.size(), (*checkpoint)->tensors().size());
  for (const StoredTensor& tensor : (*checkpoint)->tensors()) {
    for (std::byte byte : tensor.bytes.subspan(0, std::min<size_t>(tensor.bytes.size(), 1))) (void)byte;
  }
  auto config = (*checkpoint)->config();
  if (!config.ok()) return false;
  auto spec = read_decoder(*config);
  if (!spec.ok()) return false;
  NullBackend backend;
  CheckpointBinder binder(**checkpoint, backend);
  auto decoder = Decoder::bind(*spec, binder);
  bool finished = decoder.ok() && binder.finish(spec->unneeded).ok();
  EXPECT_FALSE(binder.report().to_string().empty());
  (void)binder.report().to_json().dump();
  return finished;
}

std::string full_gguf() {
  GgufWriter writer;
  TinyModel model;
  TinyModel::add_metadata(writer);
  writer.text("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f"});
  writer.f32s("tokenizer.ggml.scores", {1, 2, 3}).u32("tokenizer.ggml.eos_token_id", 2);
  writer.text("tokenizer.chat_template", "{{ x }}").u32("general.alignment", 32);
  model.add_tensors(writer);
  writer.f32_tensor("rope_freqs.weight", {2}, {2, 3});
  return writer.bytes();
}

TEST(CheckpointFuzz, SeedsAreWholeModels) {
  TempFolder folder;
  EXPECT_TRUE(use(folder.write("m.gguf", full_gguf())));
  TempFolder other;
  TinyModel().write_folder(other);
  EXPECT_TRUE(use(other.path()));
}

TEST(CheckpointFuzz, AnyGgufGetsAValueOrAMessage) {
  TempFolder folder;
  std::mt19937 random(20260101);
  std::string seed = full_gguf();
  int refused = 0;
  for (int run = 0; run < runs(); ++run) refused += use(folder.write("m.gguf", mutate(seed, random))) ? 0 : 1;
  EXPECT_GT(refused, runs() / 4);
}

TEST(CheckpointFuzz, AnySafetensorsFileGetsAValueOrAMessage) {
  TempFolder folder;
  TinyModel model;
  model.write_folder(folder);
  std::mt19937 random(20260102);
  std::string seed = model.safetensors();
  int refused = 0;
  for (int run = 0; run < runs(); ++run) {
    folder.write("model.safetensors", mutate(seed, random));
    refused += use(folder.path()) ? 0 : 1;
  }
  EXPECT_GT(refused, runs() / 4);
}

TEST(CheckpointFuzz, AnyJsonBesideTheWeightsGetsAValueOrAMessage) {
  TempFolder folder;
  TinyModel model;
  std::mt19937 random(20260103);
  const std::pair<const char*, std::string> files[] = {
      {"config.json", TinyModel::config(R"(,"eos_token_id":[1,2],"rope_scaling":{"rope_type":"linear","factor":2.0},)"
                                        R"("quantization_config":null,"text_config":null)")},
      {"generation_config.json", R"({"eos_token_id":[1,2],"temperature":0.5,"top_k":3,"bos_token_id":0})"},
      {"tokenizer_config.json", R"({"eos_token":{"content":"x"},"chat_template":[{"name":"a","template":"b"}]})"},
      {"hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})"},
      {"model.safetensors.index.json", R"({"weight_map":{"model.norm.weight":"model.safetensors"}})"},
      {"chat_template.json", R"({"chat_template":"{{ x }}"})"}};
  for (const auto& [name, seed] : files) {
    model.write_folder(folder);
    for (int run = 0; run < runs() / 6; ++run) {
      folder.write(name, mutate(seed, random));
      (void)use(folder.path());
    }
    std::filesystem::remove(folder.path(name));
  }
}

}  // namespace
}  // namespace vernier
