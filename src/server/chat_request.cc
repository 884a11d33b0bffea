#include "server/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/chat_messages.h"

namespace vernier {
namespace {

Status read_logprobs(const Fields& fields, GenerationSettings& generation) {
  const bool wanted = fields.flag("logprobs");
  const auto top = fields.integer("top_logprobs");
  if (top && !wanted) return bad_field("top_logprobs", "top_logprobs needs logprobs to be true");
  if (wanted) generation.top_logprobs = static_cast<int32_t>(top.value_or(0));
  return {};
}

Status read_prompt(Fields& fields, const ServedModel& model, ChatPromptInput& prompt) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) return bad_field("messages", "messages is missing, expected at least one message");
  TRY_BIND(prompt.messages, read_messages(*messages, model.format == OutputFormat::kHarmony));
  prompt.continue_final_message = fields.flag("continue_final_message");
  prompt.add_generation_prompt = fields.flag("add_generation_prompt", !prompt.continue_final_message);
  if (prompt.continue_final_message && prompt.add_generation_prompt) {
    return bad_field("continue_final_message",
                     "continue_final_message and add_generation_prompt exclude each other; set one of them to false");
  }
  TRY_BIND(prompt.variables, read_template_variables(fields, model));
  if (const Json* documents = fields.find("documents")) prompt.documents = *documents;
  prompt.reasoning_effort = fields.text("reasoning_effort");
  TRY_STATUS(check_reasoning_effort(prompt.reasoning_effort, "reasoning_effort"));
  if (!honours_effort(model, prompt.reasoning_effort)) fields.ignore("reasoning_effort");
  return {};
}

}  // namespace

Result<Json> read_template_variables(Fields& fields, const ServedModel& model) {
  constexpr std::array<std::string_view, 4> kOwn = {"messages", "tools", "documents", "add_generation_prompt"};
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return Json(Json::object());
  for (const auto& [name, value] : variables->items()) {
    const std::string place = "chat_template_kwargs." + name;
    if (std::ranges::find(kOwn, name) != kOwn.end()) {
      return bad_field(place, "{} is a variable that the request's other fields set; give the field {}", place, name);
    }
    const bool shown = model.format != OutputFormat::kHarmony && model.chat_template != nullptr &&
                       model.chat_template->source().find(name) != std::string::npos;
    if (!shown) fields.ignore(place);
  }
  return *variables;
}

void note_unenforced(Fields& fields, const std::optional<Constraint>& constraint, const ToolSettings& tools) {
  if (!constraint || tools.callable.empty()) return;
  if (tools.forced()) {
    fields.ignore(constraint->field);
  } else if (std::ranges::find(tools.strict, true) != tools.strict.end()) {
    fields.ignore(tools.legacy ? "functions.strict" : "tools.strict");
  }
}

void limit_forced_calls(const ServedModel& model, ToolSettings& tools) {
  if (!tools.forced()) return;
  if (tools.choice == ToolChoice::kNamed || model.tool_format != model.format) tools.parallel = false;
}

Status read_stream_options(Fields& fields, bool& stream, bool& usage_in_stream) {
  stream = fields.flag("stream");
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return {};
  if (!stream) return bad_field("stream_options", "stream_options needs stream to be true");
  for (const auto& [key, value] : options->items()) {
    const std::string place = "stream_options." + key;
    if (key != "include_usage" && key != "include_obfuscation") continue;
    if (!value.is_boolean() && !value.is_null()) {
      return bad_field(place, "{} is {}, expected true or false", place, describe_json(value));
    }
    if (key == "include_usage") usage_in_stream = value == true;
    if (key == "include_obfuscation" && value == true) fields.ignore(place);
  }
  return {};
}

Result<ChatRequest> read_chat_request(const Json& body, const ServedModel& model, bool strict) {
  TRY_BIND(Fields fields, Fields::check(body, kOnChat, strict));
  TRY_STATUS(check_model_name(fields, model, true));
  ChatRequest request;
  TRY_STATUS(read_prompt(fields, model, request.prompt));
  TRY_BIND(request.generation, read_generation(fields, model));
  TRY_STATUS(read_logprobs(fields, request.generation));
  TRY_STATUS(read_stream_options(fields, request.stream, request.usage_in_stream));
  TRY_STATUS(check_metadata(fields));
  TRY_BIND(request.tools, read_tools(fields));
  limit_forced_calls(model, request.tools);
  TRY_BIND(std::optional<Constraint> constraint, read_constraint(fields));
  note_unenforced(fields, constraint, request.tools);
  request.constraint = with_tools(std::move(constraint), request.tools);
  if (fields.has("metadata")) fields.ignore("metadata");
  if (fields.flag("store")) fields.ignore("store");
  request.ignored = fields.ignored();
  return request;
}

Result<Prompt> render_chat(const ServedModel& model, ChatRequest& request) {
  request.prompt.tools = &request.tools;
  return chat_prompt(model, request.prompt);
}

OutputReaderOptions chat_reader(const ServedModel& model, const ChatRequest& request, const Prompt& prompt) {
  OutputReaderOptions reader;
  reader.format = request.tools.callable.empty() ? model.format : model.tool_format;
  reader.parser.tools = request.tools.callable;
  reader.parser.reasoning = model.parse_reasoning;
  reader.parser.prompt_opens_reasoning = prompt.opens_reasoning;
  reader.parser.parallel_calls = request.tools.parallel;
  reader.stops = request.generation.stops;
  reader.include_stop = request.generation.include_stop;
  reader.skip_special = request.generation.skip_special;
  reader.min_tokens = request.generation.min_tokens;
  return reader;
}

}  // namespace vernier
