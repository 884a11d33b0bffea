#include "tune/fallback.h"

namespace vernier {

const Candidate* stood_in_for(const Choice& choice) {
  for (const Candidate& candidate : choice.candidates) {
    switch (candidate.reason.code) {
      case ReasonCode::kChosen:
        return nullptr;
      case ReasonCode::kShape:
      case ReasonCode::kNotBuilt:
      case ReasonCode::kNeedsFeature:
      case ReasonCode::kBlockSize:
      case ReasonCode::kScales:
      case ReasonCode::kResultType:
      case ReasonCode::kValues:
        return &candidate;
      case ReasonCode::kNeedsIsa:
      case ReasonCode::kSlower:
      case ReasonCode::kRows:
      case ReasonCode::kCodec:
      case ReasonCode::kNumerics:
      case ReasonCode::kNotAsked:
        break;
    }
  }
  return nullptr;
}

}  // namespace vernier
