#include <utility>

#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {
namespace {

const CodePointBitmap& word_bitmap() {
  static const CodePointBitmap bitmap(unicode::word());
  return bitmap;
}

}  // namespace

RegexSearch::RegexSearch(const Regex& regex, std::string_view text)
    : regex_(regex),
      text_(text),
      // Ordinary text takes a few steps for each byte; ten times that is a pattern that goes back too often.
      step_limit_(40 * uint64_t{text.size()} + 10000) {
  if (regex.must_remember()) begin_remembering();
}

std::optional<RegexMatch> RegexSearch::next_literal() {
  const std::string& needle = regex_.text();
  if (needle.empty()) return std::nullopt;
  size_t found = text_.find(needle, at_);
  if (found == std::string_view::npos) return std::nullopt;
  at_ = found + needle.size();
  return RegexMatch{found, at_};
}

std::optional<RegexMatch> RegexSearch::next() {
  if (regex_.is_literal()) return next_literal();
  while (at_ <= text_.size()) {
    std::optional<size_t> end = match_at(0, at_);
    size_t begin = at_;
    if (end && !(*end == begin && previous_end_ == begin)) {
      at_ = *end;
      previous_end_ = *end;
      // What led to this match has been marked as seen at its end, and has not failed.
      if (remember_) forget(*end);
      return RegexMatch{begin, *end};
    }
    if (remember_ && end) forget(*end);
    at_ += at_ < text_.size() ? utf8_size(text_[at_]) : 1;
  }
  return std::nullopt;
}

bool RegexSearch::seen_before(uint32_t pc, size_t at) {
  size_t bit = at * regex_.program().size() + pc;
  if (nested_seen_ != nullptr) return !nested_seen_->insert(bit).second;
  uint64_t mask = uint64_t{1} << (bit & 63);
  bool seen = (seen_[bit >> 6] & mask) != 0;
  seen_[bit >> 6] |= mask;
  return seen;
}

void RegexSearch::forget(size_t at) {
  size_t first = at * regex_.program().size();
  for (size_t bit = first; bit < first + regex_.program().size(); ++bit)
    seen_[bit >> 6] &= ~(uint64_t{1} << (bit & 63));
}

void RegexSearch::begin_remembering() {
  remember_ = true;
  seen_.assign((regex_.program().size() * (text_.size() + 1) + 63) / 64, 0);
}

/// The body of a look or of an atomic group starts afresh: that a state of it did not lead out of one call says nothing
/// about the next.
std::optional<size_t> RegexSearch::match_nested(uint32_t pc, size_t at) {
  std::unordered_set<size_t> seen;
  std::unordered_set<size_t>* outer = std::exchange(nested_seen_, &seen);
  std::optional<size_t> end = match_at(pc, at);
  nested_seen_ = outer;
  return end;
}

/// Runs the program from `pc` at `at` up to kMatch; the end of the match, or nothing.
std::optional<size_t> RegexSearch::match_at(uint32_t pc, size_t at) {
  const size_t bottom = stack_.size();
  for (;;) {
    if (regex_.program()[pc].op == RegexOp::kMatch) {
      stack_.resize(bottom);
      return at;
    }
    if (step(pc, at)) continue;
    if (stack_.size() == bottom) return std::nullopt;
    if (++steps_ > step_limit_ && !remember_) begin_remembering();
    Frame& frame = stack_.back();
    pc = frame.pc;
    at = frame.at;
    if (frame.run) {
      at = frame.at = previous_utf8(text_, at);
      if (at > frame.low) continue;
    }
    stack_.pop_back();
  }
}

