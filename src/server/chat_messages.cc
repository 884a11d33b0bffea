#include "server/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace vernier {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null() ? &*found : nullptr;
}

Error missing(const std::string& place, std::string_view expected, const Json* found) {
  if (found == nullptr) return bad_field(place, "{} is missing, expected {}", place, expected);
  return bad_field(place, "{} is {}, expected {}", place, describe_json(*found), expected);
}

Result<std::string> read_part(const Json& part, std::string_view role, const std::string& place) {
  if (!part.is_object()) return missing(place, "an object", &part);
  const Json* type = member(part, "type");
  if (type == nullptr || !type->is_string()) return missing(place + ".type", "a string", type);
  const std::string& kind = type->get_ref<const std::string&>();
  if (kind == "text" || kind == "input_text" || kind == "output_text") {
    const Json* text = member(part, "text");
    if (text == nullptr || !text->is_string()) return missing(place + ".text", "a string", text);
    return text->get<std::string>();
  }
  if (kind == "refusal" && role == "assistant") {
    const Json* text = member(part, "refusal");
    if (text == nullptr || !text->is_string()) return missing(place + ".refusal", "a string", text);
    return text->get<std::string>();
  }
  const std::string where = place + ".type";
  constexpr std::array<std::string_view, 7> kOtherMedia = {"image_url",   "input_audio", "file",     "video_url",
                                                           "input_image", "input_file",  "audio_url"};
  if (std::ranges::find(kOtherMedia, kind) != kOtherMedia.end()) {
    return Error{ErrorCode::kUnsupported, fmt::format("{} is '{}'; this model reads text alone", where, kind), where};
  }
  return bad_field(where, "{} is '{}', expected text", where, kind.substr(0, 40));
}

/// Null stays null: who may leave it out is the role's business.
Result<Json> read_content(const Json& message, std::string_view role, const std::string& place) {
  const Json* content = member(message, "content");
  if (content == nullptr) return Json();
  if (content->is_string()) return *content;
  const std::string where = place + ".content";
  if (!content->is_array()) return missing(where, "a string or an array of parts", content);
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    TRY_BIND(std::string text, read_part((*content)[i], role, fmt::format("{}[{}]", where, i)));
    joined += text;
  }
  return Json(joined);
}

/// The arguments as an object, as templates want them; text that is no JSON object stays text.
Json read_arguments(const Json* arguments) {
  if (arguments == nullptr) return Json::object();
  if (!arguments->is_string()) return *arguments;
  auto parsed = parse_body(arguments->get_ref<const std::string&>());
  if (parsed.ok()) return std::move(parsed).value();
  return *arguments;
}

Result<Json> read_function(const Json* function, const std::string& place) {
  if (function == nullptr || !function->is_object()) return missing(place, "an object", function);
  const Json* name = member(*function, "name");
  if (name == nullptr || !name->is_string()) return missing(place + ".name", "a string", name);
  const Json* arguments = member(*function, "arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    return missing(place + ".arguments", "a string of JSON", arguments);
  }
  return Json{{"name", *name}, {"arguments", read_arguments(arguments)}};
}

