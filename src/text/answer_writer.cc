#include "text/answer_writer.h"

#include <algorithm>
#include <utility>

namespace vernier {

std::string_view trim_json_space(std::string_view text) {
  size_t begin = text.find_first_not_of(kJsonSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kJsonSpace) - begin + 1);
}

void AnswerWriter::border() {
  space_.clear();
  at_border_ = has_borders_;
}

void AnswerWriter::finish(Deltas& out) {
  if (!space_.empty()) put(kind_, space_, out);
  space_.clear();
}

void AnswerWriter::write(OutputDelta::Kind kind, std::string_view text, Deltas& out) {
  if (complete_) return;
  if (kind != kind_) border();
  kind_ = kind;
  if (at_border_) {
    text.remove_prefix(std::min(text.find_first_not_of(kJsonSpace), text.size()));
    if (text.empty()) return;
    at_border_ = false;
  }
  size_t end = has_borders_ ? text.find_last_not_of(kJsonSpace) + 1 : text.size();  // npos + 1 is 0
  if (end > 0) {
    if (!space_.empty()) put(kind, space_, out);
    space_.clear();
    put(kind, text.substr(0, end), out);
  }
  space_ += text.substr(end);
}

void AnswerWriter::put(OutputDelta::Kind kind, std::string_view text, Deltas& out) {
  if (text.empty()) return;
  bool& has_text = kind == OutputDelta::Kind::kContent ? has_content_ : has_reasoning_;
  if (std::exchange(new_paragraph_, false) && has_text) put(kind, "\n", out);
  has_text = true;
  if (!out.empty() && out.back().kind == kind) {
    out.back().text += text;
  } else {
    out.push_back({kind, 0, std::string(text)});
  }
}

void AnswerWriter::begin_call(std::string_view name, Deltas& out) {
  if (complete_) return;
  border();
  out.push_back({OutputDelta::Kind::kCallBegin, begun_calls_++, std::string(name)});
}

void AnswerWriter::arguments(std::string_view text, Deltas& out) {
  if (complete_ || text.empty()) return;
  out.push_back({OutputDelta::Kind::kCallArguments, begun_calls_ - 1, std::string(text)});
}

void AnswerWriter::end_call() {
  ++whole_calls_;
  border();
  if (!parallel_calls_) complete_ = true;
}

void AnswerWriter::break_call() {
  broken_ = true;
  border();
}

void PendingCall::grow(std::string_view name, std::string_view arguments, size_t raw_end, AnswerWriter::Deltas& out) {
  if (!begun_ && arguments.size() <= OutputParser::kHeldBytes) return;
  if (!begun_) answer_.begin_call(name, out);
  begun_ = true;
  answer_.arguments(arguments.substr(arguments_shown_), out);
  arguments_shown_ = arguments.size();
  raw_shown_ = raw_end;
}

void PendingCall::whole(std::string_view name, std::string_view arguments, AnswerWriter::Deltas& out) {
  if (!begun_) answer_.begin_call(name, out);
  answer_.arguments(arguments.substr(arguments_shown_), out);
  answer_.end_call();
  raw_.clear();
  raw_shown_ = arguments_shown_ = 0;
  begun_ = false;
}

void PendingCall::refuse(AnswerWriter::Deltas& out, size_t unread) {
  if (begun_) answer_.break_call();
  answer_.content(std::string_view(raw_).substr(raw_shown_, raw_.size() - raw_shown_ - unread), out);
  raw_.clear();
  raw_shown_ = arguments_shown_ = 0;
  begun_ = false;
}

}  // namespace vernier
