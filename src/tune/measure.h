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
  int64_t least_ns = 20'000'000;       ///< the same: what a machine does for a moment favours nobody
  int64_t most_rounds = 1000;          ///< after which the leader is taken
  double most_tie = 0.01;              ///< a tie takes none that is slower than the leader by more of its time
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
/// machine down slows all of them, until each is either clearly slower than the leader, and not run again, or surely no
/// more than `most_tie` slower. Of these and the leader the first by name and parameters is taken, so that several who
/// measure agree. One of which neither is known when time is up is not taken. Fails where no contender is right.
Result<Measured> measure(const std::vector<Contender>& contenders, const MeasureRules& rules);

}  // namespace vernier