/// Puts the calls of an assistant into `out`; none is no key at all.
Status read_calls(const Json& message, const std::string& place, Json& out) {
  Json calls = Json::array();
  if (const Json* given = member(message, "tool_calls")) {
    const std::string where = place + ".tool_calls";
    if (!given->is_array()) return missing(where, "an array", given);
    for (size_t i = 0; i < given->size(); ++i) {
      const Json& call = (*given)[i];
      const std::string at = fmt::format("{}[{}]", where, i);
      if (!call.is_object()) return missing(at, "an object", &call);
      const Json* type = member(call, "type");
      if (type != nullptr && *type != "function") return bad_field(at + ".type", "{}.type is no function", at);
      const Json* id = member(call, "id");
      if (id != nullptr && !id->is_string()) return missing(at + ".id", "a string", id);
      TRY_BIND(Json function, read_function(member(call, "function"), at + ".function"));
      Json entry = {{"type", "function"}, {"function", std::move(function)}};
      if (id != nullptr) entry["id"] = *id;
      calls.push_back(std::move(entry));
    }
  }
  if (const Json* given = member(message, "function_call")) {
    TRY_BIND(Json function, read_function(given, place + ".function_call"));
    calls.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (!calls.empty()) out["tool_calls"] = std::move(calls);
  return {};
}

Status read_assistant(const Json& message, const std::string& place, Json& out) {
  TRY_STATUS(read_calls(message, place, out));
  const Json* refusal = member(message, "refusal");
  if (refusal != nullptr && !refusal->is_string()) return missing(place + ".refusal", "a string", refusal);
  if (out["content"].is_null() && refusal != nullptr) out["content"] = *refusal;
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const Json* reasoning = member(message, name);
    if (reasoning == nullptr || out.contains("reasoning_content")) continue;
    if (!reasoning->is_string()) return missing(place + "." + name, "a string", reasoning);
    out["reasoning_content"] = *reasoning;
  }
  if (out["content"].is_null()) {
    if (!out.contains("tool_calls")) return missing(place + ".content", "a string or an array of parts", nullptr);
    out["content"] = "";
  }
  return {};
}

Result<Json> read_message(const Json& message, const std::string& place, bool keep_developer) {
  if (!message.is_object()) return missing(place, "an object", &message);
  const Json* role = member(message, "role");
  if (role == nullptr || !role->is_string()) return missing(place + ".role", "a string", role);
  std::string name = role->get<std::string>();
  if (std::ranges::find(kRoles, name) == kRoles.end()) {
    return bad_field(place + ".role", "{}.role is '{}', expected {}", place, name.substr(0, 40),
                     fmt::join(kRoles, ", "));
  }
  if (name == "developer" && !keep_developer) name = "system";
  Json out = {{"role", name == "function" ? "tool" : name}};
  TRY_BIND(out["content"], read_content(message, name, place));
  if (const Json* given = member(message, "name")) {
    if (!given->is_string()) return missing(place + ".name", "a string", given);
    out["name"] = *given;
  }
  if (name == "assistant") {
    TRY_STATUS(read_assistant(message, place, out));
    return out;
  }
  if (out["content"].is_null()) return missing(place + ".content", "a string or an array of parts", nullptr);
  if (name == "tool") {
    const Json* id = member(message, "tool_call_id");
    if (id == nullptr || !id->is_string()) return missing(place + ".tool_call_id", "a string", id);
    out["tool_call_id"] = *id;
  }
  if (name == "function" && !out.contains("name")) return missing(place + ".name", "a string", nullptr);
  return out;
}

/// A result names the function that it answers, by the id of the call before it; templates print that name.
void name_results(Json& messages) {
  std::unordered_map<std::string, Json> calls;
  for (Json& message : messages) {
    if (const auto given = message.find("tool_calls"); given != message.end()) {
      for (const Json& call : *given) {
        if (call.contains("id")) calls[call["id"].get<std::string>()] = call["function"]["name"];
      }
    } else if (message["role"] == "tool" && !message.contains("name") && message.contains("tool_call_id")) {
      const auto call = calls.find(message["tool_call_id"].get<std::string>());
      if (call != calls.end()) message["name"] = call->second;
    }
  }
}

}  // namespace

Result<Json> read_messages(const Json& messages, bool keep_developer) {
  if (!messages.is_array() || messages.empty()) {
    return bad_field("messages", "messages is {}, expected at least one message",
                     messages.is_array() ? "empty" : describe_json(messages));
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    TRY_BIND(Json message, read_message(messages[i], fmt::format("messages[{}]", i), keep_developer));
    out.push_back(std::move(message));
  }
  name_results(out);
  return out;
}

std::string last_message_text(const Json& messages) {
  const Json& content = messages.back()["content"];
  return content.is_string() ? content.get<std::string>() : "";
}

}  // namespace vernier