/// Executes one instruction and moves on; false if it fails.
bool RegexSearch::step(uint32_t& pc, size_t& at) {
  const RegexInstruction& instruction = regex_.program()[pc];
  switch (instruction.op) {
    case RegexOp::kCharacter: {
      if (at >= text_.size()) return false;
      DecodedCodePoint c = decode_utf8(text_, at);
      if (!regex_.sets()[instruction.set].contains(c.value)) return false;
      at += c.size_bytes;
      ++pc;
      return true;
    }
    case RegexOp::kRun:
      return remember_ ? step_run_remembering(pc, at) : step_run(pc, at);
    case RegexOp::kPossessiveRun:
      while (size_t size = character_in(instruction.set, at)) {
        if (remember_ && seen_before(pc, at)) return false;
        at += size;
      }
      ++pc;
      return true;
    case RegexOp::kSplit:
    case RegexOp::kSplitLazy: {
      if (remember_ && seen_before(pc, at)) return false;
      bool lazy = instruction.op == RegexOp::kSplitLazy;
      stack_.push_back({lazy ? pc + 1 : instruction.target, false, at, at});
      pc = lazy ? instruction.target : pc + 1;
      return true;
    }
    case RegexOp::kJump:
      pc = instruction.target;
      return true;
    case RegexOp::kLook: {
      bool found = look(instruction, pc, at);
      pc = instruction.target;
      return found != instruction.negative;
    }
    case RegexOp::kAtomic: {
      std::optional<size_t> end = match_nested(pc + 1, at);
      if (!end) return false;
      at = *end;
      pc = instruction.target;
      return true;
    }
    case RegexOp::kAssert:
      ++pc;
      return holds(instruction.assertion, at);
    case RegexOp::kMatch:
      break;
  }
  return false;
}

/// Bytes of the character at `at` if it is in the set, else 0.
size_t RegexSearch::character_in(uint16_t set, size_t at) const {
  if (at >= text_.size()) return 0;
  DecodedCodePoint c = decode_utf8(text_, at);
  return regex_.sets()[set].contains(c.value) ? c.size_bytes : 0;
}

/// Takes the whole run at once and leaves one frame from which it is given back character by character.
bool RegexSearch::step_run(uint32_t& pc, size_t& at) {
  const CodePointBitmap& set = regex_.sets()[regex_.program()[pc].set];
  size_t low = at;
  while (at < text_.size()) {
    DecodedCodePoint c = decode_utf8(text_, at);
    if (!set.contains(c.value)) break;
    at += c.size_bytes;
  }
  ++pc;
  if (at > low) stack_.push_back({pc, true, at, low});
  return true;
}

/// The same, one character for each step, so that each is remembered.
bool RegexSearch::step_run_remembering(uint32_t& pc, size_t& at) {
  if (seen_before(pc, at)) return false;
  size_t size = character_in(regex_.program()[pc].set, at);
  if (size == 0) {
    ++pc;
    return true;
  }
  stack_.push_back({pc + 1, false, at, at});
  at += size;
  return true;
}

bool RegexSearch::look(const RegexInstruction& instruction, uint32_t pc, size_t at) {
  if (instruction.behind_characters != kNotBehind) {
    for (uint32_t i = 0; i < instruction.behind_characters; ++i) {
      if (at == 0) return false;
      at = previous_utf8(text_, at);
    }
  }
  return match_nested(pc + 1, at).has_value();
}

bool RegexSearch::is_word_before(size_t at) const {
  return at > 0 && word_bitmap().contains(decode_utf8(text_, previous_utf8(text_, at)).value);
}

bool RegexSearch::is_word_at(size_t at) const {
  return at < text_.size() && word_bitmap().contains(decode_utf8(text_, at).value);
}

bool RegexSearch::holds(RegexNodeKind assertion, size_t at) const {
  switch (assertion) {
    case RegexNodeKind::kLineStart:
      return at == 0 || (text_[at - 1] == '\n' && at < text_.size());
    case RegexNodeKind::kLineEnd:
      return at == text_.size() || text_[at] == '\n';
    case RegexNodeKind::kTextStart:
      return at == 0;
    case RegexNodeKind::kTextEnd:
      return at == text_.size();
    case RegexNodeKind::kTextEndOrLastLineFeed:
      return at == text_.size() || (at + 1 == text_.size() && text_[at] == '\n');
    case RegexNodeKind::kWordBorder:
      return is_word_before(at) != is_word_at(at);
    case RegexNodeKind::kNotWordBorder:
      return is_word_before(at) == is_word_at(at);
    default:
      return true;
  }
}

}  // namespace vernier
