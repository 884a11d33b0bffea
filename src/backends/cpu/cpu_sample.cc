#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_ops.h"

namespace vernier {
namespace {

constexpr int64_t kLogitsPerChunk = 16384;

int chunks_of(int64_t vocab) {
  return static_cast<int>((vocab + kLogitsPerChunk - 1) / kLogitsPerChunk);
}

bool is_plain_greedy(const SampleSpec& spec) {
  return spec.temperature < kGreedyBelow && spec.edits.empty() && spec.mask.empty() && spec.allowed.empty() &&
         spec.forced < 0 && spec.top_logprobs < 1;
}

}  // namespace

Result<SampledRows> CpuOps::sample(const Value& logits, std::span<const SampleSpec> specs) {
  CHECK(static_cast<int64_t>(specs.size()) == logits.rows(), "{} specs for {} rows", specs.size(), logits.rows());
  const float* rows = ready(logits.id(*this));
  SampledRows tokens;
  tokens.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    tokens.push_back(sample_one(rows + static_cast<int64_t>(i) * logits.cols(), logits.cols(), specs[i]));
  }
  return tokens;
}

/// `sample_row`; where the largest logit wins, its two passes over the vocabulary are shared by the threads.
Result<SampledToken> CpuOps::sample_one(const float* logits, int64_t vocab, const SampleSpec& spec) {
  if (is_plain_greedy(spec)) {
    const int64_t known = spec.known_of(vocab);
    float most = largest_of(logits, known);
    if (std::isfinite(most)) return pick_largest(logits, known, most, spec.top_logprobs == 0);
  }
  // Overwrites what it is given, and the handle may be read again.
  float* copy = edited_.reserve(vocab);
  std::copy_n(logits, vocab, copy);
  return sample_row({copy, static_cast<size_t>(vocab)}, spec);
}

/// NaN if there is one.
float CpuOps::largest_of(const float* logits, int64_t vocab) {
  chunk_largest_.resize(static_cast<size_t>(chunks_of(vocab)));
  pool_.parallel_for(chunks_of(vocab), [&](int chunk) {
    int64_t begin = chunk * kLogitsPerChunk;
    chunk_largest_[static_cast<size_t>(chunk)] =
        rows_.largest(logits + begin, std::min(kLogitsPerChunk, vocab - begin));
  });
  float most = chunk_largest_[0];
  for (float other : chunk_largest_) most = other > most || std::isnan(other) ? other : most;
  return most;
}

SampledToken CpuOps::pick_largest(const float* logits, int64_t vocab, float most, bool logprob) {
  // The first chunk that holds it, and the first of its kind there: ties go to the lowest id.
  auto holder = std::ranges::find(chunk_largest_, most) - chunk_largest_.begin();
  SampledToken picked;
  picked.token = static_cast<int32_t>(std::find(logits + holder * kLogitsPerChunk, logits + vocab, most) - logits);
  if (!logprob) return picked;
  chunk_sums_.resize(static_cast<size_t>(chunks_of(vocab)));
  pool_.parallel_for(chunks_of(vocab), [&](int chunk) {
    int64_t begin = chunk * kLogitsPerChunk;
    chunk_sums_[static_cast<size_t>(chunk)] =
        rows_.sum_exp(logits + begin, most, std::min(kLogitsPerChunk, vocab - begin));
  });
  double sum = 0;
  for (double part : chunk_sums_) sum += part;
  picked.logprob = static_cast<float>(-std::log(sum));
  return picked;
}

}  // namespace vernier
