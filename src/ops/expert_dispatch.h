#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/experts_spec.h"
#include "ops/shard_plan.h"

namespace vernier {

/// Rows on their way to the rank that has their experts: codes and every scale travel as one value, and so do the
/// choices.
struct ExpertMessage {
  /// An expert's turn at a row of `rows`.
  struct Choice {
    int64_t row;         ///< of the message
    int64_t source_row;  ///< of the sender
    int expert;          ///< of all ranks
    float weight;
  };

  QTensor rows;                 ///< each once, whatever the number of its experts here
  std::vector<Choice> choices;  ///< by source row, then by expert
};

/// What a step's rows send.
struct ExpertDispatch {
  std::vector<std::optional<ExpertMessage>> to;  ///< by rank; nothing where no row chose an expert there
  int64_t empty_slots = 0;                       ///< choices of an expert below 0: none
  int64_t unknown = 0;                           ///< choices of experts that do not exist: left out, and counted
};

/// `chosen` is [rows, choices of each row]; `experts` says which of them each rank has, in order. Rows of a codec whose
/// scales are shared by rows are refused.
Result<ExpertDispatch> dispatch_rows(const QTensor& rows, std::span<const ChosenExpert> chosen,
                                     std::span<const AxisCut> experts);

/// Adds the answers to a message, [choices, hidden] in its order, to `sums` [rows, hidden], weighted. Given messages in
/// the order of ranks, each row's answers are added in the order of experts.
void add_answers(const ExpertMessage& message, std::span<const float> answers, int64_t hidden, std::span<float> sums);

}  // namespace vernier
