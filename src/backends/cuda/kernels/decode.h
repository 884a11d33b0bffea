#pragma once

#include "backends/cuda/kernels/number_codes.h"
#include "backends/cuda/kernels/views.h"
#include "tensor/gguf_layout.h"

/// Codes to float32, in registers, with every scale: the bits of QTensor::decode_row. Eight columns at a time: no
/// format's scale changes within eight aligned columns but that of a block whose width is no multiple of them.
namespace vernier::cuda {

inline constexpr int kChunk = 8;  ///< columns

VERNIER_ANYWHERE uint32_t two_bytes(const unsigned char* at) {
  return at[0] | static_cast<uint32_t>(at[1]) << 8;
}

/// Numbers of 2 and 4 bytes in a plain packing stand at multiples of their size.
template <class Word>
VERNIER_ANYWHERE Word word_at(const unsigned char* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Word*>(at);
#else
  Word word;
  memcpy(&word, at, sizeof(word));
  return word;
#endif
}

VERNIER_ANYWHERE float scale_at(const QView& view, int64_t index) {
  switch (view.inner) {
    case ScaleKind::kF32:
      return float_of(word_at<uint32_t>(view.inner_scales + index * 4));
    case ScaleKind::kE8M0:
      return from_e8m0(view.inner_scales[index]);
    case ScaleKind::kE4M3:
      return from_e4m3(view.inner_scales[index]);
    default:
      return 1.0f;
  }
}

/// The element of a plain packing, before any scale.
template <Codes K>
VERNIER_ANYWHERE float element_at(const unsigned char* row, int64_t col) {
  if constexpr (K == Codes::kF32) {
    return float_of(word_at<uint32_t>(row + col * 4));
  } else if constexpr (K == Codes::kF16) {
    return from_f16(word_at<uint16_t>(row + col * 2));
  } else if constexpr (K == Codes::kBF16) {
    return from_bf16(word_at<uint16_t>(row + col * 2));
  } else if constexpr (K == Codes::kE4M3) {
    return from_e4m3(row[col]);
  } else if constexpr (K == Codes::kE5M2) {
    return from_e5m2(row[col]);
  } else {
    return from_e2m1(row[col / 2] >> (col % 2 * 4) & 15);
  }
}

/// Columns [col, col + 8) of a row of a plain packing; 0 where there are no more.
template <Codes K>
VERNIER_ANYWHERE void decode_plain(const QView& view, const unsigned char* row, int64_t group_row, int64_t col,
                                   float* out) {
  if (view.inner == ScaleKind::kNone) {
    for (int i = 0; i < kChunk; ++i) out[i] = col + i < view.cols ? element_at<K>(row, col + i) : 0.0f;
    return;
  }
  const int64_t first = group_row * view.groups_across;
  int64_t group = col / view.group_cols;
  int64_t next = (group + 1) * view.group_cols;
  float scale = scale_at(view, first + group);
  for (int i = 0; i < kChunk; ++i) {
    if (col + i >= view.cols) {
      out[i] = 0.0f;
      continue;
    }
    if (col + i == next) {
      scale = scale_at(view, first + ++group);
      next += view.group_cols;
    }
    out[i] = element_at<K>(row, col + i) * scale * view.outer_scale;
  }
}

/// A whole number below 2^23: the low digits of a float whose last one weighs 1. Conversions are slow on the device.
VERNIER_ANYWHERE float small_number(uint32_t number) {
  return float_of(0x4B000000u | number) - 8388608.0f;
}

template <Codes K>
struct GgufBlock {};

// Products and sums stand as in the definition, and the compiler may not contract them: --fmad=false. `i` is the
// block's first of eight elements.

template <>
struct GgufBlock<Codes::kQ4_0> {
  using Layout = gguf_layout::Q4_0;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block));
    const unsigned char* nibbles = block + 2 + gguf_layout::small_nibble_byte(i);
    const int shift = gguf_layout::small_nibble_shift(i);
    for (int j = 0; j < kChunk; ++j) out[j] = d * static_cast<float>((nibbles[j] >> shift & 15) - 8);
  }
};

template <>
struct GgufBlock<Codes::kQ4_1> {
  using Layout = gguf_layout::Q4_1;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    // A block has five words, and begins at one.
    const uint32_t both = word_at<uint32_t>(block);
    const float d = from_f16(both & 0xFFFFu), m = from_f16(both >> 16);
    const unsigned char* nibbles = block + 4 + gguf_layout::small_nibble_byte(i);
    const int shift = gguf_layout::small_nibble_shift(i);
    for (int half = 0; half < 2; ++half) {
      const uint32_t four = word_at<uint32_t>(nibbles + 4 * half) >> shift;
      for (int j = 0; j < 4; ++j) out[4 * half + j] = d * small_number(four >> (8 * j) & 15u) + m;
    }
  }
};

