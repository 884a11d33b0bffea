#pragma once

#include <optional>

#include "grammar/pattern.h"

namespace vernier {

/// The same texts with fewer counts: what repeats the same characters side by side or within each other is counted
/// once, as `(.{1,20}.{1,20}){1,5}` is `.{2,200}`. Counts that overlap can be met in many ways, and a parser follows
/// them all.
PatternNode join_counts(PatternNode node);

/// The same characters again and again.
struct CountedRun {
  CharSet chars;
  size_t least = 1;
  size_t most = 1;
};
/// What the pattern, joined, is as a run; nothing where it is more than one.
std::optional<CountedRun> counted_run(const PatternNode& node);

}  // namespace vernier
