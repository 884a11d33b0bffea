#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/tune_model.h"

namespace vernier {

/// A problem and where it is met.
struct MetProblem {
  TunedProblem told;
  const PackedMatrix* matrix = nullptr;
  int64_t rows = 0;
};

/// See `list_problems`.
std::vector<MetProblem> meet_problems(const Backend& backend, std::span<const DecoderPart> parts);

/// Whether its op, or each op of the model that runs it, is to be skipped.
bool is_skipped(const Problem& problem, std::span<const std::string> ops, std::span<const std::string> skip);

/// What the next of so many problems may take of the time that is left: an even share. What one leaves goes to the
/// rest.
int64_t share_of_budget(int64_t left_ns, int64_t problems);

}  // namespace vernier
