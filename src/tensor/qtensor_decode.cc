#include <cstring>

#include "tensor/code_tables.h"
#include "tensor/gguf_blocks.h"
#include "tensor/qtensor.h"
#include "tensor/scalar.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

template <class Convert>
void decode_halves(std::span<const std::byte> codes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t code;
    std::memcpy(&code, codes.data() + i * sizeof(code), sizeof(code));
    out[i] = convert(code);
  }
}

void decode_dense(Element element, std::span<const std::byte> codes, std::span<float> out) {
  if (element == Element::kF32) {
    std::memcpy(out.data(), codes.data(), out.size_bytes());
  } else if (element == Element::kF16) {
    decode_halves(codes, out, [](uint16_t code) { return f16_to_f32(code); });
  } else {
    decode_halves(codes, out, [](uint16_t code) { return bf16_to_f32(code); });
  }
}

/// Columns of one scale group, [begin, end), of a row with byte or nibble codes. The product of code and inner scale is
/// exact wherever the inner scale is narrow, so that a value is rounded once.
void decode_group(const Codec& codec, const std::byte* codes, int64_t begin, std::span<float> out, float inner,
                  float outer) {
  if (codec.packing == Packing::kNibblesLow) {
    for (size_t i = 0; i < out.size(); i += 2) {
      auto pair = static_cast<uint8_t>(codes[static_cast<size_t>(begin) / 2 + i / 2]);
      out[i] = kE2M1Values[pair & 0xF] * inner * outer;
      out[i + 1] = kE2M1Values[pair >> 4] * inner * outer;
    }
    return;
  }
  const std::array<float, 256>& values = codec.element == Element::kE4M3 ? kE4M3Values : kE5M2Values;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = values[static_cast<uint8_t>(codes[static_cast<size_t>(begin) + i])] * inner * outer;
  }
}

float outer_scale_of(const QTensor::View& view, int64_t row) {
  for (size_t segment = 0; segment < view.segment_rows.size(); ++segment) {
    if (row < view.segment_rows[segment]) return view.outer_scales[segment];
    row -= view.segment_rows[segment];
  }
  return 1.0f;
}

}  // namespace

void QTensor::decode_row(int64_t row, std::span<float> out) const {
  CHECK(row >= 0 && row < rows_ && out.size() == static_cast<size_t>(cols_), "row {} of {}, {} values for {} columns",
        row, rows_, out.size(), cols_);
  auto row_bytes = static_cast<size_t>(codec_.row_bytes(cols_));
  std::span<const std::byte> codes = codes_.span().subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
  if (codec_.packing == Packing::kGgufBlock) return decode_gguf_blocks(codec_, codes, out);
  if (codec_.is_dense()) return decode_dense(codec_.element, codes, out);

  int64_t across = codec_.groups_across(cols_);
  int64_t group_cols = codec_.group_cols == 0 ? cols_ : codec_.group_cols;
  int64_t group_row = codec_.group_rows == 0 ? 0 : row / codec_.group_rows;
  float outer = outer_scale_of(view(), row);
  for (int64_t group = 0; group < across; ++group) {
    int64_t begin = group * group_cols;
    int64_t count = std::min(group_cols, cols_ - begin);
    float inner = scale_value(codec_.inner, inner_scales_->span(), group_row * across + group);
    decode_group(codec_, codes.data(), begin, out.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
                 inner, outer);
  }
}

}  // namespace vernier
