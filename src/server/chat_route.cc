#include "server/chat_route.h"

#include "server/chat_writer.h"
#include "server/unique_id.h"

namespace vernier {

std::optional<ApiError> start_chat(ApiContext& context, const HttpRequest& http, ChatRequest request, ChatStart start,
                                   const std::shared_ptr<ResponseStream>& response) {
  const ServedModel& model = *context.model;
  request.generation.deadline_ns = request_deadline_ns(context, http);
  auto prompt = render_chat(model, request);
  if (!prompt.ok()) return request_error(prompt.error());
  if (auto refusal = check_context(model, request.generation, prompt->tokens.size(), start.field)) return refusal;
  std::shared_ptr<const CompiledGrammar> grammar;
  if (request.constraint && prompt->script == nullptr) {
    if (auto refusal = context.readiness.refusal(Capability::kStructuredOutput)) return refusal;
    // Compiling may take seconds, in which a stream is to be kept alive.
    if (request.stream) EventStream(response).begin(ignored_header(request.ignored));
    auto compiled =
        compile_constraint(model, *request.constraint, prompt->opens_reasoning, [&] { return !response->gone(); });
    if (!compiled.ok()) return request_error(compiled.error());
    grammar = std::move(compiled).value();
  }
  AnswerOptions options;
  options.id = request.generation.request_id.empty() ? start.id : request.generation.request_id;
  options.stream = request.stream;
  options.keep_parts = start.keep_parts;
  options.reader = chat_reader(model, request, *prompt);
  if (request.constraint) options.constraint_field = request.constraint->field;
  options.choices_of_prompt = static_cast<size_t>(request.generation.choices);
  options.headers = ignored_header(request.ignored);
  options.received_ns = http.received_ns;
  std::vector<Request> choices;
  for (int32_t i = 0; i < request.generation.choices; ++i) {
    Request choice = engine_request(model, request.generation, *prompt, grammar);
    choice.choice = static_cast<uint32_t>(i);
    choice.fair_share_key = fair_share_key(http);
    if (choice.name.empty()) choice.name = start.id;
    choices.push_back(std::move(choice));
  }
  auto answer =
      std::make_shared<Answer>(model, *context.metrics, std::move(options), start.writer(request, *prompt), response);
  context.running.add(answer);
  answer->start(std::move(choices));
  return std::nullopt;
}

std::optional<ApiError> answer_chat(ApiContext& context, const HttpRequest& http,
                                    const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  auto request = read_chat_request(*body, *context.model, context.options.strict_fields);
  if (!request.ok()) return request_error(request.error());
  ChatStart start;
  start.id =
      request->generation.request_id.empty() ? unique_id("chatcmpl-") : "chatcmpl-" + request->generation.request_id;
  start.field = "messages";
  start.writer = [&context, id = start.id](const ChatRequest& chat, const Prompt& prompt) {
    ChatWriterOptions options;
    options.id = id;
    options.created_unix_s = unix_seconds();
    options.usage_in_stream = chat.usage_in_stream;
    options.legacy_call = chat.tools.legacy;
    if (chat.generation.token_ids) options.prompt = prompt.tokens;
    return std::make_unique<ChatWriter>(*context.model, chat.generation, std::move(options));
  };
  return start_chat(context, http, std::move(*request), std::move(start), response);
}

}  // namespace vernier
