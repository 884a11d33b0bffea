#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/served_model.h"
#include "server/tool_settings.h"

namespace vernier {

/// What a model is to continue.
struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;
  bool opens_reasoning = false;
  std::shared_ptr<const ScriptedAnswer> script;  ///< of a scripted model
};

/// A conversation as a request gives it.
struct ChatPromptInput {
  Json messages;  ///< as read_messages gives them
  const ToolSettings* tools = nullptr;
  Json variables = Json::object();
  Json documents;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::optional<std::string> reasoning_effort;  ///< as check_reasoning_effort takes it
};

/// Refuses a word that is none of them.
Status check_reasoning_effort(const std::optional<std::string>& effort, const std::string& place);
/// Whether this model's prompts can tell efforts apart.
bool honours_effort(const ServedModel& model, const std::optional<std::string>& effort);

/// Through the model's template or the harmony renderer. No text of a message becomes a special or marker token.
Result<Prompt> chat_prompt(const ServedModel& model, const ChatPromptInput& input);

struct TextPromptOptions {
  bool add_special = true;
  bool parse_special = false;  ///< the caller's text may name special tokens
};
/// A text to continue as it is.
Result<Prompt> text_prompt(const ServedModel& model, std::string text, const TextPromptOptions& options);
/// Tokens to continue, each known to exist.
Result<Prompt> token_prompt(const ServedModel& model, std::vector<int32_t> tokens);

}  // namespace vernier
