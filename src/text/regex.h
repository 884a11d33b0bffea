#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/code_point_set.h"
#include "text/flat_map.h"
#include "text/regex_syntax.h"

namespace vernier {

enum class RegexOp : uint8_t {
  kCharacter,      ///< one character in sets[set]
  kRun,            ///< greedy * over sets[set]
  kPossessiveRun,  ///< the same, without giving back
  kSplit,          ///< goes on at the next instruction; if that fails, at `target`
  kSplitLazy,      ///< the other way round
  kJump,
  kLook,    ///< the body is the next instruction up to its kMatch; goes on at `target`
  kAtomic,  ///< the same
  kAssert,
  kMatch,
};

struct RegexInstruction {
  RegexOp op;
  RegexNodeKind assertion = RegexNodeKind::kEmpty;
  bool negative = false;
  uint16_t set = 0;
  uint32_t target = 0;
  uint32_t behind_characters = 0;  // kLook: steps back before the body; kNotBehind if it looks ahead
};
inline constexpr uint32_t kNotBehind = 0xFFFFFFFF;

/// A compiled regular expression over valid UTF-8, with the leftmost, first-alternative semantics of backtracking.
/// Immutable; any thread. Runs on a flat stack and in time linear in the text: once a search has taken too many steps,
/// it remembers where it failed, and in the bodies of looks and atomic groups where it ended (TEXT-4).
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  /// One that matches exactly this text.
  static Regex literal(std::string_view text);

  const std::vector<RegexInstruction>& program() const { return program_; }
  const std::vector<CodePointBitmap>& sets() const { return sets_; }
  bool must_remember() const { return must_remember_; }
  const std::string& text() const { return text_; }
  bool is_literal() const { return is_literal_; }

 private:
  friend class RegexCompiler;
  std::vector<RegexInstruction> program_;
  std::vector<CodePointBitmap> sets_;
  bool must_remember_ = false;  // a loop whose body can be empty
  bool is_literal_ = false;
  std::string text_;
};

struct RegexMatch {
  size_t begin;
  size_t end;
};

/// Finds the matches of one expression in one text, from left to right. An empty match right after the previous match
/// is passed over. Holds references to both; one thread.
class RegexSearch {
 public:
  /// `remember`: from the first step on, not only once the search has taken many.
  RegexSearch(const Regex& regex, std::string_view text, bool remember = false);
  std::optional<RegexMatch> next();

 private:
  struct Frame {
    uint32_t pc;
    bool run;  // give back one character of a run, down to `low`
    size_t at;
    size_t low;
    size_t trail;  // states of a body that lead here
  };
  /// One instruction of a body at one place.
  struct State {
    uint32_t pc;
    size_t at;
  };

  std::optional<RegexMatch> next_literal();
  std::optional<size_t> match_at(uint32_t pc, size_t at);
  std::optional<size_t> match_body(const RegexInstruction& instruction, uint32_t pc, size_t at);
  bool step(uint32_t& pc, size_t& at);
  bool step_run(uint32_t& pc, size_t& at);
  bool step_run_remembering(uint32_t& pc, size_t& at);
  bool step_possessive_run(uint32_t& pc, size_t& at);
  size_t character_in(uint16_t set, size_t at) const;
  bool holds(RegexNodeKind assertion, size_t at) const;
  bool look(const RegexInstruction& instruction, uint32_t pc, size_t at);
  bool is_word_before(size_t at) const;
  bool is_word_at(size_t at) const;
  std::optional<bool> known(uint32_t& pc, size_t& at);
  size_t& outcome(State state);
  void remember_end(size_t bottom, size_t end);
  void forget(size_t at);
  void count(size_t steps);
  void begin_remembering();

  const Regex& regex_;
  std::string_view text_;
  size_t at_ = 0;
  std::optional<size_t> previous_end_;
  std::vector<Frame> stack_;
  uint64_t steps_ = 0;
  uint64_t step_limit_;
  bool remember_ = false;
  std::vector<uint64_t> seen_;  // one bit for each (position, instruction); empty until it is needed
  FlatMap<size_t> outcomes_;    // of (position, instruction) in a body: 0 not tried, 1 nowhere, else 2 + where it ends
  std::vector<State> trail_;    // the states of the bodies being run that have not failed
  std::optional<uint32_t> body_match_;  // the kMatch of the innermost of them
};

}  // namespace vernier
