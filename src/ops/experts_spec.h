#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/gate_spec.h"

namespace vernier {

/// What a router's logits become: the weights of experts, and the scores by which they are chosen.
enum class RouterScore : uint8_t {
  kSoftmax,  ///< over all experts
  kSigmoid,  ///< of each on its own
};

/// How good a group of experts is, where those of the best groups alone may be chosen.
enum class GroupScore : uint8_t {
  kBest,     ///< its best expert's score
  kBestTwo,  ///< the sum of its best two
};

/// Which experts a row meets, and what each of them does. Experts of the same score are chosen in order of their
/// number.
struct ExpertsSpec {
  int experts = 0;
  int chosen = 0;     ///< of them, by each row
  int64_t width = 0;  ///< columns between the two products
  RouterScore score = RouterScore::kSoftmax;
  /// The weights of the chosen are divided by their sum. With a softmax this is the softmax over the chosen alone.
  bool normalize = false;
  float scale = 1;  ///< of all weights
  int groups = 1;   ///< of consecutive experts; divides them
  int chosen_groups = 1;
  GroupScore group_score = GroupScore::kBest;
  GateSpec gate;
  int identity = 0;  ///< the last of the experts, which answer a row with itself and have no weights

  int weighted() const { return experts - identity; }
  std::string to_string() const;
};

/// An expert that a row chose, and the weight of its answer.
struct ChosenExpert {
  int expert = 0;
  float weight = 0;
};

/// The experts of one row, best first: `out` has spec.chosen places. `correction` is added to the scores for the choice
/// and not to the weights; empty where there is none. Logits that are not numbers choose experts that exist, with
/// weights that are not numbers.
void route_row(const ExpertsSpec& spec, std::span<const float> logits, std::span<const float> correction,
               std::span<ChosenExpert> out);

}  // namespace vernier
