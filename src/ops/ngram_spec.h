#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/step_view.h"

namespace vernier {

/// One table of an embedding of n-grams. The row that a token takes of it is a hash of the token and of those before
/// it: the sum of token[t - j] * (vocab ^ j mod rows) for j below `order`, mod rows. The sum ends before the sequence's
/// first token and before an end token, which is counted itself where it is the last.
struct NgramSpec {
  int order = 2;           ///< tokens that are hashed, the row's own included
  int64_t rows = 0;        ///< of the table
  int64_t vocab = 0;       ///< base of the hash
  int32_t end_token = -1;  ///< what stands before it belongs to another text; below 0: none
};

/// The row for the last of `tokens`, which are its sequence's from the first on, or at least the last `order` of them.
int32_t ngram_row(const NgramSpec& spec, std::span<const int32_t> tokens);
/// The same for each row of a step, from its sequences' histories.
void ngram_rows(const NgramSpec& spec, const StepView& step, std::vector<int32_t>& rows);

}  // namespace vernier
