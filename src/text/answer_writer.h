#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"

namespace vernier {

/// Writes the deltas of one answer. White space at the borders between content, reasoning and calls is dropped, that
/// inside is kept; so the end of a text waits while it is white space.
class AnswerWriter {
 public:
  using Deltas = std::vector<OutputDelta>;

  AnswerWriter(bool has_borders, bool parallel_calls) : has_borders_(has_borders), parallel_calls_(parallel_calls) {}

  void content(std::string_view text, Deltas& out) { write(OutputDelta::Kind::kContent, text, out); }
  void reasoning(std::string_view text, Deltas& out) { write(OutputDelta::Kind::kReasoning, text, out); }
  /// White space before and after this point is free.
  void border();
  /// What follows is a text of its own: a line break parts it from an earlier one of its kind.
  void new_paragraph() { new_paragraph_ = true; }
  /// The answer ends: white space held back is part of its text.
  void finish(Deltas& out);

  void begin_call(std::string_view name, Deltas& out);
  void arguments(std::string_view text, Deltas& out);
  void end_call();
  /// The call that was begun is not whole and never will be.
  void break_call();

  bool has_calls() const { return whole_calls_ > 0 && !broken_; }
  /// No more belongs to the answer; whatever else is written is dropped.
  bool is_complete() const { return complete_; }

 private:
  void write(OutputDelta::Kind kind, std::string_view text, Deltas& out);
  void put(OutputDelta::Kind kind, std::string_view text, Deltas& out);

  bool has_borders_;
  bool parallel_calls_;
  bool at_border_ = false;
  bool new_paragraph_ = false;
  bool broken_ = false;
  bool complete_ = false;
  bool has_content_ = false;
  bool has_reasoning_ = false;
  OutputDelta::Kind kind_ = OutputDelta::Kind::kContent;
  std::string space_;  // the end of the text, if it is white space
  size_t begun_calls_ = 0;
  size_t whole_calls_ = 0;
};

/// What is read of one call and not given out yet: its raw text, in case it turns out to be none.
class PendingCall {
 public:
  explicit PendingCall(AnswerWriter& answer) : answer_(answer) {}

  void raw(std::string_view text) { raw_ += text; }
  void raw(char c) { raw_ += c; }
  size_t raw_size() const { return raw_.size(); }

  /// The arguments as far as they are known; the raw text stands for more than these from `raw_end` on.
  void grow(std::string_view name, std::string_view arguments, size_t raw_end, AnswerWriter::Deltas& out);
  /// The call is whole. The arguments begin with all that were given before.
  void whole(std::string_view name, std::string_view arguments, AnswerWriter::Deltas& out);
  /// What was read is no call: its text becomes content, but for so many bytes at its end.
  void refuse(AnswerWriter::Deltas& out, size_t unread = 0);
  /// Forgets raw text that is only markers and white space around calls.
  void drop_raw() { raw_.clear(); }

 private:
  AnswerWriter& answer_;
  std::string raw_;
  size_t raw_shown_ = 0;
  size_t arguments_shown_ = 0;
  bool begun_ = false;
};

inline constexpr std::string_view kJsonSpace = " \t\n\r";
inline bool is_json_space(char c) {
  return kJsonSpace.find(c) != std::string_view::npos;
}
/// Without white space at either end.
std::string_view trim_json_space(std::string_view text);

}  // namespace vernier
