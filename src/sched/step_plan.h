#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/prefix_tree.h"

namespace vernier {

/// Names a sequence for ever: no other gets the same number.
enum class SequenceId : uint64_t {};

/// Consecutive positions of one sequence that a step computes.
struct PlannedRows {
  SequenceId sequence{};
  int32_t first_position = 0;
  int32_t rows = 0;
  int32_t new_blocks = 0;  ///< taken at launch, as many in each cache class
  bool sample = false;     ///< the last row's logits are wanted: it is the last unit known
  bool decode = false;     ///< one row of a stream that has begun
};

/// A waiting sequence that gets its first rows in this step, behind what of its prompt is cached.
struct Admission {
  SequenceId sequence{};
  PrefixHit hit;
};

/// What planning needs besides its answer; kept so that a plan that is reused allocates nothing.
struct PlanScratch {
  struct Candidate {
    int32_t priority = 0;
    bool preempted = false;
    bool examined = false;  // whether `hit` is known
    int32_t remainder = 0;  // tokens to compute; without a hit until it is examined
    int32_t share = 0;
    int32_t slot = 0;
    uint64_t order = 0;
    PrefixHit hit;
  };
  struct Prompt {
    int32_t remainder = 0;
    size_t index = 0;  // among the running
  };
  std::vector<int32_t> available;             // [classes] blocks that are free or may be evicted
  std::vector<int32_t> reserved;              // [classes] blocks that admitted prompts will still take
  std::vector<std::vector<int32_t>> holders;  // [classes][blocks] as after the planned preemptions and hits
  bool holders_known = false;
  std::vector<int32_t> row_of;         // [running] index into rows, -1: none, -2: preempted
  std::vector<int32_t> reserved_from;  // [running] position from which it still takes blocks; -1: none
  std::vector<Candidate> candidates;
  std::vector<Prompt> prompts;        // that are running and not computed yet, by precedence
  std::vector<Candidate> level;       // candidates of one priority
  std::vector<Prompt> level_prompts;  // prompts of one priority
  std::vector<int64_t> charged;       // [fair shares] rows promised and not computed yet
  std::vector<int32_t> blocks;
};

/// One step as plain data, valid for the state it was planned for until that changes. Reuse the object: planning into
/// it allocates nothing once it has grown.
struct StepPlan {
  int64_t now_ns = 0;
  uint64_t revision = 0;                ///< of the state
  std::vector<SequenceId> preemptions;  ///< give back their blocks before anything else and wait again
  std::vector<Admission> admissions;
  std::vector<PlannedRows> rows;    ///< decode rows first, then chunks of prompts
  std::vector<SequenceId> expired;  ///< wait past their deadline; the engine cancels them, after the launch
  int32_t total_rows = 0;
  int32_t decode_rows = 0;
  int32_t sampled_rows = 0;

  PlanScratch scratch;

  bool empty() const { return rows.empty(); }
  /// For logs and tests: what is planned, in one line for each entry.
  std::string to_string() const;
};

}  // namespace vernier
