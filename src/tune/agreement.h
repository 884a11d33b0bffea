#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

// How ranks of one model come to choose alike. All of this is pure: each rank calls it with the same facts, what every
// rank has told, by rank, and comes to the same end. Carrying them from rank to rank is the caller's.

/// A problem of a rank's share, and what the rank would choose without measuring.
struct RankProblem {
  Problem problem;
  std::vector<std::string> ops;       ///< of the model that run it
  std::optional<NamedKernel> chosen;  ///< none: no tactic that fits here is known
};

/// What a rank tells before anything is measured.
struct RankKnowledge {
  Facts device;
  Facts libraries;
  Facts settings;  ///< what it was asked to do, its program's version too
  int64_t left_ns = 0;
  std::vector<RankProblem> problems;  ///< in the order in which it would measure them
};
std::string write_knowledge(const RankKnowledge& knowledge);
Result<RankKnowledge> read_knowledge(std::string_view bytes);

/// Refuses ranks of different devices, libraries or settings, with what differs: no choice would hold on all.
Status check_alike(std::span<const RankKnowledge> by_rank);

/// A problem of one rank or several.
struct SharedProblem {
  Problem problem;
  std::vector<std::string> ops;   ///< on any rank
  std::vector<int> ranks;         ///< that have it
  bool is_known = false;          ///< each of them has the same choice
  std::vector<int> knowing = {};  ///< have a choice; where it is not known, they are not all or they differ
};
/// The union of all ranks' problems in the order in which they are measured: those first of which some rank has a
/// choice that others have not, then by the earliest place that any rank gave it, then by name.
std::vector<SharedProblem> share_problems(std::span<const RankKnowledge> by_rank);

/// What a rank found of a problem that it has, or why nothing.
struct RankFinding {
  std::optional<Tactic> tactic;  ///< with all that was tried
  double fixed_ns = 0;           ///< of the fixed choice; 0: it was refused
  std::string why = {};
  int64_t left_ns = 0;
};
std::string write_finding(RankFinding finding);
Result<RankFinding> read_finding(std::string_view bytes);

/// One tactic for all ranks that have a problem, of what each of them found: a candidate's time is that of the rank
/// where it is slowest, as a step waits for that; one that a rank refused, or does not have, nobody takes. Of those
/// less than `kAgreedTie` behind the best the first by name and parameters is taken. Fails where a rank found nothing,
/// or nothing is left, naming the rank.
Result<Tactic> agree_on_tactic(std::span<const int> ranks, std::span<const RankFinding> by_rank);
inline constexpr double kAgreedTie = 0.01;

/// What a rank will choose of each of its problems, as it looks it up.
struct RankChoices {
  std::vector<std::string> problems;
  std::vector<std::string> kernels;  ///< "": the fixed choice
};
std::string write_choices(const RankChoices& choices);
Result<RankChoices> read_choices(std::string_view bytes);
/// Fails with the first problem that two ranks would choose differently for, and what each would.
Status check_same_choices(std::span<const RankChoices> by_rank);

}  // namespace vernier
