#include "server/chat_writer.h"

namespace vernier {

ChatWriter::ChatWriter(const ServedModel& model, GenerationSettings settings, ChatWriterOptions options)
    : model_(model), settings_(std::move(settings)), options_(std::move(options)) {
  JsonWriter json(head_);
  json.begin_object();
  write_identity(json, "chat.completion.chunk");
  head_ += ",\"choices\":[";
}

void ChatWriter::write_identity(JsonWriter& json, std::string_view object) const {
  json.text("id", options_.id).text("object", object).integer("created", options_.created_unix_s);
  json.text("model", model_.name()).text("system_fingerprint", model_.fingerprint);
}

std::string_view ChatWriter::end_name(AnswerEnd end) const {
  return options_.legacy_call && end == AnswerEnd::kToolCalls ? "function_call" : answer_end_name(end);
}

void ChatWriter::open_chunk(size_t choice) {
  chunk_ = head_;
  chunk_ += "{\"index\":";
  chunk_ += std::to_string(choice);
  chunk_ += ",\"delta\":{";
}

void ChatWriter::close_chunk(EventStream& events) {
  chunk_ += "}]";
  if (options_.usage_in_stream) chunk_ += ",\"usage\":null";
  chunk_ += '}';
  events.add(chunk_);
}

void ChatWriter::write_chunk_logprobs(std::span<const SampledToken> tokens) {
  if (settings_.token_ids) {
    chunk_ += ",\"token_ids\":";
    JsonWriter json(chunk_);
    write_token_ids(json, tokens);
  }
  chunk_ += ",\"logprobs\":";
  if (settings_.top_logprobs < 0 || tokens.empty()) {
    chunk_ += "null";
    return;
  }
  JsonWriter json(chunk_);
  write_chat_logprobs(json, *model_.tokenizer, tokens, settings_.top_logprobs, settings_.skip_special);
}

void ChatWriter::begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) {
  open_chunk(choice);
  chunk_ += "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null";
  if (settings_.token_ids) {
    chunk_ += ",\"prompt_token_ids\":";
    JsonWriter json(chunk_);
    write_token_ids(json, options_.prompt);
  }
  chunk_ += "}]";
  if (options_.usage_in_stream) chunk_ += ",\"usage\":null";
  if (settings_.prompt_logprobs >= 0 && choice == 0) {
    chunk_ += ",\"prompt_logprobs\":";
    JsonWriter json(chunk_);
    write_prompt_logprobs(json, *model_.tokenizer, so_far.prompt);
  }
  chunk_ += '}';
  events.add(chunk_);
}

void ChatWriter::write_call_delta(const ChoiceStep& step) {
  const OutputDelta& delta = *step.delta;
  const bool begins = delta.kind == OutputDelta::Kind::kCallBegin;
  JsonWriter json(chunk_);
  if (options_.legacy_call) {
    json.key("function_call").begin_object();
  } else {
    json.key("tool_calls").begin_array().begin_object().integer("index", static_cast<int64_t>(delta.call_index));
    if (begins) json.text("id", step.call_id).text("type", "function");
    json.key("function").begin_object();
  }
  if (begins) json.text("name", delta.text);
  json.text("arguments", begins ? std::string_view() : std::string_view(delta.text)).end_object();
  if (!options_.legacy_call) json.end_object().end_array();
}

void ChatWriter::step(EventStream& events, const ChoiceStep& step) {
  open_chunk(step.choice);
  switch (step.delta->kind) {
    case OutputDelta::Kind::kContent:
      JsonWriter(chunk_).text("content", step.delta->text);
      break;
    case OutputDelta::Kind::kReasoning:
      JsonWriter(chunk_).text("reasoning_content", step.delta->text).text("reasoning", step.delta->text);
      break;
    case OutputDelta::Kind::kCallBegin:
    case OutputDelta::Kind::kCallArguments:
      write_call_delta(step);
      break;
  }
  chunk_ += '}';
  write_chunk_logprobs(step.tokens);
  chunk_ += ",\"finish_reason\":null";
  close_chunk(events);
}

void ChatWriter::end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                            std::span<const SampledToken> tokens) {
  open_chunk(choice);
  chunk_ += '}';
  write_chunk_logprobs(tokens);
  chunk_ += ",\"finish_reason\":\"";
  chunk_ += end_name(result.end);
  chunk_ += "\",";
  JsonWriter json(chunk_);
  write_stop_reason(json, result, settings_.stop_tokens);
  chunk_ += "}]";
  if (options_.usage_in_stream) chunk_ += ",\"usage\":null";
  chunk_ += ",\"timings\":";
  JsonWriter timings(chunk_);
  write_timings(timings, std::span(&result, 1));
  chunk_ += '}';
  events.add(chunk_);
}

void ChatWriter::end_stream(EventStream& events, std::span<const ChoiceResult> results) {
  if (options_.usage_in_stream) {
    chunk_ = head_;
    chunk_ += "],\"usage\":";
    JsonWriter json(chunk_);
    write_usage(json, results, results.size());
    chunk_ += '}';
    events.add(chunk_);
  }
  events.done();
}

void ChatWriter::write_message(JsonWriter& json, const ChoiceResult& result) const {
  const OutputAnswer& answer = result.answer;
  json.begin_object().text("role", "assistant").key("content");
  if (answer.content.empty() && !answer.calls.empty()) {
    json.null();
  } else {
    json.text(answer.content);
  }
  json.null("refusal");
  if (!answer.reasoning.empty()) {
    json.text("reasoning_content", answer.reasoning).text("reasoning", answer.reasoning);
  }
  if (!answer.calls.empty() && options_.legacy_call) {
    const OutputCall& call = answer.calls.front();
    json.key("function_call").begin_object().text("name", call.name).text("arguments", call.arguments).end_object();
  } else if (!answer.calls.empty()) {
    json.key("tool_calls").begin_array();
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      json.begin_object().text("id", result.call_ids[i]).text("type", "function").key("function").begin_object();
      json.text("name", answer.calls[i].name).text("arguments", answer.calls[i].arguments).end_object().end_object();
    }
    json.end_array();
  }
  json.end_object();
}

std::string ChatWriter::whole(std::span<const ChoiceResult> results) {
  std::string body;
  JsonWriter json(body);
  json.begin_object();
  write_identity(json, "chat.completion");
  json.key("choices").begin_array();
  for (size_t i = 0; i < results.size(); ++i) {
    const ChoiceResult& result = results[i];
    json.begin_object().integer("index", static_cast<int64_t>(i)).key("message");
    write_message(json, result);
    json.key("logprobs");
    if (settings_.top_logprobs >= 0) {
      write_chat_logprobs(json, *model_.tokenizer, result.tokens, settings_.top_logprobs, settings_.skip_special);
    } else {
      json.null();
    }
    json.text("finish_reason", end_name(result.end));
    write_stop_reason(json, result, settings_.stop_tokens);
    if (settings_.token_ids) {
      json.key("token_ids");
      write_token_ids(json, result.tokens);
    }
    json.end_object();
  }
  json.end_array().key("usage");
  write_usage(json, results, results.size());
  json.key("timings");
  write_timings(json, results);
  if (settings_.token_ids) {
    json.key("prompt_token_ids");
    write_token_ids(json, options_.prompt);
  }
  if (settings_.prompt_logprobs >= 0) {
    json.key("prompt_logprobs");
    write_prompt_logprobs(json, *model_.tokenizer, results.front().prompt);
  }
  json.end_object();
  return body;
}

}  // namespace vernier
