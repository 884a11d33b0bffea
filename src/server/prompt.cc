#include "server/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/chat_messages.h"
#include "text/harmony_prompt.h"

namespace vernier {
namespace {

constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

HarmonyEffort harmony_effort(const std::string& effort) {
  if (effort == "none" || effort == "minimal" || effort == "low") return HarmonyEffort::kLow;
  return effort == "medium" ? HarmonyEffort::kMedium : HarmonyEffort::kHigh;
}

/// The reply to the text, and its prompt tail behind the prompt's own text.
Status add_script(const ServedModel& model, std::string_view asked, Prompt& prompt) {
  if (model.script == nullptr) return {};
  const ScriptReply* reply = model.script->find_reply(asked);
  if (reply == nullptr) return invalid_argument("no reply of the script matches this prompt");
  prompt.script = scripted_answer(*model.script, *reply);
  if (reply->prompt_tail.empty()) return {};
  TRY_BIND(std::vector<int32_t> tail, model.tokenizer->encode(reply->prompt_tail, {.add_special = false}));
  prompt.tokens.insert(prompt.tokens.end(), tail.begin(), tail.end());
  prompt.text += reply->prompt_tail;
  return {};
}

Result<Prompt> render_harmony_prompt(const ServedModel& model, const ChatPromptInput& input) {
  if (input.continue_final_message || !input.add_generation_prompt) {
    return unsupported("this model's format has no continue_final_message and always opens the answer");
  }
  HarmonyInput harmony;
  harmony.messages = input.messages;
  if (input.tools != nullptr) harmony.tools = input.tools->prompt_tools;
  if (input.reasoning_effort) harmony.effort = harmony_effort(*input.reasoning_effort);
  auto rendered = render_harmony(harmony);
  if (!rendered.ok()) return Error{ErrorCode::kInvalidArgument, rendered.error().message, "messages"};
  Prompt prompt;
  TRY_BIND(prompt.tokens, rendered->encode(*model.tokenizer));
  prompt.text = rendered->text();
  return prompt;
}

ChatInput template_input(const ServedModel& model, const ChatPromptInput& input) {
  ChatInput chat;
  chat.messages = input.messages;
  chat.special_tokens = model.special_tokens;
  chat.variables = input.variables;
  chat.add_generation_prompt = input.add_generation_prompt;
  if (input.continue_final_message) chat.continue_final_message = "content";
  if (!input.documents.is_null()) chat.documents = input.documents;
  if (input.reasoning_effort && !chat.variables.contains("enable_thinking")) {
    chat.variables["enable_thinking"] = *input.reasoning_effort != "none";
    chat.variables["reasoning_effort"] = *input.reasoning_effort;
  }
  if (input.tools == nullptr || input.tools->prompt_tools.empty()) return chat;
  if (model.chat_template->source().find("tools") != std::string::npos) {
    chat.tools = input.tools->prompt_tools;
    return chat;
  }
  const std::string text = describe_tools(input.tools->prompt_tools);
  Json& first = chat.messages.front();
  if (first["role"] == "system") {
    first["content"] = first["content"].get<std::string>() + "\n\n" + text;
  } else {
    chat.messages.insert(chat.messages.begin(), Json{{"role", "system"}, {"content", text}});
  }
  return chat;
}

}  // namespace

Status check_reasoning_effort(const std::optional<std::string>& effort, const std::string& place) {
  if (!effort || std::ranges::find(kEfforts, *effort) != kEfforts.end()) return {};
  return bad_field(place, "{} is '{}', expected {}", place, effort->substr(0, 40), fmt::join(kEfforts, ", "));
}

bool honours_effort(const ServedModel& model, const std::optional<std::string>& effort) {
  if (!effort || model.format == OutputFormat::kHarmony) return true;
  if (model.chat_template == nullptr) return false;
  const std::string& source = model.chat_template->source();
  return source.find("reasoning_effort") != std::string::npos ||
         (*effort == "none" && source.find("enable_thinking") != std::string::npos);
}

Result<Prompt> chat_prompt(const ServedModel& model, const ChatPromptInput& input) {
  const std::string asked = model.script != nullptr ? last_message_text(input.messages) : "";
  if (model.format == OutputFormat::kHarmony) {
    TRY_BIND(Prompt prompt, render_harmony_prompt(model, input));
    TRY_STATUS(add_script(model, asked, prompt));
    return prompt;
  }
  if (model.chat_template == nullptr) {
    return unsupported("{} has no chat template; use /v1/completions with a prompt of your own", model.name());
  }
  auto rendered = model.chat_template->render(template_input(model, input));
  if (!rendered.ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the model's chat template refuses these messages: {}", rendered.error().message),
                 "messages"};
  }
  Prompt prompt;
  prompt.text = std::move(rendered->text);
  TRY_BIND(prompt.tokens,
           model.tokenizer->encode(
               prompt.text, {.add_special = false, .parse_special = true, .caller_ranges = rendered->caller_ranges}));
  TRY_STATUS(add_script(model, asked, prompt));
  prompt.opens_reasoning = prompt_opens_reasoning(model.format, prompt.text);
  return prompt;
}

Result<Prompt> text_prompt(const ServedModel& model, std::string text, const TextPromptOptions& options) {
  Prompt prompt;
  EncodeOptions encode{.add_special = options.add_special, .parse_special = options.parse_special};
  const ByteRange whole{0, text.size()};
  if (!options.parse_special && !text.empty()) encode.caller_ranges = std::span(&whole, 1);
  TRY_BIND(prompt.tokens, model.tokenizer->encode(text, encode));
  prompt.text = std::move(text);
  const std::string asked = prompt.text;
  TRY_STATUS(add_script(model, asked, prompt));
  return prompt;
}

Result<Prompt> token_prompt(const ServedModel& model, std::vector<int32_t> tokens) {
  Prompt prompt;
  prompt.tokens = std::move(tokens);
  prompt.text = model.tokenizer->decode(prompt.tokens, true);
  const std::string asked = prompt.text;
  TRY_STATUS(add_script(model, asked, prompt));
  return prompt;
}

}  // namespace vernier
