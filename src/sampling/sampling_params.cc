#include "sampling/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"

namespace vernier {
namespace {

/// How many of the latest tokens, prompt included, the penalties of a dialect see; 0: all, and then frequency and
/// presence see the output alone.
size_t penalty_window(SamplerDialect dialect) {
  switch (dialect) {
    case SamplerDialect::kLlama:
      return 64;
    case SamplerDialect::kMlx:
      return 20;
    case SamplerDialect::kOpenAI:
    case SamplerDialect::kSglang:
      return 0;
  }
  return 0;
}

Status check_range(const char* field, float value, float low, float high) {
  if (std::isnan(value) || value < low || value > high) {
    return invalid_argument("{} is {}, expected a number from {} to {}", field, value, low, high);
  }
  return {};
}

}  // namespace

Status SamplingParams::check(int64_t vocab) const {
  constexpr float kLargest = 3.4e38F;
  TRY_STATUS(check_range("temperature", temperature, 0, kLargest));
  TRY_STATUS(check_range("top_p", top_p, 0, 1));
  TRY_STATUS(check_range("min_p", min_p, 0, 1));
  TRY_STATUS(check_range("typical_p", typical_p, 0, 1));
  TRY_STATUS(check_range("frequency_penalty", frequency_penalty, -2, 2));
  TRY_STATUS(check_range("presence_penalty", presence_penalty, -2, 2));
  TRY_STATUS(check_range("repetition_penalty", repetition_penalty, 1e-3F, 1e3F));
  if (top_k < -1) return invalid_argument("top_k is {}, expected -1 or 0 (off) or a positive count", top_k);
  for (auto [token, bias] : logit_bias) {
    if (token < 0 || token >= vocab) {
      return invalid_argument("logit_bias names token {}, expected 0 to {}", token, vocab - 1);
    }
    TRY_STATUS(check_range("logit_bias", bias, -100, 100));
  }
  return {};
}

std::vector<uint32_t> allow_only(std::span<const int32_t> tokens, int64_t vocab) {
  std::vector<uint32_t> words(static_cast<size_t>((vocab + 31) / 32));
  for (int32_t token : tokens) words[static_cast<size_t>(token / 32)] |= 1U << (token % 32);
  return words;
}

Result<SamplerDialect> parse_sampler_dialect(std::string_view text) {
  if (text == "openai" || text == "vllm") return SamplerDialect::kOpenAI;
  if (text == "sglang") return SamplerDialect::kSglang;
  if (text == "llama") return SamplerDialect::kLlama;
  if (text == "mlx") return SamplerDialect::kMlx;
  return invalid_argument("sampler dialect '{}' is unknown; expected openai, sglang, llama or mlx", text);
}

TokenHistory::TokenHistory(std::span<const int32_t> prompt)
    : tokens_(prompt.begin(), prompt.end()), prompt_tokens_(prompt.size()) {}

void TokenHistory::append(int32_t token) {
  tokens_.push_back(token);
  ++output_counts_[token];
}

SampleSpec TokenHistory::next_spec(const SamplingParams& params, uint32_t choice) const {
  SampleSpec spec;
  spec.temperature = params.temperature;
  spec.top_k = std::max(params.top_k, 0);
  spec.top_p = params.top_p;
  if (params.top_p == 0) {  // the smallest set of likeliest tokens that has any mass is one token
    spec.top_p = 1;
    spec.top_k = 1;
  }
  spec.min_p = params.min_p;
  spec.typical_p = params.typical_p;
  spec.allowed = params.allowed;
  spec.dialect = params.dialect;
  spec.seed = choice_seed(params.seed, choice);
  spec.position = static_cast<uint32_t>(tokens_.size() - prompt_tokens_);

  std::map<int32_t, LogitEdit> edits;
  auto edit = [&](int32_t token) -> LogitEdit& {
    LogitEdit& entry = edits[token];
    entry.token = token;
    return entry;
  };
  const size_t window = penalty_window(params.dialect);
  std::span<const int32_t> seen(tokens_);
  if (window > 0 && seen.size() > window) seen = seen.last(window);
  if (params.repetition_penalty != 1) {
    for (int32_t token : seen) edit(token).repetition = params.repetition_penalty;
  }
  if (params.frequency_penalty != 0 || params.presence_penalty != 0) {
    auto penalise = [&](int32_t token, int32_t count) {
      edit(token).penalty = params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
    };
    if (window == 0) {
      for (auto [token, count] : output_counts_) penalise(token, count);
    } else {
      std::map<int32_t, int32_t> counts;
      for (int32_t token : seen) ++counts[token];
      for (auto [token, count] : counts) penalise(token, count);
    }
  }
  for (auto [token, bias] : params.logit_bias) edit(token).bias += bias;
  const std::span<const int32_t> output = std::span(tokens_).subspan(prompt_tokens_);
  for (const std::vector<int32_t>& sequence : params.banned_sequences) {
    const std::span<const int32_t> before = std::span(sequence).first(sequence.size() - 1);
    if (output.size() < before.size() || !std::ranges::equal(before, output.last(before.size()))) continue;
    edit(sequence.back()).bias = -std::numeric_limits<float>::infinity();
  }
  spec.edits.reserve(edits.size());
  for (auto& [token, entry] : edits) spec.edits.push_back(entry);
  return spec;
}

uint64_t choice_seed(uint64_t seed, uint32_t choice) {
  return choice == 0 ? seed : fmix64(seed ^ choice);
}

}  // namespace vernier
