#include "server/text_writer.h"

#include <algorithm>
#include <functional>
#include <map>
namespace vernier {
namespace {

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// The mean log probability of a choice's tokens.
double score(const ChoiceResult& result) {
  double sum = 0;
  for (const SampledToken& token : result.tokens) sum += token.logprob;
  return result.tokens.empty() ? 0 : sum / static_cast<double>(result.tokens.size());
}

}  // namespace

TextWriter::TextWriter(const ServedModel& model, GenerationSettings settings, TextWriterOptions options)
    : model_(model), settings_(std::move(settings)), options_(std::move(options)) {
  offsets_.resize(options_.prompts.size() * options_.best_of);
}

void TextWriter::write_identity(JsonWriter& json) const {
  json.text("id", options_.id).text("object", "text_completion").integer("created", options_.created_unix_s);
  json.text("model", model_.name()).text("system_fingerprint", model_.fingerprint);
}

void TextWriter::write_logprobs(JsonWriter& json, std::span<const int32_t> prompt, std::span<const SampledToken> scores,
                                std::span<const SampledToken> tokens, int64_t& offset) const {
  std::vector<SampledToken> all;
  for (size_t i = 0; i < prompt.size(); ++i) {
    all.push_back(i > 0 && i - 1 < scores.size() ? scores[i - 1] : SampledToken{prompt[i], 0, {}});
  }
  all.insert(all.end(), tokens.begin(), tokens.end());
  std::vector<std::string> texts;
  for (const SampledToken& token : all) {
    texts.push_back(token_label(*model_.tokenizer, token.token, settings_.skip_special).bytes);
  }
  auto is_first = [&](size_t i) { return i == 0 && !prompt.empty(); };
  json.begin_object().key("tokens").begin_array();
  for (const std::string& text : texts) json.text(text);
  json.end_array().key("token_logprobs").begin_array();
  for (size_t i = 0; i < all.size(); ++i) {
    is_first(i) ? json.null() : json.number(std::min(all[i].logprob, 0.0F));
  }
  json.end_array().key("top_logprobs").begin_array();
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_first(i)) {
      json.null();
      continue;
    }
    std::map<std::string, float> best;
    for (const TokenLogprob& top : all[i].top) {
      best.emplace(token_label(*model_.tokenizer, top.token, settings_.skip_special).text, top.logprob);
    }
    best.emplace(token_label(*model_.tokenizer, all[i].token, settings_.skip_special).text, all[i].logprob);
    json.begin_object();
    for (const auto& [text, logprob] : best) json.named(text).number(std::min(logprob, 0.0F));
    json.end_object();
  }
  json.end_array().key("text_offset").begin_array();
  for (const std::string& text : texts) {
    json.integer(offset);
    offset += characters(text);
  }
  json.end_array().end_object();
}

void TextWriter::add_piece(EventStream& events, const Piece& piece) {
  std::string chunk;
  JsonWriter json(chunk);
  json.begin_object();
  write_identity(json);
  json.key("choices").begin_array().begin_object().integer("index", static_cast<int64_t>(piece.choice));
  json.text("text", piece.text).key("logprobs");
  const bool echoes = piece.begun != nullptr && options_.echo;
  const std::span<const int32_t> prompt =
      echoes ? std::span(options_.prompts[piece.choice / options_.best_of]) : std::span<const int32_t>();
  if (settings_.top_logprobs >= 0 && !(prompt.empty() && piece.tokens.empty())) {
    write_logprobs(json, prompt, echoes ? piece.begun->prompt : std::span<const SampledToken>(), piece.tokens,
                   offsets_[piece.choice]);
  } else {
    json.null();
  }
  if (settings_.token_ids) {
    json.key("token_ids");
    write_token_ids(json, piece.tokens);
  }
  if (piece.begun != nullptr && settings_.prompt_logprobs >= 0) {
    json.key("prompt_logprobs");
    write_prompt_logprobs(json, *model_.tokenizer, piece.begun->prompt);
  }
  json.key("finish_reason");
  if (piece.ended != nullptr) {
    json.text(answer_end_name(piece.ended->end));
    write_stop_reason(json, *piece.ended, settings_.stop_tokens);
  } else {
    json.null();
  }
  json.end_object().end_array();
  if (options_.usage_in_stream) json.null("usage");
  if (piece.ended != nullptr) {
    json.key("timings");
    write_timings(json, std::span(piece.ended, 1));
  }
  json.end_object();
  events.add(chunk);
}

