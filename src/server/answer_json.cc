#include "server/answer_json.h"

#include <algorithm>

namespace vernier {
namespace {

double milliseconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

double per_second(int64_t count, int64_t ns) {
  return ns > 0 ? static_cast<double>(count) * 1e9 / static_cast<double>(ns) : 0;
}

void write_label(JsonWriter& json, const TokenLabel& label, float logprob) {
  json.text("token", label.text).key("logprob").number(std::min(logprob, 0.0F)).key("bytes").begin_array();
  for (char byte : label.bytes) json.integer(static_cast<unsigned char>(byte));
  json.end_array();
}

const ChoiceResult& longest_choice(std::span<const ChoiceResult> results) {
  return *std::ranges::max_element(results, {}, [](const ChoiceResult& result) { return result.ledger.total_ns(); });
}

}  // namespace

std::string_view answer_end_name(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kStop:
      return "stop";
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kToolCalls:
      return "tool_calls";
  }
  return "stop";
}

TokenLabel token_label(const Tokenizer& tokenizer, int32_t token, bool skip_special) {
  TokenLabel label;
  if (skip_special && tokenizer.is_skipped(token)) {
    label.text = tokenizer.token_text(token).value_or("");
    return label;
  }
  label.bytes = tokenizer.token_bytes(token).value_or("");
  label.text = label.bytes;
  return label;
}

void write_token_logprob(JsonWriter& json, const Tokenizer& tokenizer, const SampledToken& token, int32_t top,
                         bool skip_special) {
  json.begin_object();
  write_label(json, token_label(tokenizer, token.token, skip_special), token.logprob);
  json.key("top_logprobs").begin_array();
  for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(std::max(top, 0)); ++i) {
    json.begin_object();
    write_label(json, token_label(tokenizer, token.top[i].token, skip_special), token.top[i].logprob);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_chat_logprobs(JsonWriter& json, const Tokenizer& tokenizer, std::span<const SampledToken> tokens,
                         int32_t top, bool skip_special) {
  json.begin_object().key("content").begin_array();
  for (const SampledToken& token : tokens) write_token_logprob(json, tokenizer, token, top, skip_special);
  json.end_array().null("refusal").end_object();
}

void write_prompt_logprobs(JsonWriter& json, const Tokenizer& tokenizer, std::span<const SampledToken> tokens) {
  json.begin_array().null();
  auto entry = [&](int32_t token, float logprob, int64_t rank) {
    json.key(std::to_string(token)).begin_object().key("logprob").number(std::min(logprob, 0.0F)).key("rank");
    if (rank > 0) {
      json.integer(rank);
    } else {
      json.null();
    }
    json.text("decoded_token", token_label(tokenizer, token, false).text).end_object();
  };
  for (const SampledToken& token : tokens) {
    json.begin_object();
    bool listed = false;
    for (size_t i = 0; i < token.top.size(); ++i) {
      entry(token.top[i].token, token.top[i].logprob, static_cast<int64_t>(i) + 1);
      listed |= token.top[i].token == token.token;
    }
    if (!listed) entry(token.token, token.logprob, 0);
    json.end_object();
  }
  json.end_array();
}

void write_usage(JsonWriter& json, std::span<const ChoiceResult> results, size_t choices_of_prompt) {
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i % choices_of_prompt == 0) {
      prompt += results[i].prompt_tokens;
      cached += results[i].cached_tokens;
    }
    completion += results[i].completion_tokens;
    reasoning += results[i].reasoning_tokens;
  }
  json.begin_object().integer("prompt_tokens", prompt).integer("completion_tokens", completion);
  json.integer("total_tokens", prompt + completion);
  json.key("prompt_tokens_details")
      .begin_object()
      .integer("cached_tokens", cached)
      .integer("audio_tokens", 0)
      .end_object();
  json.key("completion_tokens_details")
      .begin_object()
      .integer("reasoning_tokens", reasoning)
      .integer("audio_tokens", 0);
  json.integer("accepted_prediction_tokens", 0).integer("rejected_prediction_tokens", 0).end_object();
  json.end_object();
}

const RequestLedger& longest_ledger(std::span<const ChoiceResult> results) {
  return longest_choice(results).ledger;
}

void write_timings(JsonWriter& json, std::span<const ChoiceResult> results) {
  const ChoiceResult& result = longest_choice(results);
  const RequestLedger& ledger = result.ledger;
  auto ms = [&](std::string_view name, int64_t ns) { json.key(name).number(milliseconds(ns)); };
  json.begin_object();
  ms("queue_ms", ledger.queue_ns);
  ms("prefill_ms", ledger.prefill_ns);
  ms("waiting_ms", ledger.waiting_ns);
  ms("decode_ms", ledger.decode_ns);
  ms("padding_ms", ledger.padding_ns);
  ms("preemption_ms", ledger.preemption_ns());
  ms("client_ms", ledger.client_ns);
  ms("total_ms", ledger.total_ns());
  ms("first_token_ms", ledger.first_token_ns);
  // As llama.cpp's server names them.
  json.integer("cache_n", result.cached_tokens).integer("prompt_n", result.prompt_tokens - result.cached_tokens);
  ms("prompt_ms", ledger.prefill_ns);
  json.key("prompt_per_second").number(per_second(result.prompt_tokens - result.cached_tokens, ledger.prefill_ns));
  json.integer("predicted_n", result.completion_tokens);
  ms("predicted_ms", ledger.decode_ns);
  json.key("predicted_per_second").number(per_second(result.completion_tokens, ledger.decode_ns));
  json.end_object();
}

void write_stop_reason(JsonWriter& json, const ChoiceResult& result, std::span<const int32_t> own_stop_tokens) {
  json.key("stop_reason");
  if (!result.found_stop.empty()) {
    json.text(result.found_stop);
  } else if (result.stop_token && std::ranges::find(own_stop_tokens, *result.stop_token) != own_stop_tokens.end()) {
    json.integer(*result.stop_token);
  } else {
    json.null();
  }
}

void write_token_ids(JsonWriter& json, std::span<const int32_t> tokens) {
  json.begin_array();
  for (int32_t token : tokens) json.integer(token);
  json.end_array();
}

void write_token_ids(JsonWriter& json, std::span<const SampledToken> tokens) {
  json.begin_array();
  for (const SampledToken& token : tokens) json.integer(token.token);
  json.end_array();
}

}  // namespace vernier
