#pragma once

// The vectors that linear_body.h is written in, as plain arrays: for any processor. A panel has 8 rows.

#include <cstdint>
#include <cstring>

namespace vernier::baseline {
namespace {

constexpr int kRows = 8;
constexpr const char* kIsaName = "baseline";
constexpr int kTilePanels = 1;
constexpr int kStreamTokens = 1;
constexpr int kIntTileTokens = 1;
constexpr int kByteTilePanels = 1;
constexpr int kByteTileTokens = 1;
constexpr int kFloatTileTokens = 2;

#define VERNIER_INLINE [[gnu::always_inline]] inline
// Before a loop of constant length whose arrays are to live in registers.
#define VERNIER_UNROLL
#define VERNIER_LANES for (int i = 0; i < kRows; ++i)

struct Floats {
  float lane[kRows];
};
struct Codes {
  uint8_t byte[kRows * 4];
};
struct Quad {
  int16_t lane[4];
};

VERNIER_INLINE Floats broadcast(float value) {
  Floats r;
  VERNIER_LANES r.lane[i] = value;
  return r;
}
VERNIER_INLINE Floats zero_floats() {
  return broadcast(0);
}
VERNIER_INLINE Floats load(const float* at) {
  Floats r;
  std::memcpy(&r, at, sizeof(r));
  return r;
}
VERNIER_INLINE void store(float* at, Floats value) {
  std::memcpy(at, &value, sizeof(value));
}
VERNIER_INLINE Floats add(Floats a, Floats b) {
  VERNIER_LANES a.lane[i] += b.lane[i];
  return a;
}
VERNIER_INLINE Floats mul(Floats a, Floats b) {
  VERNIER_LANES a.lane[i] *= b.lane[i];
  return a;
}
VERNIER_INLINE Floats fma(Floats a, Floats b, Floats c) {
  VERNIER_LANES c.lane[i] += a.lane[i] * b.lane[i];
  return c;
}

VERNIER_INLINE float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
VERNIER_INLINE float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7FFFu;
  if (rest >= 0x7C00u) return float_of(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  const float magnitude = float_of((rest << 13) + (rest >= 0x0400u ? 0x38000000u : 0x38800000u));
  // A subnormal half is its mantissa in units of 2^-24.
  const float value = rest >= 0x0400u ? magnitude : magnitude - float_of(0x38800000u);
  return sign != 0 ? -value : value;
}
VERNIER_INLINE Floats load_half(const uint8_t* at) {
  uint16_t half[kRows];
  std::memcpy(half, at, sizeof(half));
  Floats r;
  VERNIER_LANES r.lane[i] = half_to_float(half[i]);
  return r;
}
VERNIER_INLINE Floats load_unsigned(const uint8_t* at) {
  Floats r;
  VERNIER_LANES r.lane[i] = static_cast<float>(at[i]);
  return r;
}
VERNIER_INLINE Floats load_signed(const uint8_t* at) {
  Floats r;
  VERNIER_LANES r.lane[i] = static_cast<float>(static_cast<int8_t>(at[i]));
  return r;
}
// 2^(byte - 128): half of an E8M0 scale. Bytes 0 and 1 give float32 subnormals.
VERNIER_INLINE Floats load_half_e8m0(const uint8_t* at) {
  Floats r;
  VERNIER_LANES r.lane[i] = float_of(at[i] < 2 ? 0x00200000u << at[i] : (at[i] - 1u) << 23);
  return r;
}
// Half of an E4M3 scale without a sign: its bits are those of an f16 2^-8 times as large.
VERNIER_INLINE Floats load_half_e4m3(const uint8_t* at) {
  Floats r;
  VERNIER_LANES r.lane[i] = half_to_float(static_cast<uint16_t>(at[i] << 7)) * 128;
  return r;
}
// 2^(byte - 127).
VERNIER_INLINE Floats load_e8m0(const uint8_t* at) {
  Floats r;
  VERNIER_LANES r.lane[i] = float_of(at[i] == 0 ? 0x00400000u : uint32_t{at[i]} << 23);
  return r;
}
// Rows of column pairs of bf16: the even columns, or the odd ones.
VERNIER_INLINE Floats load_bf16_even(const uint8_t* at) {
  uint32_t pair[kRows];
  std::memcpy(pair, at, sizeof(pair));
  Floats r;
  VERNIER_LANES r.lane[i] = float_of(pair[i] << 16);
  return r;
}
VERNIER_INLINE Floats load_bf16_odd(const uint8_t* at) {
  uint32_t pair[kRows];
  std::memcpy(pair, at, sizeof(pair));
  Floats r;
  VERNIER_LANES r.lane[i] = float_of(pair[i] & 0xFFFF0000u);
  return r;
}

VERNIER_INLINE Codes load_codes(const uint8_t* at) {
  Codes r;
  std::memcpy(&r, at, sizeof(r));
  return r;
}
VERNIER_INLINE void store_codes(uint8_t* at, Codes codes) {
  std::memcpy(at, &codes, sizeof(codes));
}
VERNIER_INLINE Codes bits(Codes codes, int mask) {
  for (uint8_t& byte : codes.byte) byte = static_cast<uint8_t>(byte & mask);
  return codes;
}
VERNIER_INLINE Codes merge(Codes a, Codes b) {
  for (int i = 0; i < kRows * 4; ++i) a.byte[i] = static_cast<uint8_t>(a.byte[i] | b.byte[i]);
  return a;
}
VERNIER_INLINE Codes shift_right(Codes codes, int n) {
  for (uint8_t& byte : codes.byte) byte = static_cast<uint8_t>(n >= 0 ? byte >> n : byte << -n);
  return codes;
}
// Twice the E2M1 number of each low nibble, plus 12.
VERNIER_INLINE Codes e2m1_codes(Codes nibbles) {
  constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  for (uint8_t& byte : nibbles.byte) byte = kTable[byte];
  return nibbles;
}
// Bytes j of all rows: column 4v + j of vector v.
VERNIER_INLINE Floats column_of(const Codes& codes, int j, int zero) {
  Floats r;
  VERNIER_LANES r.lane[i] = static_cast<float>(codes.byte[4 * i + j] - zero);
  return r;
}

// Four columns of E4M3 codes [2, kRows, 2], each number times 2^-8: its bits are those of that f16.
VERNIER_INLINE void e4m3_columns(const Codes& codes, Floats (&column)[4]) {
  for (int c = 0; c < 4; ++c) {
    VERNIER_LANES {
      const uint32_t code = codes.byte[(c / 2 * kRows + i) * 2 + c % 2];
      column[c].lane[i] = half_to_float(static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7Fu) << 7));
    }
  }
}
// Of E5M2: the high byte of an f16.
VERNIER_INLINE void e5m2_columns(const Codes& codes, Floats (&column)[4]) {
  for (int c = 0; c < 4; ++c) {
    VERNIER_LANES {
      const uint32_t code = codes.byte[(c / 2 * kRows + i) * 2 + c % 2];
      column[c].lane[i] = half_to_float(static_cast<uint16_t>(code << 8));
    }
  }
}

