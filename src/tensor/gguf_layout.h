#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vernier::gguf_layout {

inline constexpr int kSmallBlock = 32;   ///< elements of Q4_0 to Q8_0 and MXFP4
inline constexpr int kSuperBlock = 256;  ///< elements of the K formats

// Blocks as they lie on disk, little-endian, without padding. `d`, `m` and `dmin` are binary16.
struct Q4_0 {
  uint16_t d;
  uint8_t nibbles[16];
};
struct Q4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t nibbles[16];
};
struct Q5_0 {
  uint16_t d;
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];
};
struct Q5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];
};
struct Q8_0 {
  uint16_t d;
  int8_t codes[32];
};
struct Q2_K {
  uint8_t scales[16];  // low nibble: scale, high nibble: minimum, of 16 elements
  uint8_t crumbs[64];
  uint16_t d;
  uint16_t dmin;
};
struct Q3_K {
  uint8_t high_bits[32];
  uint8_t crumbs[64];
  uint8_t scales[12];  // 16 of 6 bits, offset by 32
  uint16_t d;
};
struct Q4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];  // 8 scales and 8 minimums of 6 bits
  uint8_t nibbles[128];
};
struct Q5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t fifth_bits[32];
  uint8_t nibbles[128];
};
struct Q6_K {
  uint8_t nibbles[128];
  uint8_t high_crumbs[64];
  int8_t scales[16];
  uint16_t d;
};
struct Mxfp4 {
  uint8_t exponent;
  uint8_t nibbles[16];
};

static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 && sizeof(Q5_1) == 24);
static_assert(sizeof(Q8_0) == 34 && sizeof(Q2_K) == 84 && sizeof(Q3_K) == 110 && sizeof(Q4_K) == 144);
static_assert(sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210 && sizeof(Mxfp4) == 17);

/// Where element `i` of a block of 32 with 16 nibble bytes lies: elements 0-15 low, 16-31 high.
constexpr int small_nibble_byte(int i) {
  return i % 16;
}
constexpr int small_nibble_shift(int i) {
  return i / 16 * 4;
}

/// Two bits of element `i` of a super-block in 64 bytes (Q2_K, Q3_K, the high bits of Q6_K).
constexpr int crumb_byte(int i) {
  return i / 128 * 32 + i % 32;
}
constexpr int crumb_shift(int i) {
  return i % 128 / 32 * 2;
}

/// Four bits of element `i` of Q4_K and Q5_K: chunks of 64, 32 low nibbles and then 32 high.
constexpr int nibble_byte(int i) {
  return i / 64 * 32 + i % 32;
}
constexpr int nibble_shift(int i) {
  return i % 64 / 32 * 4;
}

/// Low four bits of element `i` of Q6_K: halves of 128, 64 low nibbles and then 64 high.
constexpr int q6_nibble_byte(int i) {
  return i / 128 * 64 + i % 64;
}
constexpr int q6_nibble_shift(int i) {
  return i % 128 / 64 * 4;
}

/// Scales and minimums of Q4_K and Q5_K.
struct ScaleMin {
  uint8_t scale;
  uint8_t minimum;
};
constexpr ScaleMin scale_min(const uint8_t* packed, int j) {
  if (j < 4) return {static_cast<uint8_t>(packed[j] & 63), static_cast<uint8_t>(packed[j + 4] & 63)};
  return {static_cast<uint8_t>((packed[j + 4] & 0xF) | (packed[j - 4] >> 6 << 4)),
          static_cast<uint8_t>((packed[j + 4] >> 4) | (packed[j] >> 6 << 4))};
}
constexpr void set_scale_min(uint8_t* packed, int j, ScaleMin value) {
  if (j < 4) {
    packed[j] = static_cast<uint8_t>(packed[j] | value.scale);
    packed[j + 4] = static_cast<uint8_t>(packed[j + 4] | value.minimum);
    return;
  }
  packed[j + 4] = static_cast<uint8_t>((value.scale & 0xF) | (value.minimum & 0xF) << 4);
  packed[j - 4] = static_cast<uint8_t>(packed[j - 4] | value.scale >> 4 << 6);
  packed[j] = static_cast<uint8_t>(packed[j] | value.minimum >> 4 << 6);
}

/// The 6-bit scale `j` of Q3_K, before its offset of 32 is taken off.
constexpr int q3_scale(const uint8_t* packed, int j) {
  int low = packed[j % 8] >> (j / 8 * 4) & 0xF;
  int high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
  return low | high << 4;
}
constexpr void set_q3_scale(uint8_t* packed, int j, int value) {
  packed[j % 8] = static_cast<uint8_t>(packed[j % 8] | (value & 0xF) << (j / 8 * 4));
  packed[8 + j % 4] = static_cast<uint8_t>(packed[8 + j % 4] | value >> 4 << (j / 4 * 2));
}

}  // namespace vernier::gguf_layout
