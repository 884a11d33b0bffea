#include "server/tool_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "text/harmony_prompt.h"

namespace vernier {
namespace {

constexpr size_t kMaxTools = 128;

bool is_function_name(std::string_view name) {
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, fits);
}

bool is_absent(const Json& object, const char* name) {
  return !object.contains(name) || object[name].is_null();
}

Status read_function(const Json& function, const std::string& place, ToolSettings& settings) {
  if (!function.is_object()) return bad_field(place, "{} is {}, expected an object", place, describe_json(function));
  const std::string where = place + ".name";
  if (is_absent(function, "name") || !function["name"].is_string() ||
      !is_function_name(function["name"].get_ref<const std::string&>())) {
    return bad_field(where, "{} is {}, expected 1 to 64 letters, digits, _ or -", where,
                     function.contains("name") ? function["name"].dump().substr(0, 80) : "missing");
  }
  OutputTool tool{function["name"].get<std::string>(), nullptr};
  if (!is_absent(function, "parameters")) {
    if (!function["parameters"].is_object()) {
      return bad_field(place + ".parameters", "{}.parameters is {}, expected a JSON schema", place,
                       describe_json(function["parameters"]));
    }
    tool.parameters = function["parameters"];
  }
  if (!is_absent(function, "description") && !function["description"].is_string()) {
    return bad_field(place + ".description", "{}.description is no string", place);
  }
  if (!is_absent(function, "strict") && !function["strict"].is_boolean()) {
    return bad_field(place + ".strict", "{}.strict is neither true nor false", place);
  }
  for (const OutputTool& other : settings.callable) {
    if (other.name == tool.name) return bad_field(where, "{} is '{}' a second time", where, tool.name);
  }
  settings.strict.push_back(!is_absent(function, "strict") && function["strict"].get<bool>());
  settings.callable.push_back(std::move(tool));
  settings.prompt_tools.push_back({{"type", "function"}, {"function", function}});
  return {};
}

Status read_list(const Fields& fields, ToolSettings& settings) {
  settings.legacy = !fields.has("tools") && fields.has("functions");
  const char* name = settings.legacy ? "functions" : "tools";
  const Json* list = fields.find(name);
  if (list == nullptr) return {};
  if (list->size() > kMaxTools)
    return bad_field(name, "{} has {} entries, expected {} at most", name, list->size(), kMaxTools);
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& tool = (*list)[i];
    const std::string place = fmt::format("{}[{}]", name, i);
    if (settings.legacy) {
      TRY_STATUS(read_function(tool, place, settings));
      continue;
    }
    if (!tool.is_object()) return bad_field(place, "{} is {}, expected an object", place, describe_json(tool));
    if (is_absent(tool, "type") || tool["type"] != "function") {
      return bad_field(place + ".type", "{}.type is {}, expected \"function\"", place,
                       tool.contains("type") ? tool["type"].dump().substr(0, 80) : "missing");
    }
    TRY_STATUS(read_function(tool.contains("function") ? tool["function"] : Json(), place + ".function", settings));
  }
  return {};
}

std::optional<std::string> named_function(const Json& choice) {
  if (!choice.is_object() || choice.value("type", Json()) != "function" || !choice.contains("function"))
    return std::nullopt;
  const Json& function = choice["function"];
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) return std::nullopt;
  return function["name"].get<std::string>();
}

Error bad_choice(const std::string& place, const Json& choice) {
  return bad_field(place, "{} is {}, expected none, auto, required, a function or allowed_tools", place,
                   choice.dump().substr(0, 120));
}

bool is_callable(const ToolSettings& settings, std::string_view name) {
  return std::ranges::any_of(settings.callable, [&](const OutputTool& tool) { return tool.name == name; });
}

Status apply_named(const std::string& place, const std::string& name, ToolSettings& settings) {
  if (!is_callable(settings, name))
    return bad_field(place, "{} names '{}', which is none of the tools", place, name.substr(0, 80));
  settings.choice = ToolChoice::kNamed;
  settings.named = name;
  return {};
}

