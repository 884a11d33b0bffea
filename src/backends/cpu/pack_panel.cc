#include "backends/cpu/pack_panel.h"

#include <cstring>

#include "base/check.h"
#include "tensor/gguf_layout.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

using namespace gguf_layout;  // NOLINT: the names of the layouts are those of the formats

/// The codes of 32 columns, a byte each: word j holds columns 4j to 4j + 3.
struct CodeWords {
  uint32_t word[8];
};

template <class T>
T load_as(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

constexpr uint32_t every_byte(uint32_t value) {
  return value * 0x01010101u;
}

/// Bits 4h .. 4h + 3 of a byte spread over four bytes, as 0 or 1 each.
constexpr uint32_t spread_nibble(uint32_t byte, int high) {
  const uint32_t nibble = byte >> (4 * high) & 15;
  return (nibble | nibble << 7 | nibble << 14 | nibble << 21) & every_byte(1);
}

/// Low nibbles are columns 0-15, high ones 16-31.
CodeWords split_nibbles(const uint8_t* nibbles) {
  CodeWords codes;
  for (int j = 0; j < 4; ++j) {
    const auto word = load_as<uint32_t>(nibbles + 4 * j);
    codes.word[j] = word & every_byte(15);
    codes.word[j + 4] = word >> 4 & every_byte(15);
  }
  return codes;
}

/// `mask` bits of each of 32 bytes, from bit `shift` on.
CodeWords masked(const uint8_t* bytes, int shift, uint32_t mask) {
  CodeWords codes;
  for (int j = 0; j < 8; ++j) codes.word[j] = load_as<uint32_t>(bytes + 4 * j) >> shift & every_byte(mask);
  return codes;
}

void add_bits(CodeWords& codes, const CodeWords& high, int shift) {
  for (int j = 0; j < 8; ++j) codes.word[j] |= high.word[j] << shift;
}

void add_fifth_bits(CodeWords& codes, const uint8_t* bits) {
  for (int j = 0; j < 8; ++j) codes.word[j] |= spread_nibble(bits[j / 2], j % 2) << 4;
}

/// Codes of block `block` (32 columns) of a row of a codec whose blocks have 32 elements.
CodeWords small_codes(CodecId codec, const uint8_t* row, int64_t block) {
  switch (codec) {
    case CodecId::kQ4_0:
      return split_nibbles(reinterpret_cast<const Q4_0*>(row)[block].nibbles);
    case CodecId::kQ4_1:
      return split_nibbles(reinterpret_cast<const Q4_1*>(row)[block].nibbles);
    case CodecId::kGgufMxfp4:
      return split_nibbles(reinterpret_cast<const Mxfp4*>(row)[block].nibbles);
    case CodecId::kQ5_0: {
      const Q5_0& from = reinterpret_cast<const Q5_0*>(row)[block];
      CodeWords codes = split_nibbles(from.nibbles);
      add_fifth_bits(codes, from.fifth_bits);
      return codes;
    }
    case CodecId::kQ5_1: {
      const Q5_1& from = reinterpret_cast<const Q5_1*>(row)[block];
      CodeWords codes = split_nibbles(from.nibbles);
      add_fifth_bits(codes, from.fifth_bits);
      return codes;
    }
    default: {
      CodeWords codes =
          masked(reinterpret_cast<const uint8_t*>(reinterpret_cast<const Q8_0*>(row)[block].codes), 0, 255);
      for (uint32_t& word : codes.word) word ^= every_byte(128);
      return codes;
    }
  }
}

/// The same for the codecs with super-blocks of 256: `part` is the block's place, 0-7, in its super-block.
CodeWords super_codes(CodecId codec, const uint8_t* row, int64_t super, int part) {
  const int column = part * 32;
  switch (codec) {
    case CodecId::kQ2_K:
      return masked(reinterpret_cast<const Q2_K*>(row)[super].crumbs + crumb_byte(column), crumb_shift(column), 3);
    case CodecId::kQ3_K: {
      const Q3_K& from = reinterpret_cast<const Q3_K*>(row)[super];
      CodeWords codes = masked(from.crumbs + crumb_byte(column), crumb_shift(column), 3);
      add_bits(codes, masked(from.high_bits, part, 1), 2);
      return codes;
    }
    case CodecId::kQ4_K:
      return masked(reinterpret_cast<const Q4_K*>(row)[super].nibbles + nibble_byte(column), nibble_shift(column), 15);
    case CodecId::kQ5_K: {
      const Q5_K& from = reinterpret_cast<const Q5_K*>(row)[super];
      CodeWords codes = masked(from.nibbles + nibble_byte(column), nibble_shift(column), 15);
      add_bits(codes, masked(from.fifth_bits, part, 1), 4);
      return codes;
    }
    default: {
      const Q6_K& from = reinterpret_cast<const Q6_K*>(row)[super];
      CodeWords codes = masked(from.nibbles + q6_nibble_byte(column), q6_nibble_shift(column), 15);
      add_bits(codes, masked(from.high_crumbs + crumb_byte(column), crumb_shift(column), 3), 4);
      return codes;
    }
  }
}

/// Codes of block `block` of a row of nibbles with even elements low; columns from `cols` on are 0.
CodeWords plain_nibbles(const uint8_t* row, int64_t block, int64_t cols) {
  uint8_t codes[32] = {};
  for (int64_t i = 0; i < 32 && block * 32 + i < cols; ++i) {
    codes[i] = row[(block * 32 + i) / 2] >> (i % 2 * 4) & 15;
  }
  return load_as<CodeWords>(codes);
}

void store_word(uint8_t* planes, int stride, int vector, uint32_t word) {
  std::memcpy(planes + vector * stride, &word, sizeof(word));
}

/// Cuts codes into the planes of a format. `planes` is the lane's word in the block's first vector.
void store_codes(const CodeWords& codes, CodePlanes form, int stride, uint8_t* planes) {
  const auto crumbs = [&](int half, int shift) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) word |= (codes.word[half * 4 + j] >> shift & every_byte(3)) << (2 * j);
    return word;
  };
  const auto single_bits = [&](int shift) {
    uint32_t word = 0;
    for (int j = 0; j < 8; ++j) word |= (codes.word[j] >> shift & every_byte(1)) << j;
    return word;
  };
  if (form == CodePlanes::kByte) {
    for (int j = 0; j < 8; ++j) store_word(planes, stride, j, codes.word[j]);
    return;
  }
  if (form == CodePlanes::kTwo || form == CodePlanes::kTwoOne) {
    for (int half = 0; half < 2; ++half) store_word(planes, stride, half, crumbs(half, 0));
    if (form == CodePlanes::kTwoOne) store_word(planes, stride, 2, single_bits(2));
    return;
  }
  for (int v = 0; v < 4; ++v) {
    store_word(planes, stride, v, (codes.word[v] & every_byte(15)) | (codes.word[v + 4] & every_byte(15)) << 4);
  }
  if (form == CodePlanes::kNibbleOne) store_word(planes, stride, 4, single_bits(4));
  if (form == CodePlanes::kNibbleTwo) {
    for (int half = 0; half < 2; ++half) store_word(planes, stride, 4 + half, crumbs(half, 4));
  }
}

