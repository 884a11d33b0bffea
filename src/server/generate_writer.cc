#include "server/generate_writer.h"

namespace vernier {

GenerateWriter::GenerateWriter(const ServedModel& model, GenerationSettings settings, std::string id, bool as_list)
    : model_(model), settings_(std::move(settings)), id_(std::move(id)), as_list_(as_list) {}

void GenerateWriter::write_choice(JsonWriter& json, size_t choice, const ChoiceResult& result, bool ended) const {
  json.begin_object().text("text", result.answer.content).key("output_ids");
  write_token_ids(json, result.tokens);
  if (as_list_) json.integer("index", static_cast<int64_t>(choice));
  json.key("meta_info").begin_object().text("id", id_).key("finish_reason");
  if (ended) {
    json.begin_object().text("type", answer_end_name(result.end));
    if (!result.found_stop.empty()) {
      json.text("matched", result.found_stop);
    } else if (result.stop_token) {
      json.integer("matched", *result.stop_token);
    }
    if (result.end == AnswerEnd::kLength) json.integer("length", result.completion_tokens);
    json.end_object();
  } else {
    json.null();
  }
  json.integer("prompt_tokens", result.prompt_tokens).integer("completion_tokens", result.completion_tokens);
  json.integer("cached_tokens", result.cached_tokens);
  json.key("e2e_latency").number(static_cast<double>(result.ledger.total_ns()) * 1e-9);
  if (settings_.top_logprobs >= 0) {
    json.key("output_token_logprobs").begin_array();
    for (const SampledToken& token : result.tokens) {
      json.begin_array().number(token.logprob).integer(token.token);
      json.text(token_label(*model_.tokenizer, token.token, false).text).end_array();
    }
    json.end_array().key("output_top_logprobs").begin_array();
    for (const SampledToken& token : result.tokens) {
      json.begin_array();
      for (const TokenLogprob& top : token.top) {
        json.begin_array().number(top.logprob).integer(top.token);
        json.text(token_label(*model_.tokenizer, top.token, false).text).end_array();
      }
      json.end_array();
    }
    json.end_array();
  }
  json.end_object().end_object();
}

void GenerateWriter::begin_choice(EventStream&, size_t choice, const ChoiceResult&) {
  if (so_far_.size() <= choice) so_far_.resize(choice + 1);
}

void GenerateWriter::step(EventStream& events, const ChoiceStep& step) {
  ChoiceResult& result = so_far_[step.choice];
  fold_answer(*step.delta, result.answer);
  result.tokens.insert(result.tokens.end(), step.tokens.begin(), step.tokens.end());
  result.completion_tokens += static_cast<int32_t>(step.tokens.size());
  std::string event;
  JsonWriter json(event);
  write_choice(json, step.choice, result, false);
  events.add(event);
}

void GenerateWriter::end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                                std::span<const SampledToken>) {
  std::string event;
  JsonWriter json(event);
  write_choice(json, choice, result, true);
  events.add(event);
}

void GenerateWriter::end_stream(EventStream& events, std::span<const ChoiceResult>) {
  events.done();
}

std::string GenerateWriter::whole(std::span<const ChoiceResult> results) {
  std::string body;
  JsonWriter json(body);
  if (as_list_) json.begin_array();
  for (size_t i = 0; i < results.size(); ++i) write_choice(json, i, results[i], true);
  if (as_list_) json.end_array();
  return body;
}

}  // namespace vernier
