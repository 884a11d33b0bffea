#pragma once

#include "backends/cuda/kernels/decode.h"
#include "backends/cuda/kernels/fast.h"
#include "backends/cuda/kernels/tensor_ops.cuh"

/// Codes to bf16 in the registers of the thread that multiplies. Of a unit's 128 columns a thread of four takes 16 in
/// each half, as eight pairs; which columns those are depends on how codes lie, so that a copy of 16 bytes by each of
/// four threads is one of 64 from memory.
namespace vernier::cuda {

/// Sixteen columns beside each other, in order.
struct PlainOrder {
  /// The first of each four columns, in the unit.
  __host__ __device__ static constexpr int column(int half, int thread, int four) {
    return kHalfColumns * half + 16 * thread + 4 * four;
  }
  /// Which of the 16 is one of a pair.
  __host__ __device__ static constexpr int member(int pair, int odd) { return 2 * pair + odd; }
  /// Whose four columns begin at column 4 `at` of the unit: the inverse of column().
  __device__ static void owner(int at, int& half, int& thread, int& four) {
    half = at / 16, thread = at / 4 % 4, four = at % 4;
  }
  /// Pairs 2 four and 2 four + 1 of that thread, of what this lane and its neighbour have.
  __device__ static void join(const float4& own, float (&first)[2], float (&second)[2]) {
    first[0] = own.x, first[1] = own.y, second[0] = own.z, second[1] = own.w;
  }
};
/// Numbers of two bytes: two times eight columns.
struct WordOrder : PlainOrder {
  __host__ __device__ static constexpr int column(int half, int thread, int four) {
    return kHalfColumns * half + 32 * (four / 2) + 8 * thread + 4 * (four % 2);
  }
  __device__ static void owner(int at, int& half, int& thread, int& four) {
    half = at / 16, thread = at / 2 % 4, four = at / 8 % 2 * 2 + at % 2;
  }
};
/// Bytes: the first and third of a word, then the second and fourth.
struct ByteOrder : PlainOrder {
  __host__ __device__ static constexpr int member(int pair, int odd) { return pair / 2 * 4 + pair % 2 + 2 * odd; }
  __device__ static void join(const float4& own, float (&first)[2], float (&second)[2]) {
    first[0] = own.x, first[1] = own.z, second[0] = own.y, second[1] = own.w;
  }
};
/// Blocks of 32 columns, a half of one.
struct BlockOrder : PlainOrder {
  __host__ __device__ static constexpr int column(int half, int thread, int four) {
    return 32 * thread + 16 * half + 4 * four;
  }
  __device__ static void owner(int at, int& half, int& thread, int& four) {
    half = at / 4 % 2, thread = at / 8, four = at % 4;
  }
};
/// Nibbles: four columns apart in a word.
struct NibbleOrder : BlockOrder {
  __host__ __device__ static constexpr int member(int pair, int odd) { return pair / 4 * 8 + pair % 4 + 4 * odd; }
  /// The lower neighbour has the first of four pairs, the upper one the second.
  __device__ static void join(const float4& own, float (&first)[2], float (&second)[2]) {
    const bool upper = threadIdx.x % 2 != 0;
    const float one = __shfl_xor_sync(0xFFFFFFFFu, upper ? own.x : own.z, 1);
    const float two = __shfl_xor_sync(0xFFFFFFFFu, upper ? own.y : own.w, 1);
    first[0] = upper ? one : own.x, first[1] = upper ? own.z : one;
    second[0] = upper ? two : own.y, second[1] = upper ? own.w : two;
  }
};

/// 2^exponent twice; infinite from 128 on, which the choice of a kernel keeps from happening.
__device__ __forceinline__ Pair power_pair(int exponent) {
  return static_cast<uint32_t>(min(exponent, 128) + 127) * 0x00800080u;
}

__device__ __forceinline__ void scale_pairs(Pair (&pairs)[8], Pair factor) {
#pragma unroll
  for (Pair& pair : pairs) pair = times(pair, factor);
}

/// `a` where the mask has ones, else `b`, as one instruction: the compiler makes two of it.
__device__ __forceinline__ uint32_t choose(uint32_t mask, uint32_t a, uint32_t b) {
  uint32_t chosen;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(chosen) : "r"(mask), "r"(a), "r"(b));
  return chosen;
}

