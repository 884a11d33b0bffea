#include "server/text_route.h"

#include <fmt/format.h>

#include "server/chat_request.h"
#include "server/generate_writer.h"
#include "server/text_writer.h"
#include "server/unique_id.h"

namespace vernier {
namespace {

/// What /v1/completions and /generate ask for.
struct TextRequest {
  GenerationSettings generation;
  std::vector<Prompt> prompts;
  std::string prompt_field;
  std::optional<Constraint> constraint;
  bool stream = false;
  bool usage_in_stream = false;
  bool echo = false;
  size_t best_of = 1;
  std::vector<std::string> ignored;
};

Status read_scoring(const Fields& fields, TextRequest& request) {
  GenerationSettings& generation = request.generation;
  request.echo = fields.flag("echo");
  if (const auto logprobs = fields.integer("logprobs")) generation.top_logprobs = static_cast<int32_t>(*logprobs);
  generation.default_max_tokens = std::max(16, generation.min_tokens);
  if (generation.max_tokens == 0 && !request.echo) {
    return bad_field(generation.max_tokens_field, "{} is 0, expected at least 1 unless echo is true",
                     generation.max_tokens_field);
  }
  if (request.echo && generation.top_logprobs >= 0)
    generation.prompt_logprobs = std::max(generation.prompt_logprobs, generation.top_logprobs);
  request.best_of = static_cast<size_t>(fields.integer("best_of").value_or(generation.choices));
  if (request.best_of < static_cast<size_t>(generation.choices)) {
    return bad_field("best_of", "best_of is {}, expected at least n, {}", request.best_of, generation.choices);
  }
  if (request.stream && request.best_of > static_cast<size_t>(generation.choices)) {
    return bad_field("best_of", "best_of picks among whole answers; leave stream out");
  }
  return {};
}

Result<TextRequest> read_text_request(const Json& body, const ApiContext& context) {
  const ServedModel& model = *context.model;
  TRY_BIND(Fields fields, Fields::check(body, kOnText, context.options.strict_fields));
  TRY_STATUS(check_model_name(fields, model, true));
  TextRequest request;
  request.prompt_field = "prompt";
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return bad_field("prompt", "prompt is missing, expected text or token ids");
  TextPromptOptions options{fields.flag("add_special_tokens", true), fields.flag("parse_special")};
  TRY_BIND(request.prompts,
           read_prompts(model, *prompt, "prompt", options, static_cast<size_t>(context.options.max_choices)));
  TRY_BIND(request.generation, read_generation(fields, model));
  TRY_STATUS(read_stream_options(fields, request.stream, request.usage_in_stream));
  TRY_STATUS(read_scoring(fields, request));
  TRY_BIND(request.constraint, read_constraint(fields));
  request.ignored = fields.ignored();
  return request;
}

Result<TextRequest> read_generate_request(const Json& body, const ApiContext& context) {
  const ServedModel& model = *context.model;
  TRY_BIND(Fields fields, Fields::check(body, kOnGenerate, context.options.strict_fields));
  TRY_STATUS(check_model_name(fields, model, false));
  const Json* given = fields.find("sampling_params");
  const Json empty = Json::object();
  TRY_BIND(Fields sampling, Fields::check(given != nullptr ? *given : empty, kOnSampling, context.options.strict_fields,
                                          "sampling_params."));
  TextRequest request;
  const bool by_ids = fields.has("prompt_ids");
  if (by_ids == fields.has("prompt")) return bad_field("text", "expected one of text and input_ids");
  request.prompt_field = by_ids ? "input_ids" : "text";
  TRY_BIND(request.prompts,
           read_prompts(model, *fields.find(by_ids ? "prompt_ids" : "prompt"), request.prompt_field,
                        {true, fields.flag("parse_special")}, static_cast<size_t>(context.options.max_choices)));
  TRY_BIND(request.generation, read_generation(sampling, model));
  GenerationSettings& generation = request.generation;
  generation.default_max_tokens = std::max(128, generation.min_tokens);
  generation.max_tokens_field = "sampling_params.max_new_tokens";
  generation.request_id = fields.text("request_id").value_or("");
  generation.priority = static_cast<int32_t>(fields.integer("priority").value_or(0));
  const auto top = static_cast<int32_t>(fields.integer("top_logprobs_num").value_or(0));
  if (fields.flag("return_logprob")) generation.top_logprobs = top;
  request.best_of = static_cast<size_t>(generation.choices);
  TRY_BIND(request.constraint, read_constraint(sampling));
  request.stream = fields.flag("stream");
  request.ignored = fields.ignored();
  request.ignored.insert(request.ignored.end(), sampling.ignored().begin(), sampling.ignored().end());
  return request;
}

std::vector<Request> engine_requests(const ServedModel& model, const TextRequest& request, const HttpRequest& http,
                                     const std::string& id, const std::shared_ptr<const CompiledGrammar>& grammar) {
  std::vector<Request> choices;
  for (const Prompt& prompt : request.prompts) {
    for (size_t i = 0; i < request.best_of; ++i) {
      Request choice = engine_request(model, request.generation, prompt, grammar);
      choice.choice = static_cast<uint32_t>(i);
      choice.fair_share_key = fair_share_key(http);
      if (choice.name.empty()) choice.name = id;
      if (request.best_of > static_cast<size_t>(request.generation.choices))
        choice.top_logprobs = std::max(0, choice.top_logprobs);
      choices.push_back(std::move(choice));
    }
  }
  return choices;
}

/// Checks what holds for both routes and starts the answer.
std::optional<ApiError> start_text(ApiContext& context, const HttpRequest& http, TextRequest& request,
                                   const std::string& id, std::unique_ptr<ReplyWriter> writer,
                                   const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  request.generation.deadline_ns = request_deadline_ns(context, http);
  const auto limit = static_cast<size_t>(context.options.max_choices);
  if (request.prompts.size() * request.best_of > limit) {
    return ApiError::make(
        400,
        fmt::format("{} prompts of {} choices each are more than {}", request.prompts.size(), request.best_of, limit),
        "invalid_value", request.prompt_field);
  }
  for (const Prompt& prompt : request.prompts) {
    if (auto refusal = check_context(model, request.generation, prompt.tokens.size(), request.prompt_field))
      return refusal;
  }
  std::shared_ptr<const CompiledGrammar> grammar;
  if (request.constraint && model.script == nullptr) {
    if (auto refusal = context.readiness.refusal(Capability::kStructuredOutput)) return refusal;
    if (request.stream) EventStream(response).begin(ignored_header(request.ignored));
    auto compiled = compile_constraint(model, *request.constraint, false, [&] { return !response->gone(); });
    if (!compiled.ok()) return request_error(compiled.error());
    grammar = std::move(compiled).value();
  }
  AnswerOptions options;
  options.id = request.generation.request_id.empty() ? id : request.generation.request_id;
  options.stream = request.stream;
  options.reader.stops = request.generation.stops;
  options.reader.include_stop = request.generation.include_stop;
  options.reader.skip_special = request.generation.skip_special;
  options.reader.min_tokens = request.generation.min_tokens;
  if (request.constraint) options.constraint_field = request.constraint->field;
  options.choices_of_prompt = request.best_of;
  options.headers = ignored_header(request.ignored);
  options.received_ns = http.received_ns;
  std::vector<Request> choices = engine_requests(model, request, http, id, grammar);
  auto answer = std::make_shared<Answer>(model, *context.metrics, std::move(options), std::move(writer), response);
  context.running.add(answer);
  answer->start(std::move(choices));
  return std::nullopt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const ServedModel& model, const Json& value, const std::string& place,
                                         const TextPromptOptions& options, size_t limit) {
  std::vector<Prompt> prompts;
  auto add_tokens = [&](const Json& array) -> Status {
    TRY_BIND(std::vector<int32_t> tokens, read_token_ids(array, place, model.vocabulary()));
    TRY_BIND(Prompt prompt, token_prompt(model, std::move(tokens)));
    prompts.push_back(std::move(prompt));
    return {};
  };
  auto add_text = [&](const Json& text) -> Status {
    TRY_BIND(Prompt prompt, text_prompt(model, text.get<std::string>(), options));
    prompts.push_back(std::move(prompt));
    return {};
  };
  if (value.is_string()) {
    TRY_STATUS(add_text(value));
  } else if (value.is_array() && !value.empty() && value.front().is_number()) {
    TRY_STATUS(add_tokens(value));
  } else if (value.is_array() && !value.empty()) {
    if (value.size() > limit)
      return bad_field(place, "{} holds {} prompts, expected {} at most", place, value.size(), limit);
    for (const Json& item : value) {
      if (item.is_string() != value.front().is_string() || !(item.is_string() || item.is_array())) {
        return bad_field(place, "{} mixes texts and token ids or holds neither", place);
      }
      TRY_STATUS(item.is_string() ? add_text(item) : add_tokens(item));
    }
  } else {
    return bad_field(place, "{} is {}, expected a string, strings, token ids or arrays of token ids", place,
                     value.is_array() ? "empty" : describe_json(value));
  }
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens.empty()) return bad_field(place, "{} has a prompt without any token", place);
  }
  return prompts;
}

