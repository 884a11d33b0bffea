#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/loaded_encoder.h"
#include "api/loaded_model.h"
#include "engine/cache_plan.h"
#include "engine/engine.h"
#include "server/served_model.h"

namespace vernier {

/// What a request without a seed gets where answers are to repeat.
inline constexpr uint64_t kFixedSeed = 42;

/// How a model is served. What is not said follows from the checkpoint.
struct ServeOptions {
  std::vector<std::string> names;  ///< at least one
  EngineOptions engine;
  CacheOptions cache;
  std::optional<OutputFormat> format;       ///< how reasoning and calls are written
  std::optional<OutputFormat> tool_format;  ///< calls alone
  bool parse_reasoning = true;
  std::optional<Pooling> pooling;  ///< of embeddings; else as the makers say, else the last token of a decoder
  std::optional<std::string> chat_template;  ///< its text, instead of the checkpoint's
  bool deterministic = false;                ///< a request without a seed gets a fixed one, so that its answer repeats
  bool model_sampling = true;  ///< the makers' advice holds where a request is silent; else OpenAI's defaults
};

/// A loaded model behind a running engine.
Result<std::shared_ptr<const ServedModel>> serve_model(std::shared_ptr<const LoadedModel> model,
                                                       const ServeOptions& options);

/// A loaded encoder behind a running engine: embeddings, and no route that generates.
Result<std::shared_ptr<const ServedModel>> serve_encoder(std::shared_ptr<const LoadedEncoder> model,
                                                         const ServeOptions& options);

/// The script in `file`, with the tokenizer, template and context length of the checkpoint at `tokenizer_path`; no
/// weight is read.
Result<std::shared_ptr<const ServedModel>> serve_script(const ScriptFile& file, const std::string& tokenizer_path,
                                                        const ServeOptions& options);

}  // namespace vernier
