#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_map.h"
#include "checkpoint/gguf.h"
#include "checkpoint/quant_plan.h"
#include "tensor/bytes.h"
#include "tensor/codec.h"

namespace vernier {

/// One tensor as its file describes it. A view: the file stays mapped as long as this lives.
struct StoredTensor {
  std::string name;              ///< in Hugging Face spelling, "model.norm.weight"; as in the file where it has none
  std::string file_name;         ///< as the file spells it
  std::string type;              ///< as the file calls it: "Q4_1", "BF16"
  std::optional<CodecId> codec;  ///< absent for types that cannot be computed with, or not without a scale elsewhere
  std::vector<int64_t> extents;  ///< outermost first
  std::span<const std::byte> bytes;
  std::shared_ptr<const FileMap> file;
  std::string used_by_configuration;  ///< what for, where the configuration took this tensor in

  Bytes data() const { return {file, bytes}; }
};

/// How this format's tensors differ from those the models name.
struct CheckpointDialect {
  std::string format;                  ///< "GGUF v3", "safetensors"
  bool rope_rows_interleaved = false;  ///< rotary pairs of Q and K rows are neighbours
  bool norms_hold_one = false;         ///< the 1 of (1 + w) is in the stored norm weights
};

/// Where the vocabulary is. One of both is set, or none where the model comes without one.
struct TokenizerSource {
  std::string tokenizer_json;        ///< path of the file; empty where there is none
  nlohmann::json tokenizer_config;   ///< of tokenizer_config.json beside it; null where there is none
  std::shared_ptr<const Gguf> gguf;  ///< the file whose metadata hold the vocabulary
};

/// A chat template and where it stood. The unnamed one is called "default".
struct StoredTemplate {
  std::string name;
  std::string text;
  std::string origin;
};

/// What the model's makers advise for generation. Unset where they say nothing.
struct GenerationDefaults {
  std::vector<int32_t> eos_ids;         ///< union over all files, ascending
  std::vector<std::string> eos_tokens;  ///< end tokens that a file names by their text
  std::optional<int32_t> bos_id;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
};

/// How one vector is made of a text's hidden states.
enum class Pooling : uint8_t { kLast, kMean, kFirst };

/// What the makers of an embedding model say, in the files of sentence-transformers. Unset where they say nothing.
struct EmbeddingDefaults {
  std::optional<Pooling> pooling;
  std::optional<int32_t> max_tokens;
  std::optional<Error> refusal;  ///< why their vectors cannot be made, though the hidden states can
};

/// All that is known of an opened checkpoint; what a format's opener makes.
struct CheckpointParts {
  std::string path;
  CheckpointDialect dialect;
  std::vector<StoredTensor> tensors;
  nlohmann::json config;
  std::string config_origin;     ///< for messages
  QuantPlan plan;                ///< which layers are quantised, for formats whose tensors do not say it themselves
  std::optional<Error> refusal;  ///< why no model can be built of it, though its tensors can be listed
  TokenizerSource tokenizer;
  std::vector<StoredTemplate> chat_templates;  ///< in order of precedence; names differ
  GenerationDefaults generation;
  EmbeddingDefaults embedding;
  std::vector<std::string> warnings;
};

Result<CheckpointParts> open_gguf_checkpoint(const std::string& path);
Result<CheckpointParts> open_hf_folder(const std::string& folder);

}  // namespace vernier
