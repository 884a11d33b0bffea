#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/civil_time.h"
#include "text/jinja_template.h"

namespace vernier {

/// One conversation, as apply_chat_template takes it.
struct ChatInput {
  nlohmann::ordered_json messages;                  ///< an array of objects, at least one
  std::optional<nlohmann::ordered_json> tools;      ///< an array of objects
  std::optional<nlohmann::ordered_json> documents;  ///< an array of objects
  bool add_generation_prompt = false;
  /// The field of the last message that the answer goes on from, usually "content".
  std::optional<std::string> continue_final_message;
  /// bos_token and the like: part of the model, not of the caller's text.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  /// Further variables (enable_thinking, date_string); they win over special tokens.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  CivilTime now = CivilTime::local_now();
};

/// Reads a ChatInput from {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
/// "special", "kwargs"}.
Result<ChatInput> chat_input_from_json(const nlohmann::ordered_json& json);

/// The text of a conversation. Every text of messages, tools, documents and variables is marked as the caller's, but
/// for the well-known names of roles: templates build control tokens such as <|user|> from them, and no caller can put
/// anything into so closed a list. Immutable and safe to share between threads.
class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string source);
  /// A template's raise_exception is an Error whose `where` is kRaisedByTemplate.
  Result<Rendered> render(const ChatInput& input) const;
  const std::string& source() const { return source_; }

 private:
  ChatTemplate(std::string source, JinjaTemplate parsed) : source_(std::move(source)), template_(std::move(parsed)) {}
  std::string source_;
  JinjaTemplate template_;
};

}  // namespace vernier
