#include "text/marked_parser.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr std::string_view kOpenThought = "<think>";
constexpr std::string_view kCloseThought = "</think>";

bool has_reasoning(OutputFormat format) {
  std::vector<std::string_view> markers = output_markers(format);
  return std::find(markers.begin(), markers.end(), kOpenThought) != markers.end();
}

}  // namespace

MarkedParser::MarkedParser(OutputFormat format, OutputParserOptions options)
    : format_(format),
      options_(std::move(options)),
      answer_(format != OutputFormat::kPlain, options_.parallel_calls),
      pending_(answer_) {
  options_.reasoning = options_.reasoning && has_reasoning(format);
  const std::vector<std::string>& texts = options_.text_markers;
  bool close_in_text = std::find(texts.begin(), texts.end(), "</tool_call>") != texts.end();
  if (!options_.tools.empty()) calls_ = make_call_syntax(format, {&pending_, &options_.tools, close_in_text});
  may_be_bare_ = calls_ != nullptr && format == OutputFormat::kLlama3;
  if (options_.reasoning && options_.prompt_opens_reasoning) {
    state_ = State::kReasoning;
    prompt_opened_ = true;
    answer_.border();
  }
}

void MarkedParser::write(std::string_view text, std::vector<OutputDelta>& out) {
  if (state_ == State::kReasoning) {
    if (prompt_opened_) unclosed_ += text;
    answer_.reasoning(text, out);
  } else {
    answer_.content(text, out);
  }
}

bool MarkedParser::is_call_marker(std::string_view marker) const {
  if (calls_ == nullptr) return false;
  switch (format_) {
    case OutputFormat::kHermes:
    case OutputFormat::kQwen3:
    case OutputFormat::kQwen3Coder:
      return marker == "<tool_call>";
    case OutputFormat::kLlama3:
      return marker == "<|python_tag|>";
    case OutputFormat::kDeepseekV3:
      return marker == "<｜tool▁calls▁begin｜>" || marker == "<｜tool▁call▁begin｜>";
    case OutputFormat::kMistral:
      return marker == "[TOOL_CALLS]";
    case OutputFormat::kPlain:
    case OutputFormat::kHarmony:
      break;
  }
  return false;
}

/// Whether a marker means something where the parser stands. In reasoning nothing is a call: thoughts about a call must
/// not become one.
bool MarkedParser::is_active(std::string_view marker) const {
  if (state_ == State::kReasoning) return marker == kCloseThought;
  return (options_.reasoning && marker == kOpenThought) || is_call_marker(marker);
}

bool MarkedParser::take_marker(std::string_view marker, std::vector<OutputDelta>& out) {
  if (!is_active(marker)) {
    write(marker, out);
    return false;
  }
  may_be_bare_ = false;
  if (marker == kOpenThought || marker == kCloseThought) {
    state_ = marker == kOpenThought ? State::kReasoning : State::kContent;
    prompt_opened_ = false;
    unclosed_.clear();
    answer_.border();
  } else {
    begin_calls(marker);
  }
  return true;
}

void MarkedParser::begin_calls(std::string_view marker) {
  state_ = State::kCalls;
  calls_->open(marker);
}

/// Returns text that was read and is still to be looked at.
std::string MarkedParser::leave_calls(CallStep step, std::vector<OutputDelta>& out) {
  state_ = State::kContent;
  if (step == CallStep::kEnd) {
    pending_.drop_raw();
    answer_.border();
    return {};
  }
  std::string unread(calls_->unread());
  pending_.refuse(out, unread.size());
  return unread;
}

bool MarkedParser::opens_bare(std::string_view text, size_t& space) {
  space = std::min(text.find_first_not_of(kJsonSpace), text.size());
  return space < text.size() && text[space] == '{';
}

/// Takes content or reasoning; returns how much of the text it took. The rest belongs to calls.
size_t MarkedParser::take_plain(std::string_view text, std::vector<OutputDelta>& out) {
  if (may_be_bare_ && state_ == State::kContent) {
    size_t space = 0;
    bool opens = opens_bare(text, space);
    may_be_bare_ = space == text.size();
    if (opens) {
      write(text.substr(0, space), out);
      begin_calls({});
      return space;
    }
  }
  size_t first = text.size();
  std::string_view found;
  size_t keep = 0;
  for (const std::string& marker : options_.text_markers) {
    if (!is_active(marker)) continue;
    size_t at = text.find(marker);
    if (at < first) {
      first = at;
      found = marker;
    }
    for (size_t n = std::min(marker.size() - 1, text.size()); n > keep; --n) {
      if (text.ends_with(std::string_view(marker).substr(0, n))) keep = n;
    }
  }
  if (!found.empty()) {
    write(text.substr(0, first), out);
    take_marker(found, out);
    return first + found.size();
  }
  held_ = text.substr(text.size() - keep);
  write(text.substr(0, text.size() - keep), out);
  return text.size();
}

void MarkedParser::push_text(std::string_view pushed, std::vector<OutputDelta>& out) {
  std::string text = std::exchange(held_, {}) + std::string(pushed);
  size_t at = 0;
  while (at < text.size()) {
    if (state_ != State::kCalls) {
      at += take_plain(std::string_view(text).substr(at), out);
      continue;
    }
    CallStep step = calls_->text(text, at, out);
    if (step == CallStep::kMore) continue;
    text = leave_calls(step, out) + text.substr(at);
    at = 0;
  }
}

void MarkedParser::push_marker(std::string_view marker, std::vector<OutputDelta>& out) {
  if (std::string held = std::exchange(held_, {}); !held.empty()) write(held, out);
  if (state_ == State::kCalls) {
    CallStep step = calls_->marker(marker, out);
    if (step == CallStep::kMore) return;
    if (std::string unread = leave_calls(step, out); !unread.empty()) write(unread, out);
    if (step == CallStep::kEnd) return;
  }
  take_marker(marker, out);
}

void MarkedParser::finish(OutputEnd end, std::vector<OutputDelta>& out) {
  if (std::string held = std::exchange(held_, {}); !held.empty()) write(held, out);
  if (state_ == State::kCalls) pending_.refuse(out);
  bool skipped_thinking = state_ == State::kReasoning && prompt_opened_ && end == OutputEnd::kStop;
  answer_.finish(out);
  if (!skipped_thinking) return;
  // The model answered without thinking, or never said where the thought ends: the answer must not be empty.
  answer_.border();
  answer_.content(trim_json_space(unclosed_), out);
}

}  // namespace vernier
