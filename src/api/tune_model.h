#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/decoder.h"
#include "ops/backend.h"
#include "tune/tactic_store.h"

namespace vernier {

/// Whether problems that the store knows are measured again.
enum class TuneWhat : uint8_t { kMissing, kAll };

struct TuneRequest {
  TuneWhat what = TuneWhat::kMissing;
  int64_t budget_ns = 60'000'000'000;
  int64_t most_bytes = 1'000'000'000;  ///< that measuring may take beside the model
  std::vector<std::string> skip;       ///< ops: of the problem ("linear") or of the model ("head")
  std::string version;                 ///< of this program
  std::function<void(int64_t done, int64_t total)> on_progress = {};  ///< after each problem
};

/// What became of one problem.
struct TunedProblem {
  enum class State : uint8_t {
    kMeasured,
    kKnown,       ///< was measured before
    kNotCovered,  ///< time was up
    kSkipped,
    kFailed,
  };
  Problem problem;
  std::vector<std::string> ops;  ///< of the model that run it: "gate_up", "down"
  State state = State::kNotCovered;
  Tactic tactic = {};           ///< of a problem that was measured
  double fixed_ns = 0;          ///< of the fixed choice, where it was measured
  bool fixed = false;           ///< the fixed choice was taken
  std::string why = {};         ///< it failed
  std::vector<int> ranks = {};  ///< of several, those that have it
};

struct TuneReport {
  std::vector<TunedProblem> problems;  ///< in the order in which they would be measured
  int64_t elapsed_ns = 0;

  int64_t count(TunedProblem::State state) const;
  /// Of those that were measured, how many times as fast as the fixed choices: the geometric mean; 1 of none.
  double mean_gain() const;
};

/// Every problem that the parts' products are in steps of one row to many, the most frequent steps first: of a row that
/// is decoded alone, then of a chunk of a prompt, then of what lies between.
std::vector<TunedProblem> list_problems(const Backend& backend, std::span<const DecoderPart> parts);

/// Refuses an op to skip that none of the problems has.
Status check_skipped_ops(std::span<const TunedProblem> problems, std::span<const std::string> skip);

/// Measures what the store does not know, on the parts' own matrices, and commits each tactic as soon as it is found;
/// the backend then chooses by it. One candidate that fails fails alone. Not while a step runs.
Result<TuneReport> tune_model(Backend& backend, std::span<const DecoderPart> parts, TacticStore& store,
                              const TuneRequest& request);

}  // namespace vernier
