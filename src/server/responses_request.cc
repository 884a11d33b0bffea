#include "server/responses_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/chat_messages.h"

namespace vernier {
namespace {

std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Joins items to messages.
class ItemReader {
 public:
  Status add(const Json& item, const std::string& place) {
    if (!item.is_object()) return bad_field(place, "{} is {}, expected an object", place, describe_json(item));
    std::string type = text_member(item, "type");
    if (type.empty() && item.contains("role")) type = "message";
    if (type == "message") return add_message(item, place);
    if (type == "reasoning") return add_reasoning(item);
    if (type == "function_call") return add_call(item, place);
    if (type == "function_call_output") return add_output(item, place);
    if (type == "item_reference") {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{} refers to a stored item, and nothing is stored here", place), place};
    }
    return bad_field(place + ".type",
                     "{}.type is '{}', expected message, reasoning, function_call or function_call_output", place,
                     type.substr(0, 40));
  }

  Json take() {
    close();
    return std::move(messages_);
  }

 private:
  Status add_message(const Json& item, const std::string& place) {
    const std::string role = text_member(item, "role");
    if (role == "tool" || role == "function") {
      return bad_field(place + ".role", "{}.role is '{}', expected user, assistant, system or developer", place, role);
    }
    Json message = {{"role", item.contains("role") ? item["role"] : Json()},
                    {"content", item.contains("content") ? item["content"] : Json()}};
    if (role != "assistant") {
      close();
      messages_.push_back(std::move(message));
      return {};
    }
    if (open_ && (pending_.contains("tool_calls") || pending_.contains("content"))) close();
    open_ = true;
    pending_["content"] = message["content"];
    return {};
  }

  Status add_reasoning(const Json& item) {
    if (open_ && (pending_.contains("tool_calls") || pending_.contains("content"))) close();
    open_ = true;
    std::string text = text_member(pending_, "reasoning_content");
    for (const char* list : {"content", "summary"}) {
      if (!item.contains(list) || !item[list].is_array()) continue;
      std::string joined;
      for (const Json& part : item[list]) {
        if (part.is_object()) joined += text_member(part, "text");
      }
      if (joined.empty()) continue;
      text += joined;
      break;
    }
    if (!text.empty()) pending_["reasoning_content"] = text;
    return {};
  }

