#include "text/regex.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {
namespace {

const CodePointBitmap& word_bitmap() {
  static const CodePointBitmap bitmap(unicode::word());
  return bitmap;
}

constexpr size_t kNowhere = 1;
constexpr size_t kEnds = 2;
constexpr size_t kMostOutcomes = 1 << 23;  // 256 MB

}  // namespace

RegexSearch::RegexSearch(const Regex& regex, std::string_view text, bool remember)
    : regex_(regex),
      text_(text),
      // Ordinary text takes a few steps for each byte; ten times that is a pattern that goes back too often.
      step_limit_(40 * uint64_t{text.size()} + 10000) {
  if (remember || regex.must_remember()) begin_remembering();
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

size_t& RegexSearch::outcome(State state) {
  // To forget costs time only, but what is on the trail must count as tried.
  if (outcomes_.size() > std::max(kMostOutcomes, 2 * trail_.size())) {
    outcomes_ = FlatMap<size_t>();
    for (State tried : trail_) outcome(tried) = kNowhere;
  }
  return outcomes_.insert(state.at * regex_.program().size() + state.pc, 0);
}

/// What is remembered of an instruction at a place: false that it fails; true that its body ends, and `pc` and `at`
/// have moved there; nothing the first time.
std::optional<bool> RegexSearch::known(uint32_t& pc, size_t& at) {
  if (body_match_) {
    size_t& value = outcome({pc, at});
    if (value == kNowhere) return false;
    if (value == 0) {
      // Failed until it ends: no loop in a body comes back here without a character.
      value = kNowhere;
      trail_.push_back({pc, at});
      return std::nullopt;
    }
    pc = *body_match_;
    at = value - kEnds;
    return true;
  }
  size_t bit = at * regex_.program().size() + pc;
  uint64_t mask = uint64_t{1} << (bit & 63);
  if ((seen_[bit >> 6] & mask) != 0) return false;
  seen_[bit >> 6] |= mask;
  return std::nullopt;
}

/// The states of the trail from `bottom` on led to `end`.
void RegexSearch::remember_end(size_t bottom, size_t end) {
  for (size_t i = bottom; i < trail_.size(); ++i) outcome(trail_[i]) = end + kEnds;
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

void RegexSearch::count(size_t steps) {
  steps_ += steps;
  if (steps_ > step_limit_ && !remember_) begin_remembering();
}

/// Runs the body of a look or of an atomic group: where it ends depends on where it begins, and on nothing else.
std::optional<size_t> RegexSearch::match_body(const RegexInstruction& instruction, uint32_t pc, size_t at) {
  const size_t bottom = trail_.size();
  std::optional<uint32_t> outer = std::exchange(body_match_, instruction.target - 1);
  std::optional<size_t> end = match_at(pc + 1, at);
  if (end) remember_end(bottom, *end);
  body_match_ = outer;
  trail_.resize(bottom);
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
    count(1);
    Frame& frame = stack_.back();
    pc = frame.pc;
    at = frame.at;
    trail_.resize(frame.trail);
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
      return step_possessive_run(pc, at);
    case RegexOp::kSplit:
    case RegexOp::kSplitLazy: {
      if (remember_) {
        if (std::optional<bool> outcome = known(pc, at)) return *outcome;
      }
      count(1);  // a loop that never fails takes steps, too
      bool lazy = instruction.op == RegexOp::kSplitLazy;
      stack_.push_back({lazy ? pc + 1 : instruction.target, false, at, at, trail_.size()});
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
      std::optional<size_t> end = match_body(instruction, pc, at);
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
  if (at > low) stack_.push_back({pc, true, at, low, trail_.size()});
  count(at - low);
  return true;
}

bool RegexSearch::step_possessive_run(uint32_t& pc, size_t& at) {
  const size_t low = at;
  while (size_t size = character_in(regex_.program()[pc].set, at)) {
    if (remember_) {
      if (std::optional<bool> outcome = known(pc, at)) return *outcome;
    }
    at += size;
  }
  ++pc;
  count(at - low);
  return true;
}

/// The same, one character for each step, so that each is remembered.
bool RegexSearch::step_run_remembering(uint32_t& pc, size_t& at) {
  if (std::optional<bool> outcome = known(pc, at)) return *outcome;
  size_t size = character_in(regex_.program()[pc].set, at);
  if (size == 0) {
    ++pc;
    return true;
  }
  stack_.push_back({pc + 1, false, at, at, trail_.size()});
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
  return match_body(instruction, pc, at).has_value();
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
