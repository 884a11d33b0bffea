#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

/// Words as typed, at blanks, commas and brackets cut apart.
std::vector<std::string> cut_problem_words(std::string_view typed);
/// Whether each word is the op, a fact ("cols=576") or a fact's value ("q4_1"); "2048x576" is rows and columns. What
/// `Problem::to_string` shows finds it.
bool matches_problem(const Problem& problem, std::span<const std::string> words);

/// A choice that a person made: of every problem that the words find.
struct TacticPin {
  std::vector<std::string> words;
  std::string kernel;
  Facts parameters;  ///< those that are left out are the kernel's own
  std::string text;  ///< as typed

  /// "linear[2048x576] q4_1 => int8_stream_avx2 chunk_panels=4"
  static Result<TacticPin> parse(std::string_view text);
};

/// How a backend is to use tactics.
struct TacticUse {
  std::vector<std::string> skip;  ///< ops whose problems keep their fixed choice
  std::vector<TacticPin> pins;    ///< before what was measured; the first that finds a problem
  int64_t watch_every = 0;        ///< one launch in so many is timed beside its record; 0: none

  bool skips(std::string_view op) const;
  const TacticPin* pin_of(const Problem& problem) const;  ///< null: none
};

}  // namespace vernier