  Status add_call(const Json& item, const std::string& place) {
    for (const char* name : {"call_id", "name", "arguments"}) {
      if (!item.contains(name) || !item[name].is_string()) {
        return bad_field(fmt::format("{}.{}", place, name), "{}.{} is no string", place, name);
      }
    }
    open_ = true;
    if (!pending_.contains("tool_calls")) pending_["tool_calls"] = Json::array();
    pending_["tool_calls"].push_back({{"id", item["call_id"]},
                                      {"type", "function"},
                                      {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
    return {};
  }

  Status add_output(const Json& item, const std::string& place) {
    if (text_member(item, "call_id").empty()) return bad_field(place + ".call_id", "{}.call_id is missing", place);
    if (!item.contains("output") || !(item["output"].is_string() || item["output"].is_array())) {
      return bad_field(place + ".output", "{}.output is neither a string nor an array", place);
    }
    close();
    messages_.push_back({{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", item["output"]}});
    return {};
  }

  void close() {
    if (!open_) return;
    Json message = {{"role", "assistant"}};
    message.update(pending_);
    if (!message.contains("content") && !message.contains("tool_calls")) message["content"] = "";
    messages_.push_back(std::move(message));
    pending_ = Json::object();
    open_ = false;
  }

  Json messages_ = Json::array();
  Json pending_ = Json::object();  // the assistant's message that items still join
  bool open_ = false;
};

Status read_input(Fields& fields, const ServedModel& model, ChatPromptInput& prompt, ResponsesEcho& echo) {
  const Json* input = fields.find("input");
  if (input == nullptr) return bad_field("input", "input is missing, expected a string or items");
  TRY_BIND(Json items, messages_of_items(*input));
  if (const auto instructions = fields.text("instructions")) {
    echo.instructions = *instructions;
    const bool has_system = items.front()["role"] == "system" || items.front()["role"] == "developer";
    if (has_system && items.front()["content"].is_string()) {
      items.front()["content"] = *instructions + "\n\n" + items.front()["content"].get<std::string>();
    } else {
      items.insert(items.begin(), Json{{"role", "developer"}, {"content", *instructions}});
    }
  }
  auto messages = read_messages(items, model.format == OutputFormat::kHarmony);
  if (!messages.ok()) {
    return Error{messages.error().code, messages.error().message, "input"};
  }
  prompt.messages = std::move(*messages);
  TRY_BIND(prompt.variables, read_template_variables(fields, model));
  return {};
}

Result<ToolSettings> read_flat_tools(const Fields& fields, ResponsesEcho& echo) {
  Json chat = Json::object();
  if (const Json* tools = fields.find("tools")) {
    TRY_BIND(chat["tools"], chat_form_of_tools(*tools));
    for (const Json& tool : chat["tools"]) {
      const Json& function = tool["function"];
      Json flat = {{"type", "function"}};
      for (const char* key : {"name", "description", "parameters", "strict"}) {
        flat[key] = function.contains(key) ? function[key] : Json();
      }
      echo.tools.push_back(std::move(flat));
    }
  }
  if (const Json* choice = fields.find("tool_choice")) {
    echo.tool_choice = *choice;
    chat["tool_choice"] = chat_form_of_choice(*choice);
  }
  echo.parallel_tool_calls = fields.flag("parallel_tool_calls", true);
  chat["parallel_tool_calls"] = echo.parallel_tool_calls;
  TRY_BIND(Fields chat_fields, Fields::check(chat, kOnChat, false));
  return read_tools(chat_fields);
}

Result<std::optional<Constraint>> read_text_field(Fields& fields, ResponsesEcho& echo) {
  const Json* text = fields.find("text");
  echo.text = text != nullptr ? *text : Json::object();
  if (!echo.text.contains("format") || echo.text["format"].is_null()) echo.text["format"] = {{"type", "text"}};
  if (echo.text.contains("verbosity") && !echo.text["verbosity"].is_null()) fields.ignore("text.verbosity");
  TRY_BIND(std::optional<Constraint> by_text, read_text_format(echo.text["format"], "text.format"));
  TRY_BIND(std::optional<Constraint> by_field, read_constraint(fields));
  if (by_text && by_field)
    return bad_field("text.format", "text.format and {} both say what the answer must look like", by_field->field);
  return by_text ? std::move(by_text) : std::move(by_field);
}

Status read_reasoning(Fields& fields, const ServedModel& model, ChatPromptInput& prompt, ResponsesEcho& echo) {
  echo.reasoning = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* reasoning = fields.find("reasoning");
  if (reasoning == nullptr) return {};
  for (const char* key : {"effort", "summary"}) {
    if (reasoning->contains(key)) echo.reasoning[key] = (*reasoning)[key];
  }
  const Json& effort = echo.reasoning["effort"];
  if (!effort.is_null() && !effort.is_string()) return bad_field("reasoning.effort", "reasoning.effort is no string");
  if (effort.is_string()) prompt.reasoning_effort = effort.get<std::string>();
  TRY_STATUS(check_reasoning_effort(prompt.reasoning_effort, "reasoning.effort"));
  if (!honours_effort(model, prompt.reasoning_effort)) fields.ignore("reasoning.effort");
  if (!echo.reasoning["summary"].is_null()) fields.ignore("reasoning.summary");
  return {};
}

/// What is known to clients and concerns stored responses, or has no effect on this one.
Status read_the_rest(Fields& fields, GenerationSettings& generation, ResponsesEcho& echo) {
  if (const Json* metadata = fields.find("metadata")) echo.metadata = *metadata;
  if (generation.max_tokens) echo.max_output_tokens = *generation.max_tokens;
  if (const Json* include = fields.find("include")) {
    for (const Json& what : *include) {
      if (!what.is_string()) return bad_field("include", "include holds {}, expected strings", describe_json(what));
      if (what == "message.output_text.logprobs") {
        generation.top_logprobs = 0;
      } else {
        fields.ignore("include." + what.get<std::string>());
      }
    }
  }
  if (const auto top = fields.integer("top_logprobs")) generation.top_logprobs = static_cast<int32_t>(*top);
  if (const auto truncation = fields.text("truncation")) {
    if (*truncation != "auto" && *truncation != "disabled") {
      return bad_field("truncation", "truncation is '{}', expected auto or disabled", truncation->substr(0, 40));
    }
    if (*truncation == "auto") fields.ignore("truncation");
  }
  if (fields.flag("store")) fields.ignore("store");
  if (fields.has("max_tool_calls")) fields.ignore("max_tool_calls");
  return {};
}

}  // namespace

Result<Json> messages_of_items(const Json& input) {
  if (input.is_string()) return Json::array({Json{{"role", "user"}, {"content", input}}});
  if (!input.is_array() || input.empty()) {
    return bad_field("input", "input is {}, expected a string or at least one item",
                     input.is_array() ? "empty" : describe_json(input));
  }
  ItemReader reader;
  for (size_t i = 0; i < input.size(); ++i) TRY_STATUS(reader.add(input[i], fmt::format("input[{}]", i)));
  return reader.take();
}

Result<ChatRequest> read_responses_request(const Json& body, const ServedModel& model, bool strict,
                                           ResponsesEcho& echo) {
  TRY_BIND(Fields fields, Fields::check(body, kOnResponses, strict));
  TRY_STATUS(check_model_name(fields, model, true));
  if (const auto previous = fields.text("previous_response_id")) {
    return bad_field("previous_response_id", "the response '{}' is not stored here; send its output back as input",
                     previous->substr(0, 80));
  }
  ChatRequest request;
  TRY_STATUS(read_input(fields, model, request.prompt, echo));
  TRY_BIND(request.generation, read_generation(fields, model));
  TRY_STATUS(read_stream_options(fields, request.stream, request.usage_in_stream));
  TRY_STATUS(check_metadata(fields));
  TRY_BIND(request.tools, read_flat_tools(fields, echo));
  limit_forced_calls(model, request.tools);
  TRY_BIND(std::optional<Constraint> constraint, read_text_field(fields, echo));
  note_unenforced(fields, constraint, request.tools);
  request.constraint = with_tools(std::move(constraint), request.tools);
  TRY_STATUS(read_reasoning(fields, model, request.prompt, echo));
  TRY_STATUS(read_the_rest(fields, request.generation, echo));
  request.ignored = fields.ignored();
  return request;
}

}  // namespace vernier
