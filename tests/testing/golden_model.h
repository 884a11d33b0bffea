#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_binder.h"
#include "checkpoint/safetensors.h"
#include "models/decoder.h"
#include "models/registry.h"

namespace vernier::testing {

/// The tiny checkpoints of tests/data/models.
inline constexpr const char* kGoldenModels[] = {"llama",       "llama-tied",  "mistral",      "qwen2",   "qwen3",
                                                "gemma2",      "gemma3",      "gpt-oss",      "mixtral", "qwen3-moe",
                                                "deepseek-v2", "deepseek-v3", "longcat-flash"};
/// Those whose matrices are codes with scales, one for each dialect and granularity.
inline constexpr const char* kQuantisedModels[] = {
    "llama-fp8-tensor", "llama-fp8-block",      "qwen3-fp8-block-64x32", "llama-ct-fp8-channel", "llama-modelopt-nvfp4",
    "qwen2-ct-nvfp4",   "qwen3-modelopt-mxfp8", "gpt-oss-mxfp4",         "deepseek-v3-fp8-block"};

/// A model's name as a part of a test's name.
inline std::string test_name(std::string model) {
  std::replace(model.begin(), model.end(), '-', '_');
  return model;
}

/// What the reference implementation answers to a tiny checkpoint.
struct Golden {
  std::vector<std::vector<int32_t>> prompts;   // [batch, tokens]
  std::vector<std::vector<float>> logits;      // [batch][tokens * vocab]
  std::vector<std::vector<int32_t>> greedy;    // [batch, steps]
  std::vector<std::vector<float>> greedy_gap;  // [batch, steps]
  double spread = 0;                           // standard deviation of all logits

  static Golden read(const std::string& path) {
    auto file = Safetensors::open(path).value();
    Golden golden;
    fill(*file, "input_ids", golden.prompts);
    fill(*file, "logits", golden.logits);
    fill(*file, "greedy", golden.greedy);
    fill(*file, "greedy_gap", golden.greedy_gap);
    double sum = 0, squares = 0, count = 0;
    for (const auto& row : golden.logits) {
      for (float value : row) sum += value, squares += double{value} * value, ++count;
    }
    golden.spread = std::sqrt(squares / count - sum / count * (sum / count));
    return golden;
  }

 private:
  template <class T>
  static void fill(const Safetensors& file, const std::string& name, std::vector<std::vector<T>>& out) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      if (tensor.name != name) continue;
      const size_t batch = static_cast<size_t>(tensor.extents.at(0));
      const size_t row_bytes = tensor.bytes.size() / batch;
      for (size_t i = 0; i < batch; ++i) {
        std::vector<T> row(row_bytes / sizeof(T));
        std::memcpy(row.data(), tensor.bytes.data() + i * row_bytes, row_bytes);
        out.push_back(std::move(row));
      }
    }
    CHECK(!out.empty(), "no tensor '{}' in {}", name, file.path());
  }
};

/// A checkpoint of this repository's test data, loaded as the program loads it.
inline Result<Decoder> load_decoder(const std::string& folder, Backend& backend) {
  TRY_BIND(auto checkpoint, Checkpoint::open(folder));
  TRY_BIND(Config config, checkpoint->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  CheckpointBinder binder(*checkpoint, backend);
  TRY_BIND(Decoder decoder, Decoder::bind(std::move(spec), binder));
  TRY_STATUS(binder.finish(decoder.spec().unneeded));
  return decoder;
}

}  // namespace vernier::testing