/// A value that is kept: the compiler would make it anew in every round of a loop.
template <class T>
__device__ __forceinline__ T* kept(T* pointer) {
  asm("" : "+l"(pointer));
  return pointer;
}
__device__ __forceinline__ int kept(int value) {
  asm("" : "+r"(value));
  return value;
}

/// A byte's exponent and mantissa to bf16's places, less the bias between them. Signs of other bytes fall under the
/// mask.
template <int kMantissa>
__device__ __forceinline__ void spread_bytes(const uint32_t* words, Pair (&pairs)[8]) {
  constexpr int kUp = 7 - kMantissa;
  constexpr uint32_t kMagnitudes = (0x7Fu << kUp) * 0x10001u;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const uint32_t signs = words[w] & 0x80808080u;
    pairs[2 * w] = choose(kMagnitudes, words[w] << kUp, signs << 8);
    pairs[2 * w + 1] = choose(kMagnitudes, words[w] >> (8 - kUp), signs);
  }
}

/// One multiplication puts a nibble where the magnitude belongs and where the sign does.
__device__ __forceinline__ void spread_nibbles(const uint32_t* words, Pair (&pairs)[8]) {
  constexpr uint32_t kKept = 0x81C081C0u;
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    const uint32_t upper = words[w] >> 8;
    pairs[4 * w] = (words[w] & 0x000F000Fu) * (1u << 6 | 1u << 12) & kKept;
    pairs[4 * w + 1] = (words[w] & 0x00F000F0u) * (1u << 2 | 1u << 8) & kKept;
    pairs[4 * w + 2] = (upper & 0x000F000Fu) * (1u << 6 | 1u << 12) & kKept;
    pairs[4 * w + 3] = (upper & 0x00F000F0u) * (1u << 2 | 1u << 8) & kKept;
  }
}

enum class ScalePlace : uint8_t {
  kSum,   ///< one for each row, or none: on the sum
  kUnit,  ///< on a unit's sum
  kCode,  ///< a factor of the code
};

/// What every format says. kPieces x kPieceBytes are a thread's part of a unit as it is copied to shared memory; none
/// where it decodes out of memory itself.
template <int kPiecesOf, int kPieceBytesOf, int kHalfWordsOf, ScalePlace kPlaceOf, bool kScaleWordOf>
struct Staged {
  static constexpr int kPieces = kPiecesOf, kPieceBytes = kPieceBytesOf, kHalfWords = kHalfWordsOf;
  static constexpr ScalePlace kScale = kPlaceOf;
  static constexpr bool kScaleWord = kScaleWordOf;  // a unit's scales are four bytes for the thread
  static constexpr int kPlanes = 1;
  static constexpr int kRowPlaces = 0;  // binary places that x makes up for
  static constexpr float kSumFactor = 1.0f;
  /// Bytes from a row's first to those of a thread's piece.
  __device__ static int at(int unit, int thread, int piece) {
    return unit * (kPieces * kPieceBytes * 4) + piece * (kPieceBytes * 4) + thread * kPieceBytes;
  }
};

template <FastCodes F>
struct Fragment;

template <>
struct Fragment<FastCodes::kBF16> : WordOrder, Staged<4, 16, 8, ScalePlace::kSum, false> {
  static constexpr Codes kCodes = Codes::kBF16;
  __device__ static void half(const uint32_t* words, uint32_t, int, int, Pair (&pairs)[8], Pair (&)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) pairs[i] = words[i];
  }
};

constexpr float float_power(int exponent) {
  float power = 1.0f;
  for (; exponent > 0; --exponent) power *= 2.0f;
  return power;
}

