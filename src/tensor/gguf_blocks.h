#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/codec.h"

namespace vernier {

/// Float32 values of whole GGUF blocks, in order: `values` has blocks x group_cols elements.
void decode_gguf_blocks(const Codec& codec, std::span<const std::byte> blocks, std::span<float> values);

/// Encodes whole blocks; `values` are finite. Where some choice of scales reproduces a block exactly and the simple
/// rule of the format (largest magnitude, or range) finds it, the round trip is exact.
void encode_gguf_blocks(const Codec& codec, std::span<const float> values, std::span<std::byte> blocks);

/// E8M0 scale of a group of E2M1 codes: the power of two that brings the largest magnitude below 8, so that it may
/// saturate at 6, as the OCP microscaling rule has it.
uint8_t mxfp4_exponent(std::span<const float> values);

/// Index of the first block whose own scale is no finite number (0xFF for E8M0), if there is one.
std::optional<int64_t> find_bad_block_scale(const Codec& codec, std::span<const std::byte> blocks);

}  // namespace vernier
