#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

/// A candidate as it is measured.
struct Contender {
  NamedKernel named;
  int64_t needed_bytes = 0;             ///< of memory that is taken while it is measured
  std::function<Status()> check;        ///< runs it once and compares with the reference; kCorrupt: a wrong result
  std::function<Result<double>()> run;  ///< nanoseconds of one run with its weights in no cache
};

struct MeasureRules {
  int64_t budget_ns = 2'000'000'000;   ///< of one problem; a problem that was begun has at least its first rounds
  int64_t most_bytes = 1'000'000'000;  ///< that a candidate may take
  int64_t least_rounds = 9;            ///< before one may be clearly ahead
  int64_t most_rounds = 60;            ///< after which those who are left are a tie
  double least_lead = 0.01;            ///< less is no lead: 0.01 of the leader's time
  std::function<int64_t()> now_ns = monotonic_ns;
};

/// What was found of a problem's contenders.
struct Measured {
  NamedKernel chosen;
  TacticTime time;
  bool tie = false;
  std::vector<TriedCandidate> others;  ///< the next best first; those that were refused last
  double first_ns = 0;                 ///< median of the first contender, the fixed choice; 0: it was refused
  bool first_is_chosen = false;
};

/// Compares each contender with the reference, then times those that are right in turns, so that whatever slows the
/// machine down slows all of them, until one is clearly ahead or the leaders are no more than `least_lead` apart: then
/// the first of these by name and parameters is taken, so that several who measure agree. One that is clearly slower is
/// not run again. Fails where no contender is right.
Result<Measured> measure(const std::vector<Contender>& contenders, const MeasureRules& rules);

}  // namespace vernier