/// What a byte's exponent lacks is made up for by x and by the sum, half and half, or by its scale.
template <Codes K, ScalePlace kPlace>
struct ByteFragment : ByteOrder, Staged<2, 16, 4, kPlace, kPlace == ScalePlace::kCode> {
  static constexpr Codes kCodes = K;
  static constexpr int kMantissa = K == Codes::kE4M3 ? 3 : 2, kLacking = K == Codes::kE4M3 ? 120 : 112;
  static constexpr bool kByScale = kPlace == ScalePlace::kCode;
  static constexpr int kRowPlaces = kByScale ? 0 : 60;
  static constexpr float kSumFactor = kByScale ? float_power(kScalePlaces) : float_power(kLacking - 60);
  __device__ static int scales_at(int unit, int) { return unit * 4; }
  __device__ static void half(const uint32_t* words, uint32_t scales, int thread, int half, Pair (&pairs)[8],
                              Pair (&)[8]) {
    spread_bytes<kMantissa>(words, pairs);
    if constexpr (kByScale) {
      const auto scale = static_cast<int>(scales >> (16 * half + 8 * (thread / 2)) & 0xFFu);
      scale_pairs(pairs, power_pair(kLacking - 127 - kScalePlaces + scale));
    }
  }
};
template <>
struct Fragment<FastCodes::kE4M3Row> : ByteFragment<Codes::kE4M3, ScalePlace::kSum> {};
template <>
struct Fragment<FastCodes::kE4M3Block> : ByteFragment<Codes::kE4M3, ScalePlace::kUnit> {};
template <>
struct Fragment<FastCodes::kMxfp8> : ByteFragment<Codes::kE4M3, ScalePlace::kCode> {};
template <>
struct Fragment<FastCodes::kE5M2Row> : ByteFragment<Codes::kE5M2, ScalePlace::kSum> {};

template <>
struct Fragment<FastCodes::kMxfp4> : NibbleOrder, Staged<1, 16, 2, ScalePlace::kCode, true> {
  static constexpr Codes kCodes = Codes::kE2M1;
  static constexpr float kSumFactor = float_power(kScalePlaces);
  __device__ static int scales_at(int unit, int) { return unit * 4; }
  __device__ static void half(const uint32_t* words, uint32_t scales, int thread, int, Pair (&pairs)[8], Pair (&)[8]) {
    spread_nibbles(words, pairs);
    scale_pairs(pairs, power_pair(126 - 127 - kScalePlaces + static_cast<int>(scales >> 8 * thread & 0xFFu)));
  }
};

template <>
struct Fragment<FastCodes::kNvfp4> : NibbleOrder, Staged<1, 16, 2, ScalePlace::kCode, true> {
  static constexpr Codes kCodes = Codes::kE2M1;
  // 126 binary places are missing; 448 x 2^118 is the largest factor that there is.
  static constexpr float kSumFactor = 256.0f;
  __device__ static int scales_at(int unit, int thread) { return unit * 8 + thread / 2 * 4; }
  __device__ static void half(const uint32_t* words, uint32_t scales, int thread, int half, Pair (&pairs)[8],
                              Pair (&)[8]) {
    spread_nibbles(words, pairs);
    const uint32_t code = scales >> (16 * (thread % 2) + 8 * half) & 0xFFu;
    scale_pairs(pairs, times(times(code << 4 | code << 20, power_pair(119)), power_pair(119)));
  }
};

/// float32 to the sum of two bf16 numbers: 16 binary places.
__device__ __forceinline__ void split(const float (&numbers)[16], Pair (&high)[8], Pair (&low)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    high[i] = pair_of(numbers[2 * i], numbers[2 * i + 1]);
    low[i] = pair_of(numbers[2 * i] - __uint_as_float(high[i] << 16),
                     numbers[2 * i + 1] - __uint_as_float(high[i] & 0xFFFF0000u));
  }
}

template <>
struct Fragment<FastCodes::kQ4_1> : BlockOrder, Staged<5, 4, 5, ScalePlace::kSum, false> {
  static constexpr Codes kCodes = Codes::kQ4_1;
  static constexpr int kPlanes = 2;
  __device__ static int at(int unit, int thread, int piece) { return unit * 80 + thread * 20 + piece * 4; }
  __device__ static void half(const uint32_t* words, uint32_t, int, int half, Pair (&high)[8], Pair (&low)[8]) {
    const float d = from_f16(words[0] & 0xFFFFu), m = from_f16(words[0] >> 16);
    float numbers[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      numbers[i] = d * static_cast<float>(words[1 + i / 4] >> (8 * (i % 4) + 4 * half) & 15u) + m;
    }
    split(numbers, high, low);
  }
};

/// Formats whose blocks begin at any byte.
template <Codes K>
struct DecodedFragment : PlainOrder, Staged<0, 16, 0, ScalePlace::kSum, false> {
  static constexpr Codes kCodes = K;
  static constexpr int kPlanes = 2;
  __device__ static void from(const QView& view, int64_t row, int64_t column, Pair (&high)[8], Pair (&low)[8]) {
    const RowDecoder<K> decoder(view, row);
    float numbers[16];
#pragma unroll
    for (int i = 0; i < 16; i += kChunk) {
      if (column + i < view.cols) {
        decoder.decode(column + i, numbers + i);
      } else {
#pragma unroll
        for (int j = 0; j < kChunk; ++j) numbers[i + j] = 0.0f;
      }
    }
    split(numbers, high, low);
  }
};
#define VERNIER_DECODED(codes) \
  template <>                  \
  struct Fragment<FastCodes::codes> : DecodedFragment<Codes::codes> {}
