#pragma once

#include <cstdint>
#include <optional>

#include "backends/cpu/kernels/panel_format.h"
#include "tensor/qtensor.h"

namespace vernier {

/// The panel format that holds the codes and scales of a codec as they are; none for codecs that are stored as floats.
std::optional<PanelFormat> native_format(CodecId codec);

/// Writes row `row` of `tensor` as row `lane` of a zeroed panel of its native format.
void pack_row(const QTensor::View& tensor, int64_t row, const PanelLayout& layout, int lane, uint8_t* panel);

/// Writes float32 numbers [cols] as row `lane` of a zeroed dense panel. bf16 and f16 panels take only numbers that they
/// hold exactly.
void pack_float_row(const float* values, int64_t cols, const PanelLayout& layout, int lane, uint8_t* panel);

}  // namespace vernier
