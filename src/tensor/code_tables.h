#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace vernier {
namespace code_tables {

inline constexpr uint32_t kQuietNan = 0x7FC00000;

/// The float of a code with kManBits mantissa bits and bias kBias, read as an ordinary number: no infinity, no NaN.
template <int kManBits, int kBias>
constexpr float finite_value(uint32_t magnitude) {
  uint32_t exponent = magnitude >> kManBits;
  uint32_t mantissa = magnitude & ((1u << kManBits) - 1);
  if (exponent != 0) {
    return std::bit_cast<float>(((exponent + 127 - kBias) << 23) | (mantissa << (23 - kManBits)));
  }
  float step = std::bit_cast<float>(uint32_t{127 + 1 - kBias - kManBits} << 23);
  return static_cast<float>(mantissa) * step;
}

constexpr float with_sign(bool negative, float magnitude) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (negative ? 0x80000000u : 0u));
}

constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> table{};
  for (uint32_t code = 0; code < 256; ++code) {
    uint32_t magnitude = code & 0x7F;
    float value = magnitude == 0x7F ? std::bit_cast<float>(kQuietNan) : finite_value<3, 7>(magnitude);
    table[code] = with_sign(code >= 0x80, value);
  }
  return table;
}

constexpr std::array<float, 256> make_e5m2() {
  std::array<float, 256> table{};
  for (uint32_t code = 0; code < 256; ++code) {
    uint32_t magnitude = code & 0x7F;
    float value = finite_value<2, 15>(magnitude);
    if (magnitude == 0x7C) value = std::bit_cast<float>(uint32_t{0x7F800000});
    if (magnitude > 0x7C) value = std::bit_cast<float>(kQuietNan);
    table[code] = with_sign(code >= 0x80, value);
  }
  return table;
}

/// FNUZ: one more step of bias, no infinity, no minus zero; its code, 0x80, is the only NaN.
template <int kManBits, int kBias>
constexpr std::array<float, 256> make_fnuz() {
  std::array<float, 256> table{};
  for (uint32_t code = 0; code < 256; ++code) {
    table[code] = code == 0x80 ? std::bit_cast<float>(kQuietNan)
                               : with_sign(code > 0x80, finite_value<kManBits, kBias>(code & 0x7F));
  }
  return table;
}

constexpr std::array<float, 16> make_e2m1() {
  std::array<float, 16> table{};
  for (uint32_t code = 0; code < 16; ++code) table[code] = with_sign(code >= 8, finite_value<1, 1>(code & 7));
  return table;
}

constexpr std::array<float, 256> make_e8m0() {
  std::array<float, 256> table{};
  for (uint32_t code = 1; code < 255; ++code) table[code] = std::bit_cast<float>(code << 23);
  table[0] = std::bit_cast<float>(uint32_t{0x00400000});  // 2^-127, a subnormal float
  table[255] = std::bit_cast<float>(kQuietNan);
  return table;
}

}  // namespace code_tables

/// The value of every code; minus zero and NaN keep their sign.
inline constexpr std::array<float, 256> kE4M3Values = code_tables::make_e4m3();
inline constexpr std::array<float, 256> kE5M2Values = code_tables::make_e5m2();
inline constexpr std::array<float, 256> kE4M3FnuzValues = code_tables::make_fnuz<3, 8>();
inline constexpr std::array<float, 256> kE5M2FnuzValues = code_tables::make_fnuz<2, 16>();
inline constexpr std::array<float, 16> kE2M1Values = code_tables::make_e2m1();
inline constexpr std::array<float, 256> kE8M0Values = code_tables::make_e8m0();

}  // namespace vernier