VERNIER_DECODED(kF16);
VERNIER_DECODED(kQ4_0);
VERNIER_DECODED(kQ8_0);
VERNIER_DECODED(kQ4_K);
VERNIER_DECODED(kQ6_K);
VERNIER_DECODED(kGgufMxfp4);
#undef VERNIER_DECODED

/// Two columns of x as they are multiplied.
template <class F>
__device__ __forceinline__ Pair row_pair(float low, float high) {
  const Pair pair = pair_of(low, high);
  return F::kRowPlaces == 0 ? pair : times(pair, power_pair(F::kRowPlaces));
}

/// The weights of 16 kTiles outputs as one warp reads them: lane 4 g + t has rows g and g + 8 of each 16. A thread's
/// codes of the next units are on their way to places in shared memory that no other thread reads, so that no barrier
/// is needed.
template <class F, int kTiles, int kStages>
struct WarpWeights {
  using Format = F;
  static constexpr int kSlots = 2 * kTiles;
  static constexpr int kLaneBytes = F::kPieces * F::kPieceBytes + (F::kScaleWord ? 4 : 0);
  static constexpr int kStageBytes = kSlots * kLaneBytes * 32;
  static constexpr int kBytes = F::kPieces == 0 ? 0 : kStageBytes * kStages;

  const QView& view;
  uint32_t row[kSlots];                 // of the tensor
  const unsigned char* codes[kSlots];   // this thread's of the next unit to be fetched
  const unsigned char* scales[kSlots];  // likewise, where a unit's are a word
  uint32_t ring;
  int lane, thread;
  int end;         // of the units that are read
  int left;        // bytes of a row from the next unit to be fetched on
  int scale_left;  // of its scales, from this thread's on

