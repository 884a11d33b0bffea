#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/constraint.h"
#include "server/generation_settings.h"
#include "server/prompt.h"
#include "server/tool_settings.h"
#include "text/output_reader.h"

namespace vernier {

/// A conversation to answer, typed and checked: what chat and, in its own words, the Responses API ask for.
struct ChatRequest {
  GenerationSettings generation;
  ToolSettings tools;
  std::optional<Constraint> constraint;  ///< tools included
  ChatPromptInput prompt;                ///< `tools` is set where it is rendered
  bool stream = false;
  bool usage_in_stream = false;
  std::vector<std::string> ignored;  ///< fields for the answer's header
};

/// The body of /v1/chat/completions.
Result<ChatRequest> read_chat_request(const Json& body, const ServedModel& model, bool strict);

/// One call at most where one function is named, and where the model has no form of calls of its own and so does not
/// know when it has made enough of them.
void limit_forced_calls(const ServedModel& model, ToolSettings& tools);

/// chat_template_kwargs. One that the request's own fields set is refused; one that the template does not name is
/// listed as ignored.
Result<Json> read_template_variables(Fields& fields, const ServedModel& model);

/// Lists what forced calls or a format leave without effect: see with_tools.
void note_unenforced(Fields& fields, const std::optional<Constraint>& constraint, const ToolSettings& tools);

/// `stream` and `stream_options`.
Status read_stream_options(Fields& fields, bool& stream, bool& usage_in_stream);

Result<Prompt> render_chat(const ServedModel& model, ChatRequest& request);

/// How the answer to that prompt is read.
OutputReaderOptions chat_reader(const ServedModel& model, const ChatRequest& request, const Prompt& prompt);

}  // namespace vernier
