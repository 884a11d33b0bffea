#include "ops/ngram_spec.h"

#include "base/check.h"

namespace vernier {

int32_t ngram_row(const NgramSpec& spec, std::span<const int32_t> tokens) {
  const auto modulus = static_cast<uint64_t>(spec.rows), base = static_cast<uint64_t>(spec.vocab) % modulus;
  uint64_t sum = 0, weight = 1 % modulus;
  size_t left = tokens.size();
  for (int j = 0; j < spec.order && left > 0; ++j) {
    const int32_t token = tokens[--left];
    if (j > 0 && token == spec.end_token) break;
    sum = (sum + static_cast<uint64_t>(token) * weight) % modulus;
    weight = weight * base % modulus;
  }
  return static_cast<int32_t>(sum);
}

void ngram_rows(const NgramSpec& spec, const StepView& step, std::vector<int32_t>& rows) {
  CHECK(step.histories.size() == step.sequences.size(), "{} histories for {} sequences", step.histories.size(),
        step.sequences.size());
  rows.resize(step.tokens.size());
  for (size_t s = 0; s < step.sequences.size(); ++s) {
    const SequenceRows& own = step.sequences[s];
    const std::span<const int32_t> history = step.histories[s];
    CHECK(static_cast<int64_t>(history.size()) >= int64_t{own.first_position} + own.rows,
          "a history of {} tokens for rows up to {}", history.size(), own.first_position + own.rows);
    for (int32_t i = 0; i < own.rows; ++i) {
      rows[static_cast<size_t>(own.first_row + i)] =
          ngram_row(spec, history.first(static_cast<size_t>(own.first_position + i + 1)));
    }
  }
}

}  // namespace vernier
