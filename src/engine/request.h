#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/sample_spec.h"
#include "sampling/sampling_params.h"

namespace vernier {

class CompiledGrammar;

/// Names a submitted request in this engine; never used twice.
using RequestId = uint64_t;

/// What a scripted model answers instead of computing: one step for each token.
struct ScriptedStep {
  int32_t token = 0;
  std::string failure;  ///< not empty: this step fails, as a device error would
};
struct ScriptedAnswer {
  std::vector<ScriptedStep> steps;  ///< without the end token
  int32_t end_token = 0;            ///< follows the last step
  int64_t step_ns = 0;              ///< duration of each step
};

/// What a request wants of its tokens.
enum class RequestKind : uint8_t {
  kGenerate,
  kEmbedLast,   ///< the final hidden state of the last prompt token, [hidden]
  kEmbedMean,   ///< the mean over the prompt
  kEmbedFirst,  ///< that of its first token
};

/// One choice to generate: tokens in, tokens out. Text (templates, stop strings, tools) is the business of who submits.
struct Request {
  RequestKind kind = RequestKind::kGenerate;
  std::string name;             ///< the request id of the API, for the log
  std::vector<int32_t> prompt;  ///< at least one token
  SamplingParams sampling;
  uint32_t choice = 0;  ///< index among the choices of one API request; part of the seed
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;           ///< end tokens are banned before
  std::vector<int32_t> end_tokens;  ///< end the answer; the one that did is reported in Finished, not as a token
  int32_t top_logprobs = -1;        ///< -1: no log probabilities; else this many alternatives with each token
  int32_t prompt_logprobs = -1;     ///< the same for each prompt token but the first; such a prompt is not reused
  std::shared_ptr<const CompiledGrammar> grammar;
  std::shared_ptr<const ScriptedAnswer> script;  ///< for a scripted model only

  int32_t priority = 0;                ///< higher first
  uint64_t fair_share_key = 0;         ///< requests of one key share its part of the machine
  uint64_t cache_salt = 0;             ///< prefixes are shared only between equal salts
  bool reuse_prefix = true;            ///< false: computes its whole prompt
  std::optional<int64_t> deadline_ns;  ///< monotonic; from then on it fails with kTimeout, wherever it is
  /// It takes the place of one of the same caller's work that has ended: neither a full queue nor a drain refuses it.
  bool keeps_place = false;
};

enum class FinishReason : uint8_t {
  kStop,       ///< an end token, a complete grammar or a stop string
  kLength,     ///< max_tokens
  kContext,    ///< the context is full
  kCancelled,  ///< by `Engine::cancel`
};

/// Where the wall time of a request went; the parts sum to the whole. The engine counts from submit to the last token;
/// who tells the answer adds what came before to `queue_ns`, and what came after as `client_ns`.
struct RequestLedger {
  int64_t queue_ns = 0;        ///< not yet admitted
  int64_t prefill_ns = 0;      ///< in steps that computed its prompt
  int64_t decode_ns = 0;       ///< in steps that computed its answer
  int64_t waiting_ns = 0;      ///< admitted, while a step ran without it or the engine planned
  int64_t padding_ns = 0;      ///< of its steps: the share of rows that only fill up a shape
  int64_t preempted_ns = 0;    ///< its blocks were taken away, until it was admitted again
  int64_t recompute_ns = 0;    ///< in steps that computed again what a preemption took
  int64_t client_ns = 0;       ///< it was ready and the client had not taken it
  int64_t first_token_ns = 0;  ///< from the begin to the first token; not a part of the sum
  int64_t end_ns = 0;          ///< monotonic, when the engine was done with it; not a part of the sum
  int64_t preemption_ns() const { return preempted_ns + recompute_ns; }
  int64_t total_ns() const {
    return queue_ns + prefill_ns + decode_ns + waiting_ns + padding_ns + preemption_ns() + client_ns;
  }
};

struct Finished {
  FinishReason reason = FinishReason::kStop;
  std::optional<int32_t> end_token;  ///< the end token that ended the answer
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  ///< of the prompt, found in the cache at the first admission
  int32_t preemptions = 0;
};

/// News of one request: tokens since the last, and how it ended.
struct RequestUpdate {
  std::vector<SampledToken> tokens;
  std::vector<SampledToken> prompt;  ///< with prompt_logprobs: the prompt's tokens after the first, before any token
  std::vector<float> embedding;      ///< of an embedding request, [hidden], not scaled; with the last update
  std::optional<Finished> finished;
  std::optional<Error> failed;  ///< instead of finished; see grammar_error.h
  RequestLedger ledger;         ///< with the last update
  bool last() const { return finished.has_value() || failed.has_value(); }
};

/// Takes the news of one request. Called by the engine's delivery thread, never by the engine thread, in order, and not
/// again after the last update. Must not block: a slow client is the sink's business.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void deliver(RequestUpdate update) = 0;
};

}  // namespace vernier
