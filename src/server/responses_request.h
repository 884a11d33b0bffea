#pragma once

#include <string>
#include <vector>

#include "server/chat_request.h"

namespace vernier {

/// What an answer of the Responses API repeats of its request.
struct ResponsesEcho {
  Json instructions, metadata = Json::object(), tools = Json::array(), tool_choice = "auto", text, reasoning;
  Json max_output_tokens;
  bool parallel_tool_calls = true;
};

/// The body of /v1/responses as a conversation. Nothing is stored: what refers to a stored response is refused.
Result<ChatRequest> read_responses_request(const Json& body, const ServedModel& model, bool strict,
                                           ResponsesEcho& echo);

/// Items as messages: reasoning and calls join the assistant's message that they belong to.
Result<Json> messages_of_items(const Json& input);

}  // namespace vernier
