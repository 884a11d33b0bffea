#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/call_syntax.h"
#include "text/output_parser.h"

namespace vernier {

/// The formats in which reasoning and calls stand between markers in one text: all but harmony.
class MarkedParser : public OutputParser {
 public:
  MarkedParser(OutputFormat format, OutputParserOptions options);

  void push_text(std::string_view text, std::vector<OutputDelta>& out) override;
  void push_marker(std::string_view marker, std::vector<OutputDelta>& out) override;
  void finish(OutputEnd end, std::vector<OutputDelta>& out) override;
  bool in_reasoning() const override { return state_ == State::kReasoning; }
  bool has_calls() const override { return answer_.has_calls(); }
  bool is_complete() const override { return answer_.is_complete(); }

 private:
  enum class State : uint8_t { kContent, kReasoning, kCalls };

  void write(std::string_view text, std::vector<OutputDelta>& out);
  bool take_marker(std::string_view marker, std::vector<OutputDelta>& out);
  size_t take_plain(std::string_view text, std::vector<OutputDelta>& out);
  bool opens_bare(std::string_view text, size_t& space);
  void begin_calls(std::string_view marker);
  std::string leave_calls(CallStep step, std::vector<OutputDelta>& out);
  bool is_active(std::string_view marker) const;
  bool is_call_marker(std::string_view marker) const;

  OutputFormat format_;
  OutputParserOptions options_;
  State state_ = State::kContent;
  AnswerWriter answer_;
  PendingCall pending_;
  std::unique_ptr<CallSyntax> calls_;  // nothing where the request has no tools
  std::string held_;                   // the end of the text, if a text marker may start there
  std::string unclosed_;               // reasoning that the prompt opened and nothing has closed yet
  bool may_be_bare_ = false;           // only white space so far, and a format whose calls need no marker
  bool prompt_opened_ = false;
};

}  // namespace vernier