/// Places the scales of one row in its panel.
class ScaleWriter {
 public:
  ScaleWriter(const PanelLayout& layout, int lane, uint8_t* panel)
      : layout_(layout),
        strip_(strip_layout(layout.format, layout.rows)),
        groups_(strip_.blocks * 32 / int_format(layout.format).group),
        lane_(lane),
        panel_(panel) {}

  int64_t strips() const { return layout_.blocks / strip_.blocks; }

  void scale(int64_t group, uint16_t half) const { put_half(group, strip_.scales, half); }
  void minimum(int64_t group, uint16_t half) const { put_half(group, strip_.minimums, half); }
  void byte_scale(int64_t group, uint8_t byte) const { put_byte(group, strip_.scales, byte); }
  void sub_scale(int64_t group, uint8_t byte) const { put_byte(group, strip_.sub_scales, byte); }
  void sub_minimum(int64_t group, uint8_t byte) const { put_byte(group, strip_.sub_minimums, byte); }
  void super_scale(int64_t strip, uint16_t half) const { put_half(strip * groups_, strip_.scales, half); }
  void super_minimum(int64_t strip, uint16_t half) const { put_half(strip * groups_, strip_.minimums, half); }

 private:
  uint8_t* place(int64_t group, int offset) const { return panel_ + group / groups_ * strip_.bytes + offset; }
  void put_half(int64_t group, int offset, uint16_t bits) const {
    std::memcpy(place(group, offset) + (group % groups_ * layout_.rows + lane_) * 2, &bits, 2);
  }
  void put_byte(int64_t group, int offset, uint8_t value) const {
    place(group, offset)[group % groups_ * layout_.rows + lane_] = value;
  }

