#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/error.h"

namespace vernier {
inline namespace api {

/// One message of a conversation. Its text never becomes a control token.
struct Message {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// How tokens are drawn. What is not set: as the makers advise, else neutral.
struct Sampling {
  std::optional<float> temperature = {};  ///< 0: greedy
  std::optional<int32_t> top_k = {};      ///< 0: off
  std::optional<float> top_p = {}, min_p = {}, typical_p = {};
  std::optional<float> repetition_penalty = {}, frequency_penalty = {}, presence_penalty = {};
  std::optional<int64_t> seed = {};  ///< from 0 on; equal seeds draw equal tokens
  std::vector<std::pair<int32_t, float>> logit_bias = {};
};

/// What an answer must look like.
struct Constraint {
  enum class Kind { kFree, kJsonObject, kJsonSchema, kRegex, kGrammar };
  Kind kind = Kind::kFree;
  std::string text = {};  ///< the schema, the expression, or the grammar in GBNF
};

/// What is asked of a model: a prompt (one of text, tokens, messages, messages_json) and how to answer it.
struct Request {
  static Request chat(std::vector<Message> messages) {
    Request request;
    request.messages = std::move(messages);
    return request;
  }
  static Request continue_text(std::string text) {
    Request request;
    request.text = std::move(text);
    return request;
  }
  static Request continue_tokens(std::vector<int32_t> tokens) {
    Request request;
    request.tokens = std::move(tokens);
    return request;
  }

  std::optional<std::string> text = {};  ///< continued as it is
  std::vector<int32_t> tokens = {};
  std::vector<Message> messages = {};  ///< through the model's chat template
  std::string messages_json = {};      ///< an array in OpenAI's form, with calls and their results
  std::string tools_json = {};         ///< an array in OpenAI's form; with messages
  std::string tool_choice = {};        ///< "auto", "none", "required", or a function's name
  std::string variables_json = {};     ///< an object of further variables for the template
  bool add_special = true;             ///< of a text: with the model's begin token
  bool parse_special = false;          ///< of a text: control tokens in it are matched

  Sampling sampling = {};
  std::optional<int32_t> max_tokens = {};  ///< else the rest of the context
  int32_t min_tokens = 0;
  std::vector<std::string> stops = {};  ///< the match and what follows are no part of the text
  bool ignore_end_tokens = false;
  Constraint constraint = {};

  std::optional<int32_t> top_logprobs = {};  ///< 0 to 20: log probabilities, with this many alternatives
  int32_t priority = 0;                      ///< higher first
  int64_t deadline_ms = 0;                   ///< from the submit; late: kTimeout; 0: none
  uint64_t cache_salt = 0;                   ///< prompts are found in the cache of equal salts alone
};

struct Token {
  int32_t token = 0;
  float logprob = 0;                                ///< natural; 0 unless asked for
  std::vector<std::pair<int32_t, float>> top = {};  ///< alternatives, likeliest first
};

struct Call {
  std::string name;
  std::string arguments;  ///< a JSON object, as the model wrote it
};

enum class Finish { kStopped, kCalled, kLength, kContext, kCancelled };

/// What became certain since the last update: whole characters, and nothing that may yet be a stop string. The views
/// hold until the callback returns.
struct Update {
  std::string_view text, reasoning;
  std::vector<Token> tokens;  ///< may be ahead of the texts
  bool last = false;
  /// Ends the request soon, as kCancelled.
  void cancel() const { vernier_request_cancel(request); }
  vernier_request* request = nullptr;
};

/// A whole answer. Of the times, which are nanoseconds, all but first_token_ns sum to the time in the engine.
struct Answer {
  std::string text;       ///< without reasoning and calls
  std::string reasoning;  ///< empty where the model has none
  std::vector<Call> calls;
  std::vector<Token> tokens;  ///< without the end token
  Finish finish = Finish::kStopped;
  std::string stop;  ///< the stop string that ended it
  int32_t prompt_tokens = 0, cached_tokens = 0, reasoning_tokens = 0, preemptions = 0;
  int64_t queue_ns = 0, prefill_ns = 0, decode_ns = 0, waiting_ns = 0, preempted_ns = 0, padding_ns = 0;
  int64_t first_token_ns = 0;
};

}  // namespace api
}  // namespace vernier
