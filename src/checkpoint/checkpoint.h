#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint_parts.h"
#include "ops/config.h"

namespace vernier {

/// An opened model: its configuration, tensors, tokenizer files, chat templates and generation defaults, whatever
/// format they came in. Opening reads headers, no weights. Immutable; any thread may read.
///
/// `open` refuses files that break their format. `config` refuses, by name, what can be listed and not be computed
/// with: quantisation dialects and architectures that are not built.
class Checkpoint {
 public:
  /// `path` is a GGUF file, one of its parts, a folder with one GGUF model, or a Hugging Face folder.
  static Result<std::unique_ptr<Checkpoint>> open(const std::string& path);
  /// Of parts that were read one by one, by whoever goes on where `open` stops.
  static Result<std::unique_ptr<Checkpoint>> make(CheckpointParts parts);

  const std::string& path() const { return parts_.path; }
  const CheckpointDialect& dialect() const { return parts_.dialect; }
  /// In Hugging Face spelling, whatever the format. A new one each time, as reading marks its keys.
  Result<Config> config() const;
  /// The same, without the keys of quantisation, for whoever writes it down again.
  const nlohmann::json& config_json() const { return parts_.config; }
  const std::string& config_origin() const { return parts_.config_origin; }
  const QuantPlan& plan() const { return parts_.plan; }  ///< which layers are quantised, and by which rule
  const TokenizerSource& tokenizer() const { return parts_.tokenizer; }
  /// In order of precedence: a file of its own, a named file, the tokenizer's configuration, GGUF metadata.
  const std::vector<StoredTemplate>& chat_templates() const { return parts_.chat_templates; }
  const StoredTemplate* chat_template(std::string_view name = "default") const;  ///< null where there is none
  const GenerationDefaults& generation() const { return parts_.generation; }
  const EmbeddingDefaults& embedding() const { return parts_.embedding; }
  /// What a person should know and need not act upon.
  const std::vector<std::string>& warnings() const { return parts_.warnings; }

  const std::vector<StoredTensor>& tensors() const { return parts_.tensors; }
  std::vector<std::string> files() const;                 ///< paths of those that hold tensors or a GGUF vocabulary
  const StoredTensor* find(std::string_view name) const;  ///< by Hugging Face name; null where there is none
  /// The head's tensor holds the same bytes as the embedding table: one copy can serve as both.
  bool head_equals_embedding() const;

 private:
  explicit Checkpoint(CheckpointParts parts) : parts_(std::move(parts)) {}
  Status index_tensors();

  CheckpointParts parts_;
  std::unordered_map<std::string_view, size_t> names_;
};

/// The tokenizer of a model, or one on its own: a tokenizer.json, a folder with one, a GGUF file (vocabulary-only ones
/// too) or a model's folder. Needs no weights.
Result<TokenizerSource> find_tokenizer(const std::string& path);

/// The last part of a name says that the tensor scales another one (weight_scale_inv, k_scale, .scales, qzeros, ...).
bool looks_like_scale(std::string_view tensor_name);
/// Belongs to a picture or sound encoder, which a text model leaves where it is.
bool belongs_to_other_modality(std::string_view tensor_name);

}  // namespace vernier