  /// Rows behind the last are read as the last. `first_unit` is fetched first.
  __device__ __forceinline__ WarpWeights(const QView& of, int64_t first_output, uint32_t shared, int first_unit,
                                         int end_unit)
      : view(of), ring(shared), lane(static_cast<int>(threadIdx.x) % 32), thread(lane % 4), end(end_unit) {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int64_t output = first_output + slot * 8 + lane / 4, own = output < of.rows ? output : of.rows - 1;
      row[slot] = static_cast<uint32_t>(of.first_row + own);
      codes[slot] = kept(of.codes + row[slot] * of.row_bytes + F::at(first_unit, thread, 0));
      if constexpr (F::kScaleWord) {
        scales[slot] = kept(of.inner_scales + row[slot] * of.groups_across + F::scales_at(first_unit, thread));
      }
    }
    left = kept(static_cast<int>(of.row_bytes) - F::at(first_unit, 0, 0));
    if constexpr (F::kScaleWord) {
      scale_left = kept(static_cast<int>(of.groups_across) - F::scales_at(first_unit, thread));
    }
    if constexpr (F::kPieces > 0) ring += lane * F::kPieceBytes;
  }

  /// Units in their order.
  __device__ __forceinline__ void fetch(int unit, int stage) {
    if constexpr (F::kPieces > 0) {
      if (unit < end) {
        const uint32_t to = ring + stage * kStageBytes;
        if (left >= F::kPieces * F::kPieceBytes * 4) {
#pragma unroll
          for (int piece = 0; piece < F::kPieces; ++piece) {
#pragma unroll
            for (int slot = 0; slot < kSlots; ++slot) {
              copy_async<F::kPieceBytes>(to + (slot * F::kPieces + piece) * 32 * F::kPieceBytes,
                                         codes[slot] + F::at(0, 0, piece));
            }
          }
        } else {
#pragma unroll
          for (int piece = 0; piece < F::kPieces; ++piece) {
            const int there = max(0, min(left - F::at(0, thread, piece), F::kPieceBytes));
#pragma unroll
            for (int slot = 0; slot < kSlots; ++slot) {
              copy_async<F::kPieceBytes>(to + (slot * F::kPieces + piece) * 32 * F::kPieceBytes,
                                         codes[slot] + F::at(0, 0, piece), there);
            }
          }
        }
        if constexpr (F::kScaleWord) {
#pragma unroll
          for (int slot = 0; slot < kSlots; ++slot) {
            copy_async<4>(
                to - lane * F::kPieceBytes + kSlots * F::kPieces * F::kPieceBytes * 32 + (slot * 32 + lane) * 4,
                scales[slot], scale_left > 0 ? 4 : 0);
            scales[slot] += F::scales_at(1, 0);
          }
          scale_left -= F::scales_at(1, 0);
        }
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) codes[slot] += F::at(1, 0, 0);
        left -= F::at(1, 0, 0);
      }
      close_copies();
    }
  }

  /// The four bytes of scales of a unit that has arrived, where it has such.
  __device__ __forceinline__ uint32_t scale_word(int stage, int slot) const {
    if constexpr (!F::kScaleWord) return 0;
    return load_word(ring + stage * kStageBytes - lane * F::kPieceBytes + kSlots * F::kPieces * F::kPieceBytes * 32 +
                     (slot * 32 + lane) * 4);
  }
  /// A half of a unit that has arrived; `scales` are its slot's.
  __device__ __forceinline__ void half(int unit, int stage, int slot, int half, uint32_t scales, Pair (&high)[8],
                                       Pair (&low)[8]) const {
    if constexpr (F::kPieces == 0) {
      F::from(view, row[slot] - view.first_row, unit * kUnitColumns + F::column(half, thread, 0), high, low);
    } else {
      const uint32_t at = ring + stage * kStageBytes;
      uint32_t words[F::kHalfWords];
      if constexpr (F::kPieceBytes == 4) {
#pragma unroll
        for (int i = 0; i < F::kHalfWords; ++i) {
          words[i] = load_word(at + (slot * F::kPieces + i) * 32 * 4);
        }
      } else if constexpr (F::kHalfWords == 2) {
        load_two(at + slot * 32 * 16 + 8 * half, words);
      } else {
#pragma unroll
        for (int i = 0; i < F::kHalfWords / 4; ++i) {
          load_four(at + (slot * F::kPieces + half * (F::kHalfWords / 4) + i) * 32 * 16, words + 4 * i);
        }
      }
      F::half(words, scales, thread, half, high, low);
    }
  }

 private:
  __device__ __forceinline__ static uint32_t load_word(uint32_t at) {
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at));
    return word;
  }
  __device__ __forceinline__ static void load_two(uint32_t at, uint32_t* words) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(at));
  }
  __device__ __forceinline__ static void load_four(uint32_t at, uint32_t* words) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at));
  }
};

/// The scales of a warp's rows in one unit after the other, where units have one: float32 then, see CudaMatrix.
template <class Weights>
struct UnitScales {
  const float* at[Weights::kSlots];
  int left, units;

  __device__ __forceinline__ UnitScales(const Weights& of, int unit) {
    if constexpr (Weights::Format::kScale != ScalePlace::kUnit) return;
    units = kept(static_cast<int>(of.view.group_cols / kUnitColumns));
    const int group = unit / units;
    left = units * (group + 1) - unit;
#pragma unroll
    for (int slot = 0; slot < Weights::kSlots; ++slot) {
      const int64_t down = of.row[slot] / static_cast<uint32_t>(of.view.group_rows);
      at[slot] = kept(reinterpret_cast<const float*>(of.view.inner_scales) + down * of.view.groups_across + group);
    }
  }
  __device__ __forceinline__ void next(float (&scales)[Weights::kSlots]) {
#pragma unroll
    for (int slot = 0; slot < Weights::kSlots; ++slot) scales[slot] = *at[slot];
    if (--left > 0) return;
    left = units;
#pragma unroll
    for (const float*& each : at) ++each;
  }
};

/// What acts on an output's whole sum.
template <class F>
__device__ __forceinline__ float sum_factor(const QView& view, int64_t output) {
  float factor = F::kSumFactor;
  if constexpr (F::kCodes <= Codes::kE2M1) {
    if (F::kScale == ScalePlace::kSum && view.inner != ScaleKind::kNone) {
      factor *= scale_at(view, (view.first_row + output) / view.group_rows * view.groups_across);
    }
    factor *= view.outer_scale;
  }
  return factor;
}

}  // namespace vernier::cuda
