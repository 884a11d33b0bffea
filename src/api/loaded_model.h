#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/backend_choice.h"
#include "checkpoint/checkpoint_binder.h"
#include "checkpoint/weight_quantiser.h"
#include "engine/cache_plan.h"
#include "models/decoder.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tune/tactic_store.h"

namespace vernier {

struct LoadOptions {
  BackendOptions backend;
  std::function<void(const BindProgress&)> on_progress;  ///< after each weight; may be empty
  std::optional<QuantiseRequest> quantise;               ///< weights are quantised while they are bound
  std::shared_ptr<TacticStore> tactics = nullptr;        ///< that the backend chooses by; null: none
  TacticUse tactic_use = {};
};

/// Has the binder quantise what it binds, where the options say so.
Status quantise_while_binding(const Checkpoint& checkpoint, const LoadOptions& options, CheckpointBinder& binder);

/// A model ready to run: its opened checkpoint, its weights in a backend, its tokenizer and chat template. Immutable
/// once loaded; sequences over it have an Ops of their own. The tokenizer and the template may be absent or unreadable:
/// asking for one then says why, and the rest works.
class LoadedModel {
 public:
  static Result<std::unique_ptr<LoadedModel>> load(const std::string& path, const LoadOptions& options);

  const std::string& path() const { return checkpoint_->path(); }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Decoder& decoder() const { return *decoder_; }
  Backend& backend() const { return *backend_; }
  TacticStore* tactics() const { return tactics_.get(); }  ///< null: none
  const LoadReport& report() const { return report_; }

  Result<const Tokenizer*> tokenizer() const;
  /// Null where the checkpoint has none.
  Result<const ChatTemplate*> chat_template() const;
  /// The conversation as the model's template writes it, ready to be answered, as token ids. No marker inside a
  /// message's text becomes a special token. Refused where the model has no template.
  Result<std::vector<int32_t>> encode_chat(const nlohmann::ordered_json& messages) const;
  /// Tokens that end an answer: those that the makers name, as ids.
  std::vector<int32_t> end_tokens() const;

  /// What each layer's cache is under these options.
  Result<CachePlan> plan_cache(const CacheOptions& options) const;

  /// Packed bytes of all matrices, each once.
  int64_t weight_bytes() const;
  /// Of those, what one decoded token reads: all but an embedding table that is no head.
  int64_t bytes_read_per_token() const;
  /// Parameters that multiply every token: all matrices but the embedding and the head.
  int64_t product_parameters() const;

 private:
  LoadedModel() = default;

  std::unique_ptr<Checkpoint> checkpoint_;
  std::shared_ptr<TacticStore> tactics_;
  std::unique_ptr<Backend> backend_;
  std::optional<Decoder> decoder_;  // after the backend, whose memory its weights are
  LoadReport report_;
  std::optional<Result<Tokenizer>> tokenizer_;
  std::optional<Result<ChatTemplate>> chat_template_;
};

}  // namespace vernier
