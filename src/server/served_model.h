#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "sampling/sampling_params.h"
#include "text/chat_template.h"
#include "text/output_format.h"
#include "text/scripted_model.h"
#include "text/tokenizer.h"

namespace vernier {

class GrammarCompiler;

/// A model as the routes see it: an engine that runs, the text around it, and what it is called. Constant while it is
/// served; any thread.
struct ServedModel {
  std::vector<std::string> names;  ///< at least one; the first is the model's, the others are accepted as well
  int64_t created_unix_s = 0;      ///< of the model, for /v1/models
  std::string fingerprint;         ///< changes whenever equal requests may be answered differently

  std::shared_ptr<const void> keep;  ///< what the engine runs on
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  ///< null: none, and then chat is refused unless it is harmony
  std::vector<std::pair<std::string, std::string>> special_tokens;  ///< bos_token and the like, for the template
  OutputFormat format = OutputFormat::kPlain;
  /// How calls are asked for and parsed where the format has none of its own; kPlain: not at all.
  OutputFormat tool_format = OutputFormat::kPlain;
  bool parse_reasoning = true;
  std::vector<int32_t> end_tokens;
  SamplingParams sampling;                          ///< what holds where a request is silent
  std::optional<uint64_t> seed;                     ///< of requests that name none; empty: a new one each time
  std::shared_ptr<GrammarCompiler> grammars;        ///< null: structured output is refused
  RequestKind embedding = RequestKind::kEmbedLast;  ///< how a text's states become one vector
  bool generates = true;                            ///< false: an encoder, which answers with embeddings alone

  std::shared_ptr<const ScriptedModel> script;  ///< null: a model with weights

  /// Ends first of all members: what it still delivers then reads the others. Answers refer to this model and do not
  /// own it, since the last of them is let go by the engine's own thread.
  std::shared_ptr<Engine> engine;

  const std::string& name() const { return names.front(); }
  bool answers_to(std::string_view model) const;
  int32_t context_tokens() const { return engine->options().context_tokens; }
  int32_t vocabulary() const { return engine->shape().vocab; }
};

/// What a scripted engine does to give a reply.
std::shared_ptr<const ScriptedAnswer> scripted_answer(const ScriptedModel& script, const ScriptReply& reply);

}  // namespace vernier
