#include "text/chat_template.h"

#include <algorithm>
#include <array>

#include "text/jinja_unicode.h"

namespace vernier {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
// Names that a message's reasoning is passed under; templates read the first, some the second.
constexpr std::array<const char*, 3> kReasoningFields = {"reasoning_content", "thinking", "reasoning"};

const OrderedJson* field(const OrderedJson& message, const std::string& name) {
  const auto found = message.find(name);
  return found == message.end() || found->is_null() ? nullptr : &*found;
}

/// The message without its null fields and with its reasoning under both names.
OrderedJson normalized(const OrderedJson& message) {
  OrderedJson kept = OrderedJson::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) kept[key] = value;
  }
  const OrderedJson* reasoning = nullptr;
  for (const char* name : kReasoningFields) {
    if (reasoning == nullptr) reasoning = field(kept, name);
  }
  if (reasoning == nullptr) return kept;
  const OrderedJson text = *reasoning;
  OrderedJson made = OrderedJson::object();
  made["thinking"] = text;
  for (const auto& [key, value] : kept.items()) made[key] = value;
  made["reasoning_content"] = text;
  return made;
}

Status check_list(const std::optional<OrderedJson>& list, const char* name) {
  if (!list.has_value()) return {};
  if (!list->is_array()) return invalid_argument("found '{}' that is not a list, expected a list of objects", name);
  for (const OrderedJson& item : *list) {
    if (!item.is_object()) return invalid_argument("found an entry of '{}' that is not an object", name);
  }
  return {};
}

/// Python's strip.
std::string_view stripped(std::string_view text, bool left = true) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!jinja::is_space(jinja::next_code(text, next))) break;
    begin = next;
  }
  while (end > begin) {
    size_t start = end;
    jinja::step_back(text, start);
    size_t next = start;
    if (!jinja::is_space(jinja::next_code(text, next))) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

void cut(Rendered& rendered, size_t size) {
  rendered.text.resize(size);
  while (!rendered.caller_ranges.empty() && rendered.caller_ranges.back().begin >= size)
    rendered.caller_ranges.pop_back();
  if (!rendered.caller_ranges.empty()) {
    rendered.caller_ranges.back().end = std::min(rendered.caller_ranges.back().end, size);
  }
}

/// Appends the tag to the field that goes on, in all its copies; returns the text before it.
Result<std::string> tag_final_message(OrderedJson& message, const std::string& name, std::string_view source) {
  const OrderedJson* found = field(message, name);
  if (found == nullptr) {
    return invalid_argument("continue_final_message: the final message has no '{}' to continue", name);
  }
  const OrderedJson final_message = *found;
  std::vector<std::string> fields = {name};
  if (std::find(kReasoningFields.begin(), kReasoningFields.end(), name) != kReasoningFields.end()) {
    fields.clear();
    for (const char* copy : kReasoningFields) {
      const OrderedJson* other = field(message, copy);
      if (other != nullptr && *other == final_message) fields.emplace_back(copy);
    }
  }
  const bool read = std::any_of(fields.begin(), fields.end(),
                                [&](const std::string& copy) { return source.find(copy) != std::string_view::npos; });
  if (!read) return invalid_argument("continue_final_message: the chat template does not read '{}'", name);
  if (final_message.is_string()) {
    std::string text = final_message.get<std::string>();
    for (const std::string& copy : fields) message[copy] = text + std::string(kContinueTag);
    return text;
  }
  if (!final_message.is_array()) {
    return invalid_argument("continue_final_message: '{}' of the final message is neither text nor parts", name);
  }
  OrderedJson& parts = message[name];
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->is_object() || !part->contains("text") || !(*part)["text"].is_string()) continue;
    std::string text = (*part)["text"].get<std::string>();
    (*part)["text"] = text + std::string(kContinueTag);
    return text;
  }
  return invalid_argument("continue_final_message: no text to continue in the final message");
}

Status cut_at_tag(Rendered& rendered, const std::string& final_text) {
  const std::string_view tag = stripped(kContinueTag);
  const size_t at = rendered.text.rfind(tag);
  if (at == std::string::npos || rendered.text.find(stripped(final_text)) == std::string::npos) {
    return invalid_argument(
        "continue_final_message: the final message does not appear in the rendered chat; the chat template may delete "
        "parts of it");
  }
  const bool kept = std::string_view(rendered.text).substr(at, kContinueTag.size()) == kContinueTag;
  cut(rendered, at);
  // A template that trims the tag trims the message too.
  if (!kept) cut(rendered, stripped(rendered.text, false).size());
  return {};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  TRY_BIND(JinjaTemplate parsed, JinjaTemplate::parse(source));
  return ChatTemplate(std::move(source), std::move(parsed));
}

Result<Rendered> ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages.is_array() || input.messages.empty()) {
    return invalid_argument("found no messages, expected a list of at least one");
  }
  if (input.continue_final_message.has_value() && input.add_generation_prompt) {
    return invalid_argument("continue_final_message and add_generation_prompt exclude each other: leave one out");
  }
  TRY_STATUS(check_list(input.messages, "messages"));
  TRY_STATUS(check_list(input.tools, "tools"));
  TRY_STATUS(check_list(input.documents, "documents"));
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& message : input.messages) messages.push_back(normalized(message));
  std::string final_text;
  if (input.continue_final_message.has_value()) {
    TRY_BIND(final_text, tag_final_message(messages.back(), *input.continue_final_message, source_));
  }
  const OrderedJson none, prompt = input.add_generation_prompt;
  std::vector<std::pair<std::string, OrderedJson>> tokens(input.special_tokens.begin(), input.special_tokens.end());
  std::vector<JinjaTemplate::Variable> variables;
  for (const auto& [name, value] : tokens) variables.push_back({name, &value, false});
  for (const auto& [name, value] : input.variables.items()) variables.push_back({name, &value, true});
  variables.push_back({"messages", &messages, true});
  variables.push_back({"tools", input.tools.has_value() ? &*input.tools : &none, true});
  variables.push_back({"documents", input.documents.has_value() ? &*input.documents : &none, true});
  variables.push_back({"add_generation_prompt", &prompt, false});
  TRY_BIND(Rendered rendered, template_.render(variables, input.now));
  if (input.continue_final_message.has_value()) TRY_STATUS(cut_at_tag(rendered, final_text));
  return rendered;
}

Result<ChatInput> chat_input_from_json(const OrderedJson& json) {
  if (!json.is_object()) return invalid_argument("found a conversation that is not a JSON object");
  ChatInput input;
  for (const auto& [key, value] : json.items()) {
    if (key == "messages") {
      input.messages = value;
    } else if (key == "tools") {
      if (!value.is_null()) input.tools = value;
    } else if (key == "documents") {
      if (!value.is_null()) input.documents = value;
    } else if (key == "add_generation_prompt") {
      input.add_generation_prompt = value.is_boolean() && value.get<bool>();
    } else if (key == "continue_final_message") {
      if (value.is_string()) input.continue_final_message = value.get<std::string>();
      if (value.is_boolean() && value.get<bool>()) input.continue_final_message = "content";
    } else if (key == "special" && value.is_object()) {
      for (const auto& [name, token] : value.items()) {
        if (token.is_string()) input.special_tokens.emplace_back(name, token.get<std::string>());
      }
    } else if (key == "kwargs" && value.is_object()) {
      input.variables = value;
    }
  }
  return input;
}

}  // namespace vernier
