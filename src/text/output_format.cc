#include "text/output_format.h"

#include <algorithm>

#include "text/answer_writer.h"

namespace vernier {
namespace {

struct FormatRow {
  OutputFormat format;
  std::string_view name;
  std::vector<std::string_view> markers;
  std::vector<std::string_view> controls;  // the others that a script may name; the last ends the turn
};

const std::vector<FormatRow>& format_rows() {
  static const std::vector<std::string_view> chatml = {"<|im_start|>", "<|endoftext|>", "<|im_end|>"};
  static const std::vector<FormatRow> rows = {
      {OutputFormat::kPlain, "plain", {}, chatml},
      {OutputFormat::kHermes, "hermes", {"<tool_call>", "</tool_call>"}, chatml},
      {OutputFormat::kQwen3, "qwen3", {"<think>", "</think>", "<tool_call>", "</tool_call>"}, chatml},
      {OutputFormat::kQwen3Coder, "qwen3_coder", {"<tool_call>", "</tool_call>"}, chatml},
      {OutputFormat::kLlama3, "llama3", {"<|python_tag|>"}, {"<|eom_id|>", "<|eot_id|>"}},
      {OutputFormat::kDeepseekV3,
       "deepseek_v3",
       {"<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
       {"<｜end▁of▁sentence｜>"}},
      {OutputFormat::kMistral, "mistral", {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}, {"</s>"}},
      {OutputFormat::kHarmony,
       "harmony",
       {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"},
       {}},
  };
  return rows;
}

const FormatRow& row_of(OutputFormat format) {
  return format_rows()[static_cast<size_t>(format)];
}

}  // namespace

std::string_view output_format_name(OutputFormat format) {
  return row_of(format).name;
}

std::optional<OutputFormat> find_output_format(std::string_view name) {
  for (const FormatRow& row : format_rows()) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

std::string output_format_names() {
  std::string names;
  for (const FormatRow& row : format_rows()) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

std::vector<std::string_view> output_markers(OutputFormat format) {
  return row_of(format).markers;
}

std::vector<std::string_view> output_special_tokens(OutputFormat format) {
  std::vector<std::string_view> tokens = row_of(format).markers;
  if (format == OutputFormat::kHermes) tokens.clear();  // its models have no tokens for them
  std::erase(tokens, "[CALL_ID]");
  tokens.insert(tokens.end(), row_of(format).controls.begin(), row_of(format).controls.end());
  return tokens;
}

OutputFormat detect_output_format(const Tokenizer& tokenizer, std::string_view chat_template) {
  auto has_token = [&](std::string_view text) {
    const std::vector<AddedToken>& added = tokenizer.added_tokens();
    return std::any_of(added.begin(), added.end(), [&](const AddedToken& token) { return token.text == text; });
  };
  auto writes = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
  if (has_token("<|channel|>") && has_token("<|message|>") && has_token("<|call|>")) return OutputFormat::kHarmony;
  if (has_token("<｜tool▁calls▁begin｜>") && has_token("<｜tool▁sep｜>")) return OutputFormat::kDeepseekV3;
  if (has_token("[TOOL_CALLS]") && writes("[TOOL_CALLS]")) return OutputFormat::kMistral;
  if (writes("<tool_call>")) {
    if (writes("<function=") && writes("<parameter=")) return OutputFormat::kQwen3Coder;
    return writes("<think>") || writes("</think>") ? OutputFormat::kQwen3 : OutputFormat::kHermes;
  }
  if (has_token("<|python_tag|>") && writes("\"parameters\"")) return OutputFormat::kLlama3;
  if (writes("<think>") || writes("</think>")) {
    return OutputFormat::kQwen3;  // whose reasoning it is; calls need a template that writes them
  }
  return OutputFormat::kPlain;
}

bool prompt_opens_reasoning(OutputFormat format, std::string_view prompt) {
  const std::vector<std::string_view>& markers = row_of(format).markers;
  if (std::find(markers.begin(), markers.end(), "<think>") == markers.end()) return false;
  size_t end = prompt.find_last_not_of(kJsonSpace);
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with("<think>");
}

}  // namespace vernier
