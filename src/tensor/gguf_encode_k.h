#pragma once

#include <cstdint>
#include <span>

#include "tensor/gguf_layout.h"

namespace vernier {

using SuperBlockValues = std::span<const float, gguf_layout::kSuperBlock>;

/// Binary16 of a finite value, at most 65504 in magnitude.
uint16_t saturated_f16(float value);
/// value / scale to the nearest whole code, ties to even, within [lowest, highest]; 0 (or the nearest to it) where the
/// scale is 0.
int nearest_code(float value, float scale, int lowest, int highest);

/// Encoders of the K formats, by the range of each group: no search for a smaller error. Exact for blocks in which
/// every group uses its outermost codes and some group the largest scale (and minimum). `block` is zero on entry.
void encode_block(SuperBlockValues values, gguf_layout::Q2_K& block);
void encode_block(SuperBlockValues values, gguf_layout::Q3_K& block);
void encode_block(SuperBlockValues values, gguf_layout::Q4_K& block);
void encode_block(SuperBlockValues values, gguf_layout::Q5_K& block);
void encode_block(SuperBlockValues values, gguf_layout::Q6_K& block);

}  // namespace vernier
