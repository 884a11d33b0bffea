#include "server/nested_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vernier {
namespace {

/// One kind of object within a body. `path` begins at the body; "[]" is each element.
struct NestedObject {
  std::string_view path;
  uint16_t routes;
  std::string_view members;
};

constexpr std::string_view kPart = "type text refusal";
constexpr uint16_t kMessages = kOnChat | kOnTokenize;

constexpr NestedObject kNestedObjects[] = {
    {".messages[]", kMessages, "role content name"},
    {".messages[].content[]", kMessages, kPart},
    {".messages[].tool_calls[]", kMessages, "id type function"},
    {".messages[].tool_calls[].function", kMessages, "name arguments"},
    {".messages[].function_call", kMessages, "name arguments"},
    {".tools[]", kMessages, "type function"},
    {".tools[]", kOnResponses, "type name description parameters strict"},
    {".tool_choice", kOnChat, "type function allowed_tools"},
    {".tool_choice", kOnResponses, "type name mode tools"},
    {".function_call", kOnChat, "name"},
    {".stream_options", kOnChat | kOnText | kOnResponses, "include_usage include_obfuscation"},
    {".response_format", kOnChat | kOnText, "type json_schema"},
    {".response_format.json_schema", kOnChat | kOnText, "name schema strict"},
    {".text", kOnResponses, "format verbosity"},
    {".text.format", kOnResponses, "type name schema strict"},
    {".reasoning", kOnResponses, "effort summary"},
    {".input[]", kOnResponses, "type role content summary call_id name arguments output id status"},
    {".input[].content[]", kOnResponses, kPart},
    {".input[].summary[]", kOnResponses, kPart},
    {".input[].output[]", kOnResponses, kPart},
};

bool lists(std::string_view members, std::string_view name) {
  while (!members.empty()) {
    const std::string_view member = members.substr(0, members.find(' '));
    if (member == name) return true;
    members.remove_prefix(std::min(members.size(), member.size() + 1));
  }
  return false;
}

std::string_view members_of_role(const Json& message) {
  const auto role = message.find("role");
  if (role == message.end()) return "";
  if (*role == "assistant") return "tool_calls function_call refusal reasoning_content reasoning thinking";
  return *role == "tool" ? "tool_call_id" : "";
}

bool is_given(const Json& value) {
  return !value.is_null() && !(value.is_array() && value.empty());
}

/// Of an assistant, one text stands for its reasoning, and a refusal where there is no other content.
void note_doubles(const Json& message, const std::string& place, std::vector<std::string>& unknown) {
  auto given = [&](const char* name) {
    const auto found = message.find(name);
    return found != message.end() && is_given(*found);
  };
  bool reasons = false;
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    if (given(name) && std::exchange(reasons, true)) unknown.push_back(place + "." + name);
  }
  if (given("content") && given("refusal")) unknown.push_back(place + ".refusal");
}

void visit(const Json& value, std::string_view path, const std::string& place, const NestedObject& row,
           std::vector<std::string>& unknown) {
  if (path.starts_with("[]")) {
    if (!value.is_array()) return;
    for (size_t i = 0; i < value.size(); ++i) {
      visit(value[i], path.substr(2), fmt::format("{}[{}]", place, i), row, unknown);
    }
    return;
  }
  if (!value.is_object()) return;
  if (!path.empty()) {
    const std::string name(path.substr(1, path.find_first_of(".[", 1) - 1));
    const auto member = value.find(name);
    if (member == value.end()) return;
    return visit(*member, path.substr(1 + name.size()), place.empty() ? name : place + "." + name, row, unknown);
  }
  const bool message = row.path == ".messages[]";
  const std::string_view more = message ? members_of_role(value) : "";
  for (const auto& [name, given] : value.items()) {
    if (is_given(given) && !lists(row.members, name) && !lists(more, name)) unknown.push_back(place + "." + name);
  }
  if (message && !more.empty()) note_doubles(value, place, unknown);
}

}  // namespace

std::vector<std::string> unknown_members(const Json& body, FieldRoute route) {
  std::vector<std::string> unknown;
  for (const NestedObject& row : kNestedObjects) {
    if ((row.routes & route) != 0) visit(body, row.path, "", row, unknown);
  }
  return unknown;
}

}  // namespace vernier
