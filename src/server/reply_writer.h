#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/event_stream.h"
#include "text/output_parser.h"

namespace vernier {

/// Why a choice ended, in OpenAI's words.
enum class AnswerEnd : uint8_t { kStop, kLength, kToolCalls };
std::string_view answer_end_name(AnswerEnd end);

/// What one choice came to.
struct ChoiceResult {
  OutputAnswer answer;                ///< the fold of its deltas
  std::vector<std::string> call_ids;  ///< [calls]
  std::vector<OutputDelta> parts;     ///< where they are kept: the deltas, those of one kind in a row joined
  std::vector<SampledToken> tokens;   ///< without the end token
  std::vector<SampledToken> prompt;   ///< with prompt log probabilities: the prompt's tokens after the first
  AnswerEnd end = AnswerEnd::kStop;
  std::string found_stop;             ///< the stop string that ended it, or empty
  std::optional<int32_t> stop_token;  ///< the end token that ended it
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;  ///< the end token included
  int32_t reasoning_tokens = 0;
  RequestLedger ledger;
};

/// A step of a choice as it is told: the delta, and the tokens whose text it lets out.
struct ChoiceStep {
  size_t choice = 0;
  const OutputDelta* delta = nullptr;
  std::string_view call_id;              ///< of the call that the delta belongs to
  std::span<const SampledToken> tokens;  ///< since the step before
};

/// Writes one route's answer. A stream gets `begin_choice`, `step`..., `end_choice` of each choice, and `end_stream`;
/// a whole answer is `whole`. Both tell the same deltas. One thread at a time.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  /// Before the first step or end of a choice; of `so_far` the prompt's scores are known.
  virtual void begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) = 0;
  virtual void step(EventStream& events, const ChoiceStep& step) = 0;
  /// `tokens`: those that no step told.
  virtual void end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                          std::span<const SampledToken> tokens) = 0;
  virtual void end_stream(EventStream& events, std::span<const ChoiceResult> results) = 0;
  virtual std::string whole(std::span<const ChoiceResult> results) = 0;
  /// The answer ends with an error, under its own status if nothing has been sent.
  virtual void fail(EventStream& events, const ApiError& error) { events.fail(error); }
};

}  // namespace vernier
