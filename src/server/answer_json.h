#pragma once

#include <span>
#include <string>

#include "server/json_writer.h"
#include "server/reply_writer.h"
#include "text/tokenizer.h"

namespace vernier {

/// What several routes write alike.

/// The text that a token stands for in lists of log probabilities, and its bytes: parts of characters are U+FFFD in the
/// text and exact in the bytes. A token that leaves no text (`skip_special`) has its spelling and no bytes.
struct TokenLabel {
  std::string text;
  std::string bytes;
};
TokenLabel token_label(const Tokenizer& tokenizer, int32_t token, bool skip_special);

/// {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}, with `top` alternatives each.
void write_chat_logprobs(JsonWriter& json, const Tokenizer& tokenizer, std::span<const SampledToken> tokens,
                         int32_t top, bool skip_special);

/// One entry of the list above.
void write_token_logprob(JsonWriter& json, const Tokenizer& tokenizer, const SampledToken& token, int32_t top,
                         bool skip_special);

/// [null, {"ID": {"logprob", "rank", "decoded_token"}}, ...]: the prompt's tokens.
void write_prompt_logprobs(JsonWriter& json, const Tokenizer& tokenizer, std::span<const SampledToken> tokens);

/// Chat's and completions' usage; a prompt of several choices counts once.
void write_usage(JsonWriter& json, std::span<const ChoiceResult> results, size_t choices_of_prompt);

/// Milliseconds of the ledger and rates, of the choice that took longest.
/// Of the choice that took longest.
const RequestLedger& longest_ledger(std::span<const ChoiceResult> results);
void write_timings(JsonWriter& json, std::span<const ChoiceResult> results);

/// The stop string, the stop token's id, or null.
void write_stop_reason(JsonWriter& json, const ChoiceResult& result, std::span<const int32_t> own_stop_tokens);

void write_token_ids(JsonWriter& json, std::span<const int32_t> tokens);
void write_token_ids(JsonWriter& json, std::span<const SampledToken> tokens);

}  // namespace vernier
