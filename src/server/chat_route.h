#pragma once

#include "server/api_context.h"
#include "server/chat_request.h"

namespace vernier {

/// POST /v1/chat/completions.
std::optional<ApiError> answer_chat(ApiContext& context, const HttpRequest& request,
                                    const std::shared_ptr<ResponseStream>& response);

/// Renders a conversation, makes its grammar and starts its choices; `writer` says in which words they are told.
/// `field` is what the prompt came from ("messages", "input"). Shared with the Responses API.
struct ChatStart {
  std::string id;
  std::string field;
  bool keep_parts = false;
  std::function<std::unique_ptr<ReplyWriter>(const ChatRequest&, const Prompt&)> writer;
};
std::optional<ApiError> start_chat(ApiContext& context, const HttpRequest& http, ChatRequest request, ChatStart start,
                                   const std::shared_ptr<ResponseStream>& response);

}  // namespace vernier
