#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/choice.h"

namespace vernier {

/// The first bits of a problem's content hash: what a look-up compares.
struct TacticKey {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const TacticKey&) const = default;
};
/// Of the op and of each fact with its name, in order; 64 hexadecimal digits.
std::string problem_hash(const Problem& problem);
TacticKey tactic_key(const Problem& problem);

/// A kernel by its content, never by its place in a list: of a build whose kernel changed it is another.
struct NamedKernel {
  std::string kernel;       ///< "int8_tile_avx2"
  std::string kernel_hash;  ///< of its sources and flags
  Facts parameters;

  std::string to_string() const;  ///< "int8_tile_avx2 (rows_at_once=4)"
};

struct TacticTime {
  double median_ns = 0;
  double spread_ns = 0;  ///< between the quartiles
  int64_t repeats = 0;   ///< 0: was not timed
};

/// A candidate beside the one that was taken, and why it was not.
struct TriedCandidate {
  NamedKernel named;
  std::string verdict;  ///< "slower", "tie", "unclear" when time was up, "failed", "wrong-result", "out-of-memory"
  std::string detail;
  TacticTime time;
};

/// A choice that was measured, with all that it holds for and how sure it is. Plain data; one record of the store.
struct Tactic {
  Problem problem;
  NamedKernel chosen;
  TacticTime time;
  bool tie = false;                    ///< no leader: the first of them by name was taken
  std::vector<TriedCandidate> others;  ///< the next best first
  Facts device;                        ///< backend, device, instruction set, threads: equal here or not used
  Facts libraries;                     ///< driver and versions of libraries: equal here or not used
  std::string clock;                   ///< "governor performance", "unknown"
  int64_t measured_at_ms = 0;          ///< since 1970
  std::string version;                 ///< of the program that measured
};

/// What this process would run on: what a record's conditions are compared with.
struct TacticScope {
  Facts device;
  Facts libraries;
  std::function<std::string(std::string_view kernel)> kernel_hash;  ///< empty: no such kernel here
};

/// Why a record is kept and not used here; empty: it fits.
std::string tactic_misfit(const Tactic& tactic, const TacticScope& scope);

}  // namespace vernier
