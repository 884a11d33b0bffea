#include "api/kernel_fallbacks.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/decoder_spec.h"

namespace vernier {
namespace {

constexpr int64_t kPrefillRows = 512;

/// The first candidate, in the order of preference, that something other than the step's shape rules out.
const Candidate* refused_before_chosen(const Choice& choice) {
  for (const Candidate& candidate : choice.candidates) {
    switch (candidate.reason.code) {
      case ReasonCode::kChosen:
        return nullptr;
      case ReasonCode::kNeedsIsa:
      case ReasonCode::kCodec:
      case ReasonCode::kShape:
      case ReasonCode::kNumerics:
      case ReasonCode::kNotBuilt:
      case ReasonCode::kNeedsFeature:
      case ReasonCode::kBlockSize:
      case ReasonCode::kScales:
      case ReasonCode::kResultType:
        return &candidate;
      case ReasonCode::kSlower:
      case ReasonCode::kRows:
      case ReasonCode::kNotAsked:
        break;
    }
  }
  return nullptr;
}

using FallbackKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

void count_choice(const Choice& choice, const std::string& phase, std::map<FallbackKey, int64_t>& counts) {
  const Candidate* refused = refused_before_chosen(choice);
  if (refused == nullptr) return;
  ++counts[{choice.problem.op, phase, choice.chosen().kernel, refused->kernel,
            std::string(name(refused->reason.code))}];
}

}  // namespace

std::vector<KernelFallback> kernel_fallbacks(const LoadedModel& model, CodecId kv_type) {
  std::map<FallbackKey, int64_t> counts;
  const std::vector<CacheSpec> caches = cache_specs(model.decoder().spec(), kv_type);
  for (const auto& [phase, rows] : {std::pair("decode", int64_t{1}), std::pair("prefill", kPrefillRows)}) {
    for (const DecoderPart& part : model.decoder().parts()) {
      if (part.matrix != nullptr) {
        for (const Choice& choice : model.backend().explain_linear(*part.matrix, part.rows_of(rows)))
          count_choice(choice, phase, counts);
      } else {
        const CacheSpec& cache = caches[static_cast<size_t>(part.layer)];
        count_choice(model.backend().explain_attend(part.attn->spec, cache, rows), phase, counts);
      }
    }
  }
  std::vector<KernelFallback> fallbacks;
  for (const auto& [key, count] : counts) {
    const auto& [op, phase, kernel, instead_of, reason] = key;
    fallbacks.push_back({op, phase, kernel, instead_of, reason, count});
  }
  return fallbacks;
}

}  // namespace vernier
