#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja_unicode.h"

namespace vernier::jinja {

/// Code points first, first + stride, ... last move by delta.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
  int32_t delta;
};

/// A code point whose mapping is several code points.
struct SpecialCase {
  uint32_t code;
  CaseMapping mapping;
  const char* text;
};

extern const uint32_t kTraitRuns[];
extern const size_t kTraitRunCount;
extern const CaseRun kUpperRuns[], kLowerRuns[], kTitleRuns[], kFoldRuns[];
extern const size_t kUpperRunCount, kLowerRunCount, kTitleRunCount, kFoldRunCount;
extern const SpecialCase kSpecialCases[];
extern const size_t kSpecialCaseCount;

}  // namespace vernier::jinja
