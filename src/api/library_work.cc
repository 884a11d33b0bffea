#include "api/library_work.h"

#include <cmath>
#include <limits>
#include <random>

#include "api/c_text.h"
#include "base/clock.h"
#include "server/api_context.h"
#include "server/chat_messages.h"
#include "server/chat_request.h"
#include "text/utf8.h"

namespace vernier {
namespace {

constexpr float kUnset = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kUnsetCount = std::numeric_limits<int32_t>::min();
constexpr int32_t kMostLogprobs = 20;

uint64_t drawn_seed() {
  thread_local std::mt19937_64 entropy(std::random_device{}());
  return entropy();
}

Status check_count(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument("{} is {}, expected {} to {}", name, value, least, most);
}

Status check_array(const char* name, const void* array, size_t count) {
  if (array != nullptr || count == 0) return {};
  return invalid_argument("{} is null and its count is {}", name, count);
}

Result<Json> parse_option(const char* name, const char* text, Json::value_t type, const char* expected) {
  auto wrapped = parse_body("{\"option\":" + std::string(text) + "}");
  if (!wrapped.ok() || wrapped->size() != 1)
    return invalid_argument("{} is not valid JSON, expected {}", name, expected);
  Json value = std::move((*wrapped)["option"]);
  if (value.type() == type) return value;
  return invalid_argument("{} is {}, expected {}", name, describe_json(value), expected);
}

Result<Json> read_typed_messages(const vernier_request_options& options) {
  TRY_STATUS(check_array("messages", options.messages, options.message_count));
  Json messages = Json::array();
  for (size_t i = 0; i < options.message_count; ++i) {
    const vernier_message& message = options.messages[i];
    const std::string_view role = c_text(message.role);
    const std::string_view content = c_text(message.content, message.content_size);
    if (!is_valid_utf8(role) || !is_valid_utf8(content)) return invalid_argument("messages[{}] is not valid UTF-8", i);
    messages.push_back({{"role", role}, {"content", content}});
  }
  return messages;
}

Result<ToolSettings> read_tool_options(const vernier_request_options& options) {
  Json body = Json::object();
  if (options.tools_json != nullptr) {
    TRY_BIND(body["tools"], parse_option("tools_json", options.tools_json, Json::value_t::array, "an array of tools"));
  }
  if (options.tool_choice != nullptr) {
    const std::string choice(options.tool_choice);
    if (!is_valid_utf8(choice)) return invalid_argument("tool_choice is not valid UTF-8");
    const bool word = choice == "auto" || choice == "none" || choice == "required";
    body["tool_choice"] = word ? Json(choice) : Json{{"type", "function"}, {"function", {{"name", choice}}}};
  }
  TRY_BIND(Fields fields, Fields::check(body, kOnChat, true));
  return read_tools(fields);
}

/// What of a chat says what to answer, but for its generation settings.
Result<ChatRequest> read_chat(const ServedModel& model, const vernier_request_options& options) {
  ChatRequest chat;
  Json messages;
  if (options.messages_json != nullptr) {
    TRY_BIND(messages,
             parse_option("messages_json", options.messages_json, Json::value_t::array, "an array of messages"));
  } else {
    TRY_BIND(messages, read_typed_messages(options));
  }
  TRY_BIND(chat.prompt.messages, read_messages(messages, model.format == OutputFormat::kHarmony));
  if (options.variables_json != nullptr) {
    TRY_BIND(chat.prompt.variables,
             parse_option("variables_json", options.variables_json, Json::value_t::object, "an object of variables"));
  }
  TRY_BIND(chat.tools, read_tool_options(options));
  limit_forced_calls(model, chat.tools);
  return chat;
}

bool is_chat(const vernier_request_options& options) {
  return options.message_count > 0 || options.messages_json != nullptr;
}

Status check_prompt_choice(const vernier_request_options& options) {
  const int given = (options.token_count > 0 ? 1 : 0) + (options.text != nullptr ? 1 : 0) +
                    (options.message_count > 0 ? 1 : 0) + (options.messages_json != nullptr ? 1 : 0);
  if (given == 1) return {};
  return invalid_argument("{} of tokens, text, messages and messages_json are given, expected one", given);
}

Result<Prompt> plain_prompt(const ServedModel& model, const vernier_request_options& options) {
  if (options.tools_json != nullptr) return invalid_argument("tools_json needs messages");
  if (options.text != nullptr) {
    return text_prompt(model, std::string(c_text(options.text, options.text_size)),
                       {options.add_special != 0, options.parse_special != 0});
  }
  TRY_STATUS(check_array("tokens", options.tokens, options.token_count));
  return token_prompt(model, {options.tokens, options.tokens + options.token_count});
}

Status read_drawing(const vernier_request_options& options, const ServedModel& model, SamplingParams& sampling) {
  sampling = model.sampling;
  for (auto [given, field] : {std::pair{options.temperature, &sampling.temperature},
                              {options.top_p, &sampling.top_p},
                              {options.min_p, &sampling.min_p},
                              {options.typical_p, &sampling.typical_p},
                              {options.repetition_penalty, &sampling.repetition_penalty},
                              {options.frequency_penalty, &sampling.frequency_penalty},
                              {options.presence_penalty, &sampling.presence_penalty}}) {
    if (!std::isnan(given)) *field = given;
  }
  if (options.top_k != kUnsetCount) sampling.top_k = options.top_k;
  sampling.seed = options.seed < 0 ? drawn_seed() : static_cast<uint64_t>(options.seed);
  TRY_STATUS(check_array("logit_bias", options.logit_bias, options.logit_bias_count));
  for (size_t i = 0; i < options.logit_bias_count; ++i) {
    sampling.logit_bias.emplace_back(options.logit_bias[i].token, options.logit_bias[i].bias);
  }
  return sampling.check(model.vocabulary());
}

Result<GenerationSettings> read_settings(const vernier_request_options& options, const ServedModel& model) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  GenerationSettings settings;
  TRY_STATUS(read_drawing(options, model, settings.sampling));
  TRY_STATUS(check_count("max_tokens", options.max_tokens, -1, kMost));
  TRY_STATUS(check_count("min_tokens", options.min_tokens, 0, kMost));
  TRY_STATUS(check_count("top_logprobs", options.top_logprobs, -1, kMostLogprobs));
  TRY_STATUS(check_count("deadline_ms", options.deadline_ms, 0, int64_t{1} << 40));
  if (options.max_tokens >= 0) settings.max_tokens = options.max_tokens;
  settings.min_tokens = options.min_tokens;
  TRY_STATUS(check_array("stops", options.stops, options.stop_count));
  for (size_t i = 0; i < options.stop_count; ++i) settings.stops.emplace_back(c_text(options.stops[i]));
  settings.ignore_end_tokens = options.ignore_end_tokens != 0;
  settings.top_logprobs = options.top_logprobs;
  settings.priority = options.priority;
  settings.cache_salt = options.cache_salt;
  return settings;
}

Result<std::optional<Constraint>> read_constraint_option(const vernier_request_options& options) {
  if (options.constraint == VERNIER_FREE) return std::optional<Constraint>{};
  Constraint constraint;
  constraint.field = "constraint";
  constraint.spec.text = c_text(options.constraint_text);
  switch (options.constraint) {
    case VERNIER_JSON_OBJECT:
      constraint.spec.kind = GrammarSpec::Kind::kJsonObject;
      constraint.spec.text.clear();
      return std::optional(std::move(constraint));
    case VERNIER_JSON_SCHEMA:
      constraint.spec.kind = GrammarSpec::Kind::kJsonSchema;
      break;
    case VERNIER_REGEX:
      constraint.spec.kind = GrammarSpec::Kind::kRegex;
      break;
    case VERNIER_GRAMMAR:
      constraint.spec.kind = GrammarSpec::Kind::kEbnf;
      break;
    default:
      return invalid_argument("constraint is {}, expected {} to {}", static_cast<int>(options.constraint),
                              static_cast<int>(VERNIER_FREE), static_cast<int>(VERNIER_GRAMMAR));
  }
  if (!is_valid_utf8(constraint.spec.text)) return invalid_argument("constraint_text is not valid UTF-8");
  if (constraint.spec.text.empty()) return invalid_argument("constraint_text is missing, and constraint asks for it");
  return std::optional(std::move(constraint));
}

Result<RequestKind> read_kind(const vernier_request_options& options) {
  switch (options.kind) {
    case VERNIER_GENERATE:
      return RequestKind::kGenerate;
    case VERNIER_EMBED_LAST:
      return RequestKind::kEmbedLast;
    case VERNIER_EMBED_MEAN:
      return RequestKind::kEmbedMean;
  }
  return invalid_argument("kind is {}, expected {} to {}", static_cast<int>(options.kind),
                          static_cast<int>(VERNIER_GENERATE), static_cast<int>(VERNIER_EMBED_MEAN));
}

OutputReaderOptions plain_reader(const GenerationSettings& settings) {
  OutputReaderOptions reader;
  reader.stops = settings.stops;
  reader.min_tokens = settings.min_tokens;
  return reader;
}

}  // namespace