  const PanelLayout& layout_;
  StripLayout strip_;
  int groups_;
  int lane_;
  uint8_t* panel_;
};

void write_small_scales(CodecId codec, const uint8_t* row, const ScaleWriter& write) {
  for (int64_t b = 0; b < write.strips(); ++b) {
    switch (codec) {
      case CodecId::kQ4_0:
        write.scale(b, reinterpret_cast<const Q4_0*>(row)[b].d);
        break;
      case CodecId::kQ4_1:
        write.scale(b, reinterpret_cast<const Q4_1*>(row)[b].d);
        write.minimum(b, reinterpret_cast<const Q4_1*>(row)[b].m);
        break;
      case CodecId::kQ5_0:
        write.scale(b, reinterpret_cast<const Q5_0*>(row)[b].d);
        break;
      case CodecId::kQ5_1:
        write.scale(b, reinterpret_cast<const Q5_1*>(row)[b].d);
        write.minimum(b, reinterpret_cast<const Q5_1*>(row)[b].m);
        break;
      case CodecId::kGgufMxfp4:
        write.byte_scale(b, reinterpret_cast<const Mxfp4*>(row)[b].exponent);
        break;
      default:
        write.scale(b, reinterpret_cast<const Q8_0*>(row)[b].d);
        break;
    }
  }
}

template <class Block>
void write_scale_mins(const Block& from, int64_t super, const ScaleWriter& write) {
  write.super_scale(super, from.d);
  write.super_minimum(super, from.dmin);
  for (int i = 0; i < 8; ++i) {
    const ScaleMin packed = scale_min(from.scales, i);
    write.sub_scale(super * 8 + i, packed.scale);
    write.sub_minimum(super * 8 + i, packed.minimum);
  }
}

void write_super_scales(CodecId codec, const uint8_t* row, const ScaleWriter& write) {
  for (int64_t super = 0; super < write.strips(); ++super) {
    if (codec == CodecId::kQ4_K) {
      write_scale_mins(reinterpret_cast<const Q4_K*>(row)[super], super, write);
    } else if (codec == CodecId::kQ5_K) {
      write_scale_mins(reinterpret_cast<const Q5_K*>(row)[super], super, write);
    } else if (codec == CodecId::kQ2_K) {
      const Q2_K& from = reinterpret_cast<const Q2_K*>(row)[super];
      write.super_scale(super, from.d);
      write.super_minimum(super, from.dmin);
      for (int i = 0; i < 16; ++i) {
        write.sub_scale(super * 16 + i, from.scales[i] & 15);
        write.sub_minimum(super * 16 + i, from.scales[i] >> 4);
      }
    } else if (codec == CodecId::kQ3_K) {
      const Q3_K& from = reinterpret_cast<const Q3_K*>(row)[super];
      write.super_scale(super, from.d);
      for (int i = 0; i < 16; ++i) {
        write.sub_scale(super * 16 + i, static_cast<uint8_t>(q3_scale(from.scales, i) - 32));
      }
    } else {
      const Q6_K& from = reinterpret_cast<const Q6_K*>(row)[super];
      write.super_scale(super, from.d);
      for (int i = 0; i < 16; ++i) write.sub_scale(super * 16 + i, static_cast<uint8_t>(from.scales[i]));
    }
  }
}

/// Scales of MXFP4 and NVFP4 rows as safetensors keep them.
void write_plain_scales(const QTensor::View& tensor, int64_t row, const ScaleWriter& write) {
  const int64_t across = tensor.codec.groups_across(tensor.cols);
  const auto* scales = reinterpret_cast<const uint8_t*>(tensor.inner_scales.data()) + row * across;
  for (int64_t group = 0; group < across; ++group) write.byte_scale(group, scales[group]);
}

