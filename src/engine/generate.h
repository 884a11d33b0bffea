#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "engine/sequence_runner.h"
#include "sampling/sampling_params.h"
#include "text/tokenizer.h"

namespace vernier {

struct GenerateOptions {
  SamplingParams sampling;
  int32_t max_tokens = 512;
  std::vector<std::string> stops;   ///< searched in the decoded text; the match and what follows are dropped
  std::vector<int32_t> end_tokens;  ///< end the answer, are not part of it
};

struct Generated {
  std::vector<int32_t> tokens;  ///< without the end token
  FinishReason reason = FinishReason::kLength;
  int64_t prefill_ns = 0;  ///< to the first token
  int64_t decode_ns = 0;   ///< from there to the last
};

/// Continues `prompt`, of which the runner already holds the first `runner.position()` tokens, and hands the text to
/// `on_text` as it becomes certain: whole characters, nothing that may yet turn out to be a stop string. The runner
/// ends up holding the prompt and the answer, but for a last token that was drawn and not fed.
Result<Generated> generate(SequenceRunner& runner, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                           const GenerateOptions& options, const std::function<void(std::string_view)>& on_text);

}  // namespace vernier
