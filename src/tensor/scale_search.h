#pragma once

#include <cstdint>
#include <span>

namespace vernier {

/// Scales of single groups, by the smallest sum of squared differences among a few neighbours of the usual choice,
/// which wins a tie. Values are finite. `codes` are as many as `values`, one in each byte.

/// The E8M0 scale of a group of MXFP4; starts from floor(log2(largest)) - 2.
uint8_t search_mxfp4(std::span<const float> values, std::span<uint8_t> codes);
/// The E4M3 scale of a group of NVFP4 under the global scale; the largest value may become code 6, 4 or between.
uint8_t search_nvfp4(std::span<const float> values, float outer, std::span<uint8_t> codes);
/// The E8M0 scale of a group of MXFP8.
uint8_t search_mxfp8(std::span<const float> values, std::span<uint8_t> codes);

/// NVFP4's global scale: leaves the group scales room to grow, has 18 bits of significand (code x scale x global is
/// exact) and is the reciprocal of its own reciprocal, for files that store that.
float nvfp4_global_scale(float largest);

/// f32 scales of E4M3 codes that are tried, an eighth of an octave apart: how the numbers fall between the steps of
/// the codes differs.
constexpr int kByteScaleCandidates = 8;
/// 20 bits of significand. Never 0, never so large that scale x code is infinite.
float byte_scale_candidate(float largest, int candidate);
/// The candidate that loses least, given the noise of each; 0, the scale that every tool takes, unless another loses a
/// sixteenth less: over many numbers all lose alike, and what differs is chance.
int least_byte_noise(std::span<const double> noise);
/// Sum of squared differences of the values under that scale.
double byte_noise(std::span<const float> values, float scale);

}  // namespace vernier
