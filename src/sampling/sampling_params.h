#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ops/sample_spec.h"

namespace vernier {

/// How a request wants its tokens drawn, in the words of the API. `check` names the field that is out of range.
struct SamplingParams {
  float temperature = 1;
  int32_t top_k = 0;  ///< 0 or -1: off
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  /// Of each, the last token is banned where the answer ends with the others.
  std::vector<std::vector<int32_t>> banned_sequences = {};
  std::vector<uint32_t> allowed = {};  ///< bit i % 32 of word i / 32: token i may be drawn; empty: all may
  uint64_t seed = 0;
  SamplerDialect dialect = SamplerDialect::kOpenAI;

  Status check(int64_t vocab) const;
};

/// The words of SamplingParams::allowed for these tokens, each below `vocab`.
std::vector<uint32_t> allow_only(std::span<const int32_t> tokens, int64_t vocab);

Result<SamplerDialect> parse_sampler_dialect(std::string_view text);

/// The tokens that a request's penalties look at: prompt and output, counted as its dialect counts them. The engine
/// appends each committed token; one thread.
class TokenHistory {
 public:
  explicit TokenHistory(std::span<const int32_t> prompt);
  void append(int32_t token);
  std::span<const int32_t> tokens() const { return tokens_; }

  /// The spec of the next token of choice `choice` of the request.
  SampleSpec next_spec(const SamplingParams& params, uint32_t choice) const;

 private:
  std::vector<int32_t> tokens_;
  size_t prompt_tokens_;
  std::unordered_map<int32_t, int32_t> output_counts_;
};

/// Seed of choice i: the request's own for i = 0, else fmix64(seed ^ i).
uint64_t choice_seed(uint64_t seed, uint32_t choice);

}  // namespace vernier