void pack_dense_word(uint16_t bits, int64_t col, const PanelLayout& layout, int lane, uint8_t* panel) {
  const int64_t index =
      layout.format == PanelFormat::kBF16 ? (col / 2 * layout.rows + lane) * 2 + col % 2 : col * layout.rows + lane;
  std::memcpy(panel + index * 2, &bits, 2);
}

}  // namespace

std::optional<PanelFormat> native_format(CodecId codec) {
  switch (codec) {
    case CodecId::kF32:
      return PanelFormat::kF32;
    case CodecId::kF16:
      return PanelFormat::kF16;
    case CodecId::kBF16:
      return PanelFormat::kBF16;
    case CodecId::kMxfp4:
    case CodecId::kGgufMxfp4:
      return PanelFormat::kMxfp4;
    case CodecId::kNvfp4:
      return PanelFormat::kNvfp4;
    case CodecId::kQ4_0:
      return PanelFormat::kQ4_0;
    case CodecId::kQ4_1:
      return PanelFormat::kQ4_1;
    case CodecId::kQ5_0:
      return PanelFormat::kQ5_0;
    case CodecId::kQ5_1:
      return PanelFormat::kQ5_1;
    case CodecId::kQ8_0:
      return PanelFormat::kQ8_0;
    case CodecId::kQ2_K:
      return PanelFormat::kQ2K;
    case CodecId::kQ3_K:
      return PanelFormat::kQ3K;
    case CodecId::kQ4_K:
      return PanelFormat::kQ4K;
    case CodecId::kQ5_K:
      return PanelFormat::kQ5K;
    case CodecId::kQ6_K:
      return PanelFormat::kQ6K;
    default:
      return std::nullopt;
  }
}

void pack_row(const QTensor::View& tensor, int64_t row, const PanelLayout& layout, int lane, uint8_t* panel) {
  const CodecId codec = tensor.codec.id;
  const int64_t row_bytes = tensor.codec.row_bytes(tensor.cols);
  const auto* from = reinterpret_cast<const uint8_t*>(tensor.codes.data()) + row * row_bytes;
  if (layout.format == PanelFormat::kBF16 || layout.format == PanelFormat::kF16) {
    for (int64_t c = 0; c < tensor.cols; ++c) {
      pack_dense_word(load_as<uint16_t>(from + c * 2), c, layout, lane, panel);
    }
    return;
  }
  if (layout.format == PanelFormat::kF32) {
    for (int64_t c = 0; c < tensor.cols; ++c) std::memcpy(panel + (c * layout.rows + lane) * 4, from + c * 4, 4);
    return;
  }
  const IntFormat format = int_format(layout.format);
  const StripLayout strip = strip_layout(layout.format, layout.rows);
  const int stride = layout.rows * 4;
  const bool plain = tensor.codec.packing == Packing::kNibblesLow;
  const bool super = format.scales == ScalePlanes::kSuper;
  for (int64_t b = 0; b < layout.blocks; ++b) {
    const CodeWords codes = plain   ? plain_nibbles(from, b, tensor.cols)
                            : super ? super_codes(codec, from, b / 8, static_cast<int>(b % 8))
                                    : small_codes(codec, from, b);
    uint8_t* block = panel + b / strip.blocks * strip.bytes + b % strip.blocks * strip.code_bytes;
    store_codes(codes, format.codes, stride, block + lane * 4);
  }
  const ScaleWriter write(layout, lane, panel);
  if (plain) {
    write_plain_scales(tensor, row, write);
  } else if (super) {
    write_super_scales(codec, from, write);
  } else {
    write_small_scales(codec, from, write);
  }
}

void pack_float_row(const float* values, int64_t cols, const PanelLayout& layout, int lane, uint8_t* panel) {
  CHECK(is_dense(layout.format), "floats go into dense panels");
  for (int64_t c = 0; c < cols; ++c) {
    if (layout.format == PanelFormat::kF32) {
      std::memcpy(panel + (c * layout.rows + lane) * 4, values + c, 4);
    } else {
      const bool half = layout.format == PanelFormat::kF16;
      pack_dense_word(half ? f32_to_f16(values[c]) : f32_to_bf16(values[c]), c, layout, lane, panel);
    }
  }
}

}  // namespace vernier