VERNIER_ANYWHERE int five_bit_code(const unsigned char* fifth_bits, const unsigned char* nibbles, int i, int j) {
  const int low = nibbles[gguf_layout::small_nibble_byte(i) + j] >> gguf_layout::small_nibble_shift(i) & 15;
  return low | (fifth_bits[i / 8] >> j & 1) << 4;
}

template <>
struct GgufBlock<Codes::kQ5_0> {
  using Layout = gguf_layout::Q5_0;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block));
    for (int j = 0; j < kChunk; ++j) out[j] = d * static_cast<float>(five_bit_code(block + 2, block + 6, i, j) - 16);
  }
};

template <>
struct GgufBlock<Codes::kQ5_1> {
  using Layout = gguf_layout::Q5_1;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block)), m = from_f16(two_bytes(block + 2));
    for (int j = 0; j < kChunk; ++j) out[j] = d * static_cast<float>(five_bit_code(block + 4, block + 8, i, j)) + m;
  }
};

template <>
struct GgufBlock<Codes::kQ8_0> {
  using Layout = gguf_layout::Q8_0;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block));
    for (int j = 0; j < kChunk; ++j) out[j] = static_cast<float>(static_cast<signed char>(block[2 + i + j])) * d;
  }
};

template <>
struct GgufBlock<Codes::kQ2_K> {
  using Layout = gguf_layout::Q2_K;
  static constexpr int kElements = gguf_layout::kSuperBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block + 80)), dmin = from_f16(two_bytes(block + 82));
    const int packed = block[i / 16];
    const float scale = d * static_cast<float>(packed & 15), minimum = dmin * static_cast<float>(packed >> 4);
    const unsigned char* crumbs = block + 16 + gguf_layout::crumb_byte(i);
    const int shift = gguf_layout::crumb_shift(i);
    for (int j = 0; j < kChunk; ++j) out[j] = scale * static_cast<float>(crumbs[j] >> shift & 3) - minimum;
  }
};

template <>
struct GgufBlock<Codes::kQ3_K> {
  using Layout = gguf_layout::Q3_K;
  static constexpr int kElements = gguf_layout::kSuperBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block + 108));
    const float scale = d * static_cast<float>(gguf_layout::q3_scale(block + 96, i / 16) - 32);
    const unsigned char *high = block + i % 32, *crumbs = block + 32 + gguf_layout::crumb_byte(i);
    const int shift = gguf_layout::crumb_shift(i), bit = i / 32;
    for (int j = 0; j < kChunk; ++j) {
      const int code = (crumbs[j] >> shift & 3) - 4 + (high[j] >> bit & 1) * 4;
      out[j] = scale * static_cast<float>(code);
    }
  }
};

template <>
struct GgufBlock<Codes::kQ4_K> {
  using Layout = gguf_layout::Q4_K;
  static constexpr int kElements = gguf_layout::kSuperBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block)), dmin = from_f16(two_bytes(block + 2));
    const gguf_layout::ScaleMin packed = gguf_layout::scale_min(block + 4, i / 32);
    const float scale = d * static_cast<float>(packed.scale), minimum = dmin * static_cast<float>(packed.minimum);
    const unsigned char* nibbles = block + 16 + gguf_layout::nibble_byte(i);
    const int shift = gguf_layout::nibble_shift(i);
    for (int j = 0; j < kChunk; ++j) out[j] = scale * static_cast<float>(nibbles[j] >> shift & 15) - minimum;
  }
};

template <>
struct GgufBlock<Codes::kQ5_K> {
  using Layout = gguf_layout::Q5_K;
  static constexpr int kElements = gguf_layout::kSuperBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block)), dmin = from_f16(two_bytes(block + 2));
    const gguf_layout::ScaleMin packed = gguf_layout::scale_min(block + 4, i / 32);
    const float scale = d * static_cast<float>(packed.scale), minimum = dmin * static_cast<float>(packed.minimum);
    const unsigned char *fifth = block + 16 + i % 32, *nibbles = block + 48 + gguf_layout::nibble_byte(i);
    const int shift = gguf_layout::nibble_shift(i), bit = i / 32;
    for (int j = 0; j < kChunk; ++j) {
      const int code = (nibbles[j] >> shift & 15) | (fifth[j] >> bit & 1) << 4;
      out[j] = scale * static_cast<float>(code) - minimum;
    }
  }
};

