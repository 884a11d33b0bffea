#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/panel_format.h"
#include "base/thread_pool.h"
#include "tensor/qtensor.h"
#include "tune/choice.h"

namespace vernier {

/// How an FP8 tensor is kept: as its codes, or, where `refused` says why not, as floats.
struct Fp8Plan {
  PanelFormat format = PanelFormat::kE4M3;
  int group = 0;                 ///< columns of a scale in the panel; 0: a scale a row
  std::vector<float> row_scale;  ///< [rows] in the panel's units, where there is a scale a row
  Reason refused = {};           ///< kChosen: as its codes
};

/// CHECKs that the codec is E4M3 or E5M2, one code after another. Reads all codes: a NaN or an infinity among them
/// would need more of every kernel than its worth.
Fp8Plan plan_fp8(const QTensor& tensor, ThreadPool& pool);

/// Writes row `row` of `tensor` as row `lane` of a zeroed panel.
void pack_fp8_row(const QTensor::View& tensor, int64_t row, const PanelLayout& layout, int lane, uint8_t* panel);

}  // namespace vernier
