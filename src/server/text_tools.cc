#include "server/text_tools.h"

#include <fmt/format.h>

#include "server/chat_messages.h"
#include "server/chat_request.h"
#include "server/json_writer.h"

namespace vernier {
namespace {

Result<Prompt> prompt_to_tokenize(const ServedModel& model, Fields& fields) {
  if (const Json* messages = fields.find("messages")) {
    ChatPromptInput input;
    TRY_BIND(input.messages, read_messages(*messages, model.format == OutputFormat::kHarmony));
    TRY_BIND(ToolSettings tools, read_tools(fields));
    input.tools = &tools;
    input.continue_final_message = fields.flag("continue_final_message");
    input.add_generation_prompt = fields.flag("add_generation_prompt", !input.continue_final_message);
    TRY_BIND(input.variables, read_template_variables(fields, model));
    return chat_prompt(model, input);
  }
  const auto text = fields.text("prompt");
  if (!text) return bad_field("prompt", "expected a text in prompt (or text, or content), or messages");
  Prompt prompt;
  prompt.text = *text;
  EncodeOptions options{.add_special = fields.flag("add_special_tokens", true),
                        .parse_special = fields.flag("parse_special")};
  const ByteRange whole{0, text->size()};
  if (!options.parse_special && !text->empty()) options.caller_ranges = std::span(&whole, 1);
  TRY_BIND(prompt.tokens, model.tokenizer->encode(*text, options));
  return prompt;
}

void write_tokens(JsonWriter& json, const std::vector<int32_t>& tokens) {
  json.key("tokens").begin_array();
  for (int32_t token : tokens) json.integer(token);
  json.end_array();
}

}  // namespace

std::optional<ApiError> tokenize(ApiContext& context, const HttpRequest& http,
                                 const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto fields = Fields::check(*body, kOnTokenize, context.options.strict_fields);
  if (!fields.ok()) return request_error(fields.error());
  if (Status known = check_model_name(*fields, model, false); !known.ok()) return request_error(known.error());
  auto prompt = prompt_to_tokenize(model, *fields);
  if (!prompt.ok()) return request_error(prompt.error());
  std::string out;
  JsonWriter json(out);
  json.begin_object().integer("count", static_cast<int64_t>(prompt->tokens.size()));
  json.integer("max_model_len", model.context_tokens());
  write_tokens(json, prompt->tokens);
  if (fields->flag("return_token_strs")) {
    json.key("token_strs").begin_array();
    for (int32_t token : prompt->tokens) json.text(model.tokenizer->token_text(token).value_or(""));
    json.end_array();
  }
  json.end_object();
  HttpResponse answer = HttpResponse::json(std::move(out));
  for (const auto& [name, value] : ignored_header(fields->ignored())) answer.headers.add(name, value);
  response->send(std::move(answer));
  return std::nullopt;
}

std::optional<ApiError> detokenize(ApiContext& context, const HttpRequest& http,
                                   const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto fields = Fields::check(*body, kOnDetokenize, context.options.strict_fields);
  if (!fields.ok()) return request_error(fields.error());
  if (Status known = check_model_name(*fields, model, false); !known.ok()) return request_error(known.error());
  const Json* given = fields->find("tokens");
  if (given == nullptr) return request_error(bad_field("tokens", "tokens is missing, expected token ids"));
  auto tokens = read_token_ids(*given, "tokens", model.vocabulary());
  if (!tokens.ok()) return request_error(tokens.error());
  const std::string text = model.tokenizer->decode(*tokens, fields->flag("skip_special_tokens"));
  std::string out;
  JsonWriter(out).begin_object().text("prompt", text).text("content", text).end_object();
  HttpResponse answer = HttpResponse::json(std::move(out));
  for (const auto& [name, value] : ignored_header(fields->ignored())) answer.headers.add(name, value);
  response->send(std::move(answer));
  return std::nullopt;
}

std::optional<ApiError> apply_template(ApiContext& context, const HttpRequest& http,
                                       const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  if (!body->contains("model")) (*body)["model"] = context.model->name();
  auto request = read_chat_request(*body, *context.model, context.options.strict_fields);
  if (!request.ok()) return request_error(request.error());
  auto prompt = render_chat(*context.model, *request);
  if (!prompt.ok()) return request_error(prompt.error());
  std::string out;
  JsonWriter json(out);
  json.begin_object().text("prompt", prompt->text).integer("count", static_cast<int64_t>(prompt->tokens.size()));
  write_tokens(json, prompt->tokens);
  json.end_object();
  HttpResponse answer = HttpResponse::json(std::move(out));
  for (const auto& [name, value] : ignored_header(request->ignored)) answer.headers.add(name, value);
  response->send(std::move(answer));
  return std::nullopt;
}

std::optional<ApiError> abort_request(ApiContext& context, const HttpRequest& http,
                                      const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  const Json id = body->value("rid", Json());
  const bool all = body->value("abort_all", Json()) == true;
  if (!all && !id.is_string())
    return request_error(bad_field("rid", "expected the id of a request in rid, or abort_all: true"));
  const size_t aborted = all ? context.running.abort_all() : context.running.abort(id.get<std::string>());
  std::string out;
  JsonWriter(out).begin_object().integer("aborted", static_cast<int64_t>(aborted)).end_object();
  response->send(HttpResponse::json(std::move(out)));
  return std::nullopt;
}

}  // namespace vernier
