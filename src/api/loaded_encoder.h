#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/loaded_model.h"
#include "models/encoder.h"

namespace vernier {

/// An encoder ready to run: its opened checkpoint, its weights in a backend, its tokenizer. Immutable once loaded.
class LoadedEncoder {
 public:
  static Result<std::unique_ptr<LoadedEncoder>> load(const std::string& path, const LoadOptions& options);

  const std::string& path() const { return checkpoint_->path(); }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Encoder& encoder() const { return *encoder_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Backend& backend() const { return *backend_; }
  TacticStore* tactics() const { return tactics_.get(); }  ///< null: none
  const LoadReport& report() const { return report_; }

  /// The longest text in tokens: what the makers say, else what there are positions for.
  int32_t max_tokens() const;
  /// How a vector is made of hidden states. Refused where the makers ask for what is not built.
  Result<Pooling> pooling() const;

 private:
  LoadedEncoder() = default;

  std::unique_ptr<Checkpoint> checkpoint_;
  std::shared_ptr<TacticStore> tactics_;
  std::unique_ptr<Backend> backend_;
  std::optional<Encoder> encoder_;  // after the backend, whose memory its weights are
  std::optional<Tokenizer> tokenizer_;
  LoadReport report_;
};

/// Whether the model at `path` is an encoder; reads no weights.
Result<bool> is_encoder(const std::string& path);

}  // namespace vernier