void TextWriter::begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) {
  if (!options_.echo && settings_.prompt_logprobs < 0) return;
  const std::string_view text = options_.echo ? options_.prompt_texts[choice / options_.best_of] : std::string_view();
  add_piece(events, {.choice = choice, .text = text, .begun = &so_far});
  offsets_[choice] = characters(text);
}

void TextWriter::step(EventStream& events, const ChoiceStep& step) {
  add_piece(events, {.choice = step.choice, .text = step.delta->text, .tokens = step.tokens});
}

void TextWriter::end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                            std::span<const SampledToken> tokens) {
  add_piece(events, {.choice = choice, .tokens = tokens, .ended = &result});
}

void TextWriter::end_stream(EventStream& events, std::span<const ChoiceResult> results) {
  if (options_.usage_in_stream) {
    std::string chunk;
    JsonWriter json(chunk);
    json.begin_object();
    write_identity(json);
    json.key("choices").begin_array().end_array().key("usage");
    write_usage(json, results, options_.best_of);
    json.end_object();
    events.add(chunk);
  }
  events.done();
}

std::vector<const ChoiceResult*> TextWriter::best_of_prompt(std::span<const ChoiceResult> results,
                                                            size_t prompt) const {
  std::vector<const ChoiceResult*> choices;
  for (size_t i = 0; i < options_.best_of; ++i) choices.push_back(&results[prompt * options_.best_of + i]);
  const auto told = static_cast<size_t>(settings_.choices);
  if (told < choices.size()) {
    std::ranges::stable_sort(choices, std::greater<>(), [](const ChoiceResult* result) { return score(*result); });
    choices.resize(told);
  }
  return choices;
}

void TextWriter::write_choice(JsonWriter& json, size_t index, size_t prompt, const ChoiceResult& result) const {
  const std::string echo = options_.echo ? options_.prompt_texts[prompt] : "";
  json.begin_object().integer("index", static_cast<int64_t>(index)).text("text", echo + result.answer.content);
  json.key("logprobs");
  if (settings_.top_logprobs >= 0) {
    int64_t offset = 0;
    const std::span<const int32_t> tokens =
        options_.echo ? std::span(options_.prompts[prompt]) : std::span<const int32_t>();
    write_logprobs(json, tokens, result.prompt, result.tokens, offset);
  } else {
    json.null();
  }
  json.text("finish_reason", answer_end_name(result.end));
  write_stop_reason(json, result, settings_.stop_tokens);
  if (settings_.token_ids) {
    json.key("token_ids");
    write_token_ids(json, result.tokens);
    json.key("prompt_token_ids");
    write_token_ids(json, options_.prompts[prompt]);
  }
  if (settings_.prompt_logprobs >= 0) {
    json.key("prompt_logprobs");
    write_prompt_logprobs(json, *model_.tokenizer, result.prompt);
  }
  json.end_object();
}

std::string TextWriter::whole(std::span<const ChoiceResult> results) {
  std::string body;
  JsonWriter json(body);
  json.begin_object();
  write_identity(json);
  json.key("choices").begin_array();
  size_t index = 0;
  for (size_t prompt = 0; prompt < options_.prompts.size(); ++prompt) {
    for (const ChoiceResult* result : best_of_prompt(results, prompt)) write_choice(json, index++, prompt, *result);
  }
  json.end_array().key("usage");
  write_usage(json, results, options_.best_of);
  json.key("timings");
  write_timings(json, results);
  json.end_object();
  return body;
}

}  // namespace vernier
