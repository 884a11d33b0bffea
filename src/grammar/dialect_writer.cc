#include "grammar/dialect_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/grammar_compiler.h"

namespace vernier {

std::vector<std::string_view> DialectWriter::markers() const {
  switch (dialect_) {
    case OutputDialect::kPlain:
      return {"<think>", "</think>"};
    case OutputDialect::kHermes:
    case OutputDialect::kQwen3:
    case OutputDialect::kQwen3Coder:
      return {"<think>", "</think>", "<tool_call>", "</tool_call>"};
    case OutputDialect::kLlama3:
      return {"<think>", "</think>", "<|python_tag|>"};
    case OutputDialect::kDeepSeekV3:
      return {"<think>",
              "</think>",
              "<｜tool▁calls▁begin｜>",
              "<｜tool▁call▁begin｜>",
              "<｜tool▁sep｜>",
              "<｜tool▁call▁end｜>",
              "<｜tool▁calls▁end｜>"};
    case OutputDialect::kMistral:
      return {"<think>", "</think>", "[TOOL_CALLS]", "[ARGS]"};
    case OutputDialect::kHarmony:
      return {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"};
  }
  return {};
}

std::string_view DialectWriter::begin_marker() const {
  switch (dialect_) {
    case OutputDialect::kLlama3:
      return "<|python_tag|>";
    case OutputDialect::kDeepSeekV3:
      return "<｜tool▁calls▁begin｜>";
    case OutputDialect::kMistral:
      return "[TOOL_CALLS]";
    default:
      return "<tool_call>";
  }
}

std::string DialectWriter::marker(std::string_view text) {
  std::optional<int32_t> id = vocabulary_.find_marker(text);
  return id ? writer_.token(*id) : gbnf_literal(text);
}

std::string DialectWriter::any_of(const std::vector<std::string>& alternatives) {
  return writer_.rule(fmt::format("{}", fmt::join(alternatives, " | ")));
}

std::string DialectWriter::free_text(std::string_view end) {
  if (!vocabulary_.find_marker(end)) return writer_.text_up_to(end);
  // A token that is a marker is not spelled by any other token, so it is enough to leave out the ids.
  std::vector<int32_t> tokens;
  for (std::string_view text : markers()) {
    if (std::optional<int32_t> id = vocabulary_.find_marker(text)) tokens.push_back(*id);
  }
  return fmt::format("{} {}", writer_.rule(fmt::format("ExcludeToken({})*", fmt::join(tokens, ", "))), marker(end));
}

std::string DialectWriter::free_text_until(std::string_view begin, const std::string& rest, bool again) {
  const std::string rule = writer_.rule(rest);
  std::optional<int32_t> id = vocabulary_.find_marker(begin);
  const char* loop = again ? "true" : "false";
  if (id) {
    writer_.token(*id);
    return writer_.rule(fmt::format("TokenTagDispatch(({}, {}), loop_after_dispatch={})", *id, rule, loop));
  }
  return writer_.rule(fmt::format("TagDispatch(({}, {}), loop_after_dispatch={})", gbnf_literal(begin), rule, loop));
}

std::string DialectWriter::reasoning(ReasoningPrefix prefix) {
  if (prefix == ReasoningPrefix::kNone) return "";
  const std::string rest = fmt::format("{} \"\\n\"{{0,2}}", free_text("</think>"));
  if (prefix == ReasoningPrefix::kOpen) return rest;
  return fmt::format("({} {})?", marker("<think>"), rest);
}

std::string DialectWriter::answer(const std::string& body, ReasoningPrefix prefix) {
  if (dialect_ != OutputDialect::kHarmony) return reasoning(prefix) + " (" + body + ")";
  const std::string answer = fmt::format("({}) {}", body, marker("<|return|>"));
  if (prefix == ReasoningPrefix::kNone) return answer;  // the prompt ended inside the final message
  return fmt::format("{} {} \"final\" (\" \"? {} \"json\")? {} {}", harmony_start(prefix), marker("<|channel|>"),
                     marker("<|constrain|>"), marker("<|message|>"), answer);
}

std::string DialectWriter::harmony_analysis() {
  return fmt::format("{} {} \"assistant\"", free_text("<|end|>"), marker("<|start|>"));
}

/// Up to the channel of the message that matters: any number of analysis messages.
std::string DialectWriter::harmony_start(ReasoningPrefix prefix) {
  if (prefix == ReasoningPrefix::kNone) return "";
  const std::string rest = writer_.rule(harmony_analysis());
  const std::string more =
      writer_.rule(fmt::format("{} \"analysis\" {} {}", marker("<|channel|>"), marker("<|message|>"), rest));
  return (prefix == ReasoningPrefix::kOpen ? rest + " " : "") + more + "*";
}

std::string DialectWriter::harmony_call(const std::vector<Function>& functions) {
  std::vector<std::string> calls;
  for (const Function& function : functions) {
    calls.push_back(fmt::format("{} (\" \"? {} \"json\")? {} {} {}", gbnf_literal(function.name),
                                marker("<|constrain|>"), marker("<|message|>"), function.arguments,
                                marker("<|call|>")));
  }
  return fmt::format("{} \"commentary to=functions.\" ({})", marker("<|channel|>"), any_of(calls));
}

Result<std::string> DialectWriter::tool_calls(const ToolCalls& tools, ReasoningPrefix prefix,
                                              const GrammarLimits& limits) {
  if (dialect_ == OutputDialect::kPlain) {
    return unsupported("the output format of this model has no tool calls that a grammar could enforce");
  }
  TRY_BIND(std::vector<Function> functions, read_functions(tools, limits));
  const bool free = tools.choice == ToolChoice::kAuto;
  if (dialect_ == OutputDialect::kHarmony) {
    const std::string call = writer_.rule(harmony_call(functions));
    if (!free) return harmony_start(prefix) + " " + call;
    const std::string preamble = writer_.rule(fmt::format("{} \"commentary\" {} {}", marker("<|channel|>"),
                                                          marker("<|message|>"), writer_.rule(harmony_analysis())));
    return fmt::format("{} {}* ({} | {} \"final\" {} {})", harmony_start(prefix), preamble, call, marker("<|channel|>"),
                       marker("<|message|>"), free_text("<|return|>"));
  }
  const std::string calls =
      writer_.rule(dialect_ == OutputDialect::kLlama3 ? llama_calls(functions, tools.parallel)
                                                      : calls_after_begin(functions, tools.parallel));
  const std::string before = reasoning(prefix);
  const std::string begin(begin_marker());
  if (dialect_ == OutputDialect::kLlama3) {
    if (!free) return fmt::format("{} ({})? {}", before, marker(begin), calls);
    // A text that starts with a brace would be read as a call, so it is one.
    return fmt::format("{} (({})? {} | ([^{{ \\n\\t] {})?)", before, marker(begin), calls,
                       free_text_until(begin, calls, false));
  }
  const bool list = dialect_ == OutputDialect::kDeepSeekV3 || dialect_ == OutputDialect::kMistral;  // one begin marker
  if (free) return fmt::format("{} {}", before, free_text_until(begin, calls, tools.parallel && !list));
  const std::string one = fmt::format("{} {}", marker(begin), calls);
  if (list || !tools.parallel) return fmt::format("{} {}", before, one);
  return fmt::format("{} {} (\"\\n\"? {})*", before, one, one);
}

}  // namespace vernier
