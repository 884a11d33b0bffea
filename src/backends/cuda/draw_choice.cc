#include "backends/cuda/draw_choice.h"

#include <algorithm>

namespace vernier {
namespace {

cuda::DrawCut cut_of(const SampleSpec& spec) {
  if (spec.temperature < kGreedyBelow || (spec.top_k <= 0 && spec.top_p >= 1 && spec.min_p <= 0)) {
    return cuda::DrawCut::kNone;
  }
  switch (spec.dialect) {
    case SamplerDialect::kOpenAI:
      return cuda::DrawCut::kMinThenBest;
    case SamplerDialect::kSglang:
      return cuda::DrawCut::kTogether;
    case SamplerDialect::kLlama:
      return cuda::DrawCut::kBestThenMin;
    case SamplerDialect::kMlx:
      break;
  }
  return cuda::DrawCut::kMassThenMin;
}

}  // namespace

bool changes_logits(const SampleSpec& spec) {
  return !spec.edits.empty() || !spec.mask.empty() || !spec.allowed.empty();
}

bool takes_largest(const SampleSpec& spec, int64_t vocab) {
  return device_draws(spec, vocab) && spec.temperature < kGreedyBelow && !changes_logits(spec) &&
         spec.known_of(vocab) == vocab;
}

bool device_draws(const SampleSpec& spec, int64_t vocab) {
  const auto fits = [&](std::span<const uint32_t> mask) {
    return mask.empty() || std::ssize(mask) == (vocab + 31) / 32;
  };
  return spec.forced < 0 && spec.top_logprobs < 0 && spec.typical_p >= 1 && fits(spec.mask) && fits(spec.allowed) &&
         std::ranges::all_of(spec.edits, [&](const LogitEdit& edit) { return edit.token >= 0 && edit.token < vocab; });
}

cuda::DrawRow draw_row(const SampleSpec& spec, int64_t vocab) {
  cuda::DrawRow row;
  row.seed = spec.seed;
  row.position = spec.position;
  row.temperature = spec.temperature < kGreedyBelow ? 0 : spec.temperature;
  row.top_p = spec.top_p;
  row.min_p = spec.min_p;
  row.top_k = spec.top_k;
  row.known = static_cast<int32_t>(spec.known_of(vocab));
  row.cut = cut_of(spec);
  row.divide_last = spec.dialect == SamplerDialect::kLlama || spec.dialect == SamplerDialect::kMlx;
  row.penalty_first = spec.dialect == SamplerDialect::kSglang;
  return row;
}

}  // namespace vernier
