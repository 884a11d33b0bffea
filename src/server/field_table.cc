#include "server/field_table.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr uint16_t kGenerating = kOnChat | kOnText | kOnResponses | kOnSampling;
constexpr uint16_t kTexts = kOnChat | kOnText;
constexpr double kInt32 = 2147483647;

constexpr RequestField field(std::string_view name, FieldType type, uint16_t routes, double low = -kNoUpperBound,
                             double high = kNoUpperBound) {
  return {name, name, type, routes, FieldUse::kHonoured, low, high};
}
constexpr RequestField alias(std::string_view name, std::string_view meaning, FieldType type, uint16_t routes,
                             double low = -kNoUpperBound, double high = kNoUpperBound) {
  return {name, meaning, type, routes, FieldUse::kHonoured, low, high};
}
constexpr RequestField idle(std::string_view name, FieldType type, uint16_t routes) {
  return {name, name, type, routes, FieldUse::kNoEffect, -kNoUpperBound, kNoUpperBound};
}
constexpr RequestField refused(std::string_view name, uint16_t routes) {
  return {name, name, FieldType::kAny, routes, FieldUse::kRefused, -kNoUpperBound, kNoUpperBound};
}

using enum FieldType;
constexpr RequestField kRequestFields[] = {
    field("model", kString, kTexts | kOnResponses | kOnEmbeddings | kOnGenerate | kOnTokenize | kOnDetokenize),
    field("messages", kArray, kOnChat | kOnTokenize),
    field("prompt", kAny, kOnText | kOnTokenize),
    alias("content", "prompt", kString, kOnTokenize),
    alias("text", "prompt", kAny, kOnGenerate),
    alias("text", "prompt", kString, kOnTokenize),
    alias("input_ids", "prompt_ids", kArray, kOnGenerate),
    field("input", kAny, kOnResponses | kOnEmbeddings),
    field("sampling_params", kObject, kOnGenerate),

    // Drawing tokens.
    field("temperature", kNumber, kGenerating, 0, 2),
    field("top_p", kNumber, kGenerating, 0, 1),
    field("top_k", kInteger, kGenerating, -1, kInt32),
    field("min_p", kNumber, kGenerating, 0, 1),
    field("typical_p", kNumber, kGenerating, 0, 1),
    field("frequency_penalty", kNumber, kGenerating, -2, 2),
    field("presence_penalty", kNumber, kGenerating, -2, 2),
    field("repetition_penalty", kNumber, kGenerating, 1e-3, 1e3),
    field("logit_bias", kObject, kGenerating),
    field("allowed_token_ids", kArray, kGenerating),
    field("bad_words", kArray, kGenerating),
    field("seed", kInteger, kGenerating),
    alias("sampling_seed", "seed", kInteger, kOnSampling),
    field("sampler_dialect", kString, kGenerating),

    // Where an answer ends.
    field("max_tokens", kInteger, kOnChat | kOnSampling, 1, kInt32),
    field("max_tokens", kInteger, kOnText, 0, kInt32),
    field("max_completion_tokens", kInteger, kOnChat, 1, kInt32),
    field("max_output_tokens", kInteger, kOnResponses, 1, kInt32),
    alias("max_new_tokens", "max_tokens", kInteger, kTexts | kOnSampling, 1, kInt32),
    field("min_tokens", kInteger, kGenerating, 0, kInt32),
    alias("min_new_tokens", "min_tokens", kInteger, kGenerating, 0, kInt32),
    field("stop", kAny, kGenerating),
    field("stop_token_ids", kArray, kGenerating),
    field("ignore_eos", kBoolean, kGenerating),
    field("include_stop_str_in_output", kBoolean, kGenerating),
    alias("no_stop_trim", "include_stop_str_in_output", kBoolean, kOnSampling),
    field("skip_special_tokens", kBoolean, kGenerating | kOnDetokenize),

    // What comes back.
    field("n", kInteger, kTexts | kOnSampling, 1, 128),
    field("best_of", kInteger, kOnText, 1, 128),
    field("stream", kBoolean, kTexts | kOnResponses | kOnGenerate),
    field("stream_options", kObject, kTexts | kOnResponses),
    field("echo", kBoolean, kOnText),
    field("logprobs", kBoolean, kOnChat),
    field("logprobs", kInteger, kOnText, 0, 20),
    field("top_logprobs", kInteger, kOnChat, 0, 20),
    field("prompt_logprobs", kInteger, kTexts, 0, 20),
    field("logprobs_mode", kString, kTexts),
    field("return_token_ids", kBoolean, kTexts),
    field("return_logprob", kBoolean, kOnGenerate),
    field("top_logprobs_num", kInteger, kOnGenerate, 0, 20),

    // Structure.
    field("response_format", kObject, kTexts),
    field("structured_outputs", kObject, kTexts | kOnResponses),
    field("regex", kString, kGenerating),
    field("grammar", kString, kGenerating),
    alias("ebnf", "grammar", kString, kGenerating),
    field("json_schema", kAny, kOnSampling),
    // Each under its own name, so that two that say the same thing are two that were given.
    field("guided_json", kAny, kGenerating),
    field("guided_regex", kString, kGenerating),
    field("guided_choice", kArray, kGenerating),
    field("guided_grammar", kString, kGenerating),
    field("guided_json_object", kBoolean, kGenerating),
    idle("guided_decoding_backend", kString, kGenerating),
    field("text", kObject, kOnResponses),
    field("tools", kArray, kOnChat | kOnResponses | kOnTokenize),
    field("tool_choice", kAny, kOnChat | kOnResponses),
    field("parallel_tool_calls", kBoolean, kOnChat | kOnResponses),
    field("functions", kArray, kOnChat),
    field("function_call", kAny, kOnChat),
    field("reasoning_effort", kString, kOnChat),
    field("reasoning", kObject, kOnResponses),
    field("instructions", kString, kOnResponses),

    // The prompt.
    field("chat_template_kwargs", kObject, kOnChat | kOnResponses | kOnTokenize),
    field("add_generation_prompt", kBoolean, kOnChat | kOnTokenize),
    field("continue_final_message", kBoolean, kOnChat | kOnTokenize),
    field("documents", kArray, kOnChat),
    field("add_special_tokens", kBoolean, kOnText | kOnTokenize),
    alias("add_special", "add_special_tokens", kBoolean, kOnTokenize),
    field("parse_special", kBoolean, kOnText | kOnGenerate | kOnTokenize),
    field("return_token_strs", kBoolean, kOnTokenize),
    field("tokens", kArray, kOnDetokenize),

    // The engine.
    field("priority", kInteger, kTexts | kOnResponses | kOnGenerate, -kInt32, kInt32),
    field("cache_salt", kString, kTexts | kOnResponses),
    field("request_id", kString, kTexts | kOnResponses),
    alias("rid", "request_id", kString, kTexts | kOnResponses | kOnGenerate),

    // Embeddings.
    field("encoding_format", kString, kOnEmbeddings),
    field("dimensions", kInteger, kOnEmbeddings, 1, kInt32),

    // Facts about the caller, echoed or not, and wishes that change no token.
    field("metadata", kObject, kOnChat | kOnResponses),
    idle("user", kString, kTexts | kOnResponses | kOnEmbeddings),
    idle("safety_identifier", kString, kOnChat | kOnResponses),
    idle("prompt_cache_key", kString, kOnChat | kOnResponses),
    idle("prompt_cache_retention", kAny, kOnChat | kOnResponses),
    idle("service_tier", kString, kOnChat | kOnResponses),
    idle("verbosity", kString, kOnChat),
    idle("prediction", kObject, kOnChat),
    field("store", kBoolean, kOnChat | kOnResponses),
    field("include", kArray, kOnResponses),
    field("truncation", kString, kOnResponses),
    field("max_tool_calls", kInteger, kOnResponses, 1, kInt32),
    field("top_logprobs", kInteger, kOnResponses, 0, 20),
    field("previous_response_id", kString, kOnResponses),

    refused("suffix", kOnText),
    refused("modalities", kOnChat),
    refused("audio", kOnChat),
    refused("web_search_options", kOnChat),
    refused("chat_template", kOnChat | kOnTokenize),
    refused("background", kOnResponses),
    refused("conversation", kOnResponses),
    refused("prompt", kOnResponses),
    refused("use_beam_search", kTexts | kOnSampling),
    refused("input_embeds", kOnGenerate),
    refused("lora_path", kOnGenerate),
    refused("stop_regex", kOnSampling),
    refused("structural_tag", kOnSampling),
    refused("guided_whitespace_pattern", kGenerating),
    refused("token_ids_logprob", kOnGenerate),
    refused("logprob_start_len", kOnGenerate),
};

}  // namespace

std::span<const RequestField> request_fields() {
  return kRequestFields;
}

const RequestField* find_request_field(std::string_view name, FieldRoute route) {
  const auto* found = std::ranges::find_if(
      kRequestFields, [&](const RequestField& row) { return row.name == name && (row.routes & route) != 0; });
  return found != std::end(kRequestFields) ? found : nullptr;
}

bool is_harmless_value(const RequestField& field, const Json& value) {
  if (field.name == "modalities" && value.is_array()) {
    return std::all_of(value.begin(), value.end(), [](const Json& mode) { return mode == "text"; });
  }
  if (field.name == "logprob_start_len") return value == -1;
  if (field.name == "suffix") return value == "";
  return value == false || (value.is_array() && value.empty());
}

}  // namespace vernier
