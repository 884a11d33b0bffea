#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_format.h"

namespace vernier {

/// One step of an answer. The answer is the fold of its deltas (fold_answer), so a stream and a whole answer are equal.
struct OutputDelta {
  enum class Kind {
    kContent,
    kReasoning,
    kCallBegin,      ///< text: the name of the function; exactly one for each call, indices count from 0 without gaps
    kCallArguments,  ///< text: a piece of the arguments of the call that began last, never empty
  };
  Kind kind = Kind::kContent;
  size_t call_index = 0;
  std::string text;

  bool operator==(const OutputDelta&) const = default;
};

struct OutputCall {
  std::string name;
  std::string arguments;  // a JSON object as the model wrote it, numbers unrounded

  bool operator==(const OutputCall&) const = default;
};

/// What one choice said.
struct OutputAnswer {
  std::string content;
  std::string reasoning;
  std::vector<OutputCall> calls;

  bool operator==(const OutputAnswer&) const = default;
};
void fold_answer(const OutputDelta& delta, OutputAnswer& answer);

struct OutputTool {
  std::string name;
  nlohmann::ordered_json parameters;  // its JSON schema, or null; types the values of formats without types
};

struct OutputParserOptions {
  std::vector<OutputTool> tools;        ///< calls are parsed only if there are some; else their text stays text
  bool reasoning = true;                ///< split reasoning off; else its markers stay text
  bool prompt_opens_reasoning = false;  ///< the prompt ended inside <think>
  bool parallel_calls = true;           ///< false: the answer ends with its first whole call
  /// Markers that the tokenizer has no token for: looked for in the text. OutputReader fills it in.
  std::vector<std::string> text_markers;
};

enum class OutputEnd {
  kStop,   ///< the model ended its turn, or a stop string was found
  kLimit,  ///< cut by the token limit, the context's end or an abort
};

/// Cuts one choice's output into reasoning, content and tool calls. Fed whole characters and markers; gives deltas out
/// as soon as they are certain. One thread.
///
/// A call is given out once its JSON is whole; if it never is, its text stays visible and it is no call. Only a call
/// with more than kHeldBytes of arguments streams before its end: should its JSON break, the rest becomes content and
/// has_calls() is false.
class OutputParser {
 public:
  static constexpr size_t kHeldBytes = 512;

  static std::unique_ptr<OutputParser> make(OutputFormat format, OutputParserOptions options);
  virtual ~OutputParser() = default;

  /// Ordinary text, whole characters.
  virtual void push_text(std::string_view text, std::vector<OutputDelta>& out) = 0;
  /// A token that is one of output_markers(). `text` is how it is spelt.
  virtual void push_marker(std::string_view text, std::vector<OutputDelta>& out) = 0;
  /// The answer ends. Nothing may be pushed after it.
  virtual void finish(OutputEnd end, std::vector<OutputDelta>& out) = 0;

  /// Whether the parser stands in reasoning: tokens pushed now count as reasoning tokens.
  virtual bool in_reasoning() const = 0;
  /// At least one call is whole and none broke after it was given out.
  virtual bool has_calls() const = 0;
  /// Nothing that could follow belongs to the answer (parallel_calls = false); generation may end here.
  virtual bool is_complete() const = 0;
};

}  // namespace vernier