VERNIER_INLINE Quad load_quad(const int8_t* at) {
  return {{at[0], at[1], at[2], at[3]}};
}

/// Sum of products of 16 or 32 columns, a row in each lane.
template <int MaxCode>
class Dot {
 public:
  VERNIER_INLINE void step(int, const Codes& codes, Quad x) {
    VERNIER_LANES {
      const uint8_t* c = codes.byte + 4 * i;
      const int sum = c[0] * x.lane[0] + c[1] * x.lane[1] + c[2] * x.lane[2] + c[3] * x.lane[3];
      sum_[i] += sum;
    }
  }
  VERNIER_INLINE Floats finish(int) {
    Floats r;
    VERNIER_LANES r.lane[i] = static_cast<float>(sum_[i]);
    return r;
  }

 private:
  int32_t sum_[kRows] = {};
};

// Largest magnitude; a NaN counts as larger than any number.
VERNIER_INLINE float max_magnitude(const float* x, int count) {
  uint32_t most = 0;
  for (int i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, x + i, 4);
    word &= 0x7FFFFFFFu;
    most = word > most ? word : most;
  }
  return float_of(most);
}

// Rounds x * factor to int8, ties to even; returns the sum. Adding 1.5 * 2^23 leaves the rounded integer in the low
// bits.
VERNIER_INLINE int round_codes(const float* x, float factor, int8_t* codes, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    const float shifted = x[i] * factor + 12582912.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, 4);
    codes[i] = static_cast<int8_t>(bits - 0x4B400000);
    sum += codes[i];
  }
  return sum;
}

VERNIER_INLINE void prefetch(const uint8_t* at) {
  __builtin_prefetch(at);
}

}  // namespace
}  // namespace vernier::baseline
