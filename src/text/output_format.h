#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace vernier {

/// How a family of models writes reasoning and tool calls.
enum class OutputFormat {
  kPlain,       ///< text and nothing else
  kHermes,      ///< <tool_call>{"name", "arguments"}</tool_call>
  kQwen3,       ///< as Hermes, with <think>
  kQwen3Coder,  ///< <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
  kLlama3,      ///< {"name", "parameters"}; {...}, behind text after <|python_tag|>
  kDeepseekV3,  ///< <｜tool▁calls▁begin｜>...
  kMistral,     ///< [TOOL_CALLS][{"name", "arguments"}, ...], and [TOOL_CALLS]NAME[ARGS]{...}
  kHarmony,     ///< messages in channels: analysis, commentary, final
};

/// "hermes", "qwen3_coder", ...: as in flags and in script files.
std::string_view output_format_name(OutputFormat format);
std::optional<OutputFormat> find_output_format(std::string_view name);
/// "plain, hermes, ...": for messages.
std::string output_format_names();

/// The markers of a format that cut its output: where the tokenizer has one as a token of its own it is recognised as
/// that token and in no other way, so ordinary text that spells it stays text.
std::vector<std::string_view> output_markers(OutputFormat format);
/// The tokens that a script file may name (conformance): the markers and those that end a turn, the last of all ends
/// it.
std::vector<std::string_view> output_special_tokens(OutputFormat format);

/// The format that a checkpoint uses, by what its tokens and its chat template can say, never by the model's name.
OutputFormat detect_output_format(const Tokenizer& tokenizer, std::string_view chat_template);

/// Whether a rendered prompt ends inside reasoning that the template opened ("<think>" and white space).
bool prompt_opens_reasoning(OutputFormat format, std::string_view prompt);

}  // namespace vernier