/// Keeps those that may be called; the prompt shows all of them.
Status apply_allowed(const std::string& place, const Json& choice, ToolSettings& settings) {
  if (!choice.contains("allowed_tools") || !choice["allowed_tools"].is_object()) return bad_choice(place, choice);
  const Json& allowed = choice["allowed_tools"];
  const Json mode = allowed.value("mode", Json("auto"));
  if ((mode != "auto" && mode != "required") || !allowed.contains("tools") || !allowed["tools"].is_array()) {
    return bad_choice(place, choice);
  }
  std::set<std::string> names;
  for (const Json& tool : allowed["tools"]) {
    const auto name = named_function(tool);
    if (!name || !is_callable(settings, *name)) {
      return bad_field(place, "{} allows {}, which is none of the tools", place, tool.dump().substr(0, 120));
    }
    names.insert(*name);
  }
  std::vector<OutputTool> callable;
  std::vector<bool> strict;
  for (size_t i = 0; i < settings.callable.size(); ++i) {
    if (!names.contains(settings.callable[i].name)) continue;
    callable.push_back(settings.callable[i]);
    strict.push_back(settings.strict[i]);
  }
  settings.callable = std::move(callable);
  settings.strict = std::move(strict);
  if (mode == "required") {
    if (settings.callable.empty()) return bad_field(place, "{} requires a call and allows no tool", place);
    settings.choice = ToolChoice::kRequired;
  }
  return {};
}

Status read_choice(const Fields& fields, ToolSettings& settings) {
  const std::string place = settings.legacy ? "function_call" : "tool_choice";
  const Json* choice = fields.find(place);
  if (choice == nullptr || *choice == "auto") return {};
  if (*choice == "none") {
    settings.callable.clear();
    settings.strict.clear();
    settings.prompt_tools.clear();
    return {};
  }
  const bool by_name =
      settings.legacy && choice->is_object() && choice->contains("name") && (*choice)["name"].is_string();
  const std::optional<std::string> name =
      by_name ? std::optional((*choice)["name"].get<std::string>()) : named_function(*choice);
  const bool allowed = choice->is_object() && choice->value("type", Json()) == "allowed_tools";
  if (*choice != "required" && !name && !allowed) return bad_choice(place, *choice);
  if (settings.callable.empty()) return bad_field(place, "{} asks for a call, and the request has no tools", place);
  if (name) return apply_named(place, *name, settings);
  if (allowed) return apply_allowed(place, *choice, settings);
  settings.choice = ToolChoice::kRequired;
  return {};
}

}  // namespace

Result<ToolSettings> read_tools(const Fields& fields) {
  ToolSettings settings;
  TRY_STATUS(read_list(fields, settings));
  settings.parallel = fields.flag("parallel_tool_calls", true) && !settings.legacy;
  TRY_STATUS(read_choice(fields, settings));
  return settings;
}

Result<Json> chat_form_of_tools(const Json& tools) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json& tool = tools[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object()) return bad_field(place, "{} is {}, expected an object", place, describe_json(tool));
    Json function = Json::object();
    for (const char* key : {"name", "description", "parameters", "strict"}) {
      if (tool.contains(key) && !tool[key].is_null()) function[key] = tool[key];
    }
    Json entry = {{"function", std::move(function)}};
    if (tool.contains("type")) entry["type"] = tool["type"];
    out.push_back(std::move(entry));
  }
  return out;
}

Json chat_form_of_choice(const Json& choice) {
  if (!choice.is_object()) return choice;
  if (choice.value("type", Json()) == "function" && choice.contains("name")) {
    return {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
  }
  if (choice.value("type", Json()) == "allowed_tools" && choice.contains("tools") && choice["tools"].is_array()) {
    Json tools = Json::array();
    for (const Json& tool : choice["tools"]) tools.push_back(chat_form_of_choice(tool));
    return {{"type", "allowed_tools"},
            {"allowed_tools", {{"mode", choice.value("mode", Json("auto"))}, {"tools", std::move(tools)}}}};
  }
  return choice;
}

std::string describe_tools(const Json& tools) {
  // Declarations take a third of the tokens of JSON schemas; what they leave out the grammar of a forced call enforces.
  return "You can call functions.\n\n" + harmony_functions(tools) +
         "\n\nTo call one, answer with <tool_call>{\"name\": NAME, \"arguments\": {...}}</tool_call>.";
}

}  // namespace vernier
