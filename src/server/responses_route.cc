#include "server/responses_route.h"

#include <fmt/format.h>

#include "server/chat_route.h"
#include "server/responses_writer.h"
#include "server/unique_id.h"

namespace vernier {

std::optional<ApiError> answer_responses(ApiContext& context, const HttpRequest& http,
                                         const std::shared_ptr<ResponseStream>& response) {
  auto body = read_json_body(http);
  if (!body.ok()) return request_error(body.error());
  ResponsesEcho echo;
  auto request = read_responses_request(*body, *context.model, context.options.strict_fields, echo);
  if (!request.ok()) return request_error(request.error());
  ChatStart start;
  start.id = unique_id("resp_");
  start.field = "input";
  start.keep_parts = true;
  start.writer = [&context, id = start.id, echo](const ChatRequest& chat, const Prompt&) {
    return std::make_unique<ResponsesWriter>(*context.model, chat.generation, echo, id, unix_seconds());
  };
  return start_chat(context, http, std::move(*request), std::move(start), response);
}

ApiError no_stored_response(const std::string& id) {
  return ApiError::make(404, fmt::format("the response '{}' is not stored; this server keeps none", id.substr(0, 80)),
                        "response_not_found", "response_id");
}

}  // namespace vernier