template <>
struct GgufBlock<Codes::kQ6_K> {
  using Layout = gguf_layout::Q6_K;
  static constexpr int kElements = gguf_layout::kSuperBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float d = from_f16(two_bytes(block + 208));
    const float scale = d * static_cast<float>(static_cast<signed char>(block[192 + i / 16]));
    const unsigned char *nibbles = block + gguf_layout::q6_nibble_byte(i),
                        *crumbs = block + 128 + gguf_layout::crumb_byte(i);
    const int nibble = gguf_layout::q6_nibble_shift(i), crumb = gguf_layout::crumb_shift(i);
    for (int j = 0; j < kChunk; ++j) {
      const int code = ((nibbles[j] >> nibble & 15) | (crumbs[j] >> crumb & 3) << 4) - 32;
      out[j] = scale * static_cast<float>(code);
    }
  }
};

template <>
struct GgufBlock<Codes::kGgufMxfp4> {
  using Layout = gguf_layout::Mxfp4;
  static constexpr int kElements = gguf_layout::kSmallBlock;
  VERNIER_ANYWHERE static void decode(const unsigned char* block, int i, float* out) {
    const float scale = from_e8m0(block[0]);
    const unsigned char* nibbles = block + 1 + gguf_layout::small_nibble_byte(i);
    const int shift = gguf_layout::small_nibble_shift(i);
    for (int j = 0; j < kChunk; ++j) out[j] = from_e2m1(nibbles[j] >> shift & 15) * scale;
  }
};

/// One row of a view, whose columns are asked for eight at a time.
template <Codes K>
struct RowDecoder {
  const QView& view;
  const unsigned char* codes;
  int64_t group_row;

  VERNIER_ANYWHERE RowDecoder(const QView& of, int64_t row)
      : view(of),
        codes(of.codes + (of.first_row + row) * of.row_bytes),
        group_row(of.inner == ScaleKind::kNone ? 0 : (of.first_row + row) / of.group_rows) {}

  /// Columns [col, col + 8), `col` a multiple of 8; 0 behind the last.
  VERNIER_ANYWHERE void decode(int64_t col, float* out) const {
    if constexpr (K <= Codes::kE2M1) {
      decode_plain<K>(view, codes, group_row, col, out);
    } else {
      using Block = GgufBlock<K>;
      const int64_t block = col / Block::kElements;
      Block::decode(codes + block * static_cast<int64_t>(sizeof(typename Block::Layout)),
                    static_cast<int>(col - block * Block::kElements), out);
    }
  }
};

template <Codes K>
struct CodesTag {
  static constexpr Codes kValue = K;
};
/// Calls `visit` with the kind as a constant.
template <class Visit>
auto with_codes(Codes kind, Visit visit) {
  switch (kind) {
    case Codes::kF32:
      return visit(CodesTag<Codes::kF32>{});
    case Codes::kF16:
      return visit(CodesTag<Codes::kF16>{});
    case Codes::kBF16:
      return visit(CodesTag<Codes::kBF16>{});
    case Codes::kE4M3:
      return visit(CodesTag<Codes::kE4M3>{});
    case Codes::kE5M2:
      return visit(CodesTag<Codes::kE5M2>{});
    case Codes::kE2M1:
      return visit(CodesTag<Codes::kE2M1>{});
    case Codes::kQ4_0:
      return visit(CodesTag<Codes::kQ4_0>{});
    case Codes::kQ4_1:
      return visit(CodesTag<Codes::kQ4_1>{});
    case Codes::kQ5_0:
      return visit(CodesTag<Codes::kQ5_0>{});
    case Codes::kQ5_1:
      return visit(CodesTag<Codes::kQ5_1>{});
    case Codes::kQ8_0:
      return visit(CodesTag<Codes::kQ8_0>{});
    case Codes::kQ2_K:
      return visit(CodesTag<Codes::kQ2_K>{});
    case Codes::kQ3_K:
      return visit(CodesTag<Codes::kQ3_K>{});
    case Codes::kQ4_K:
      return visit(CodesTag<Codes::kQ4_K>{});
    case Codes::kQ5_K:
      return visit(CodesTag<Codes::kQ5_K>{});
    case Codes::kQ6_K:
      return visit(CodesTag<Codes::kQ6_K>{});
    default:
      return visit(CodesTag<Codes::kGgufMxfp4>{});
  }
}

}  // namespace vernier::cuda