std::optional<ApiError> answer_text(ApiContext& context, const HttpRequest& http,
                                    const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto request = read_text_request(*body, context);
  if (!request.ok()) return request_error(request.error());
  TextWriterOptions options;
  options.id = "cmpl-" + (request->generation.request_id.empty() ? unique_id("") : request->generation.request_id);
  options.created_unix_s = unix_seconds();
  options.usage_in_stream = request->usage_in_stream;
  options.echo = request->echo;
  options.best_of = request->best_of;
  for (const Prompt& prompt : request->prompts) {
    options.prompts.push_back(prompt.tokens);
    options.prompt_texts.push_back(prompt.text);
  }
  const std::string id = options.id;
  auto writer = std::make_unique<TextWriter>(*context.model, request->generation, std::move(options));
  return start_text(context, http, *request, id, std::move(writer), response);
}

std::optional<ApiError> answer_generate(ApiContext& context, const HttpRequest& http,
                                        const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto request = read_generate_request(*body, context);
  if (!request.ok()) return request_error(request.error());
  const std::string id = request->generation.request_id.empty() ? unique_id("") : request->generation.request_id;
  const bool as_list =
      request->prompts.size() > 1 || request->best_of > 1 || (body->contains("text") && (*body)["text"].is_array());
  auto writer = std::make_unique<GenerateWriter>(*context.model, request->generation, id, as_list);
  return start_text(context, http, *request, id, std::move(writer), response);
}

}  // namespace vernier