vernier_request_options default_request_options() {
  vernier_request_options options{};
  options.struct_size = sizeof(vernier_request_options);
  options.add_special = 1;
  options.temperature = options.top_p = options.min_p = options.typical_p = kUnset;
  options.repetition_penalty = options.frequency_penalty = options.presence_penalty = kUnset;
  options.top_k = kUnsetCount;
  options.seed = -1;
  options.max_tokens = -1;
  options.top_logprobs = -1;
  return options;
}

Result<Prompt> library_prompt(const ServedModel& model, const vernier_request_options& options) {
  TRY_STATUS(check_prompt_choice(options));
  if (!is_chat(options)) return plain_prompt(model, options);
  TRY_BIND(ChatRequest chat, read_chat(model, options));
  return render_chat(model, chat);
}

Result<LibraryWork> library_work(const ServedModel& model, const vernier_request_options& options) {
  TRY_BIND(const RequestKind kind, read_kind(options));
  TRY_STATUS(check_prompt_choice(options));
  TRY_BIND(GenerationSettings settings, read_settings(options, model));
  TRY_BIND(std::optional<Constraint> constraint, read_constraint_option(options));
  LibraryWork work;
  Prompt prompt;
  if (is_chat(options)) {
    TRY_BIND(ChatRequest chat, read_chat(model, options));
    chat.generation = settings;
    constraint = with_tools(std::move(constraint), chat.tools);
    TRY_BIND(prompt, render_chat(model, chat));
    work.reader = chat_reader(model, chat, prompt);
  } else {
    TRY_BIND(prompt, plain_prompt(model, options));
    work.reader = plain_reader(settings);
  }
  // A prompt that fills the context is refused by the engine, which names both numbers.
  const int32_t rest = model.context_tokens() - static_cast<int32_t>(prompt.tokens.size());
  if (!settings.max_tokens) settings.max_tokens = std::max(1, rest);
  std::shared_ptr<const CompiledGrammar> grammar;
  if (constraint && kind == RequestKind::kGenerate) {
    TRY_BIND(grammar, compile_constraint(model, std::move(*constraint), prompt.opens_reasoning));
  }
  work.request = engine_request(model, settings, prompt, std::move(grammar));
  work.request.kind = kind;
  if (options.deadline_ms > 0) work.request.deadline_ns = monotonic_ns() + options.deadline_ms * 1'000'000;
  return work;
}

}  // namespace vernier
