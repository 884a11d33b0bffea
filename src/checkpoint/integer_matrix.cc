#include "checkpoint/integer_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tensor/gguf_layout.h"
#include "tensor/scalar.h"

namespace vernier {

namespace {

using namespace gguf_layout;  // NOLINT: the names of the layouts are those of the formats

bool is_f16(float value) {
  return std::isfinite(value) && f16_to_f32(f32_to_f16(value)) == value;
}

Status check_numbers(const IntegerMatrix& matrix) {
  const int64_t groups = matrix.groups();
  for (const std::vector<float>* level : {&matrix.scales, &matrix.minimums}) {
    auto bad = std::find_if(level->begin(), level->end(), [](float value) { return !std::isfinite(value); });
    if (bad == level->end()) continue;
    const int64_t at = bad - level->begin();
    return corrupt("{} [{}, {}] is {}, expected a finite number", level == &matrix.scales ? "scale" : "minimum",
                   at / groups, at % groups, *bad);
  }
  return {};
}

/// The block format that holds these codes and scales exactly; nothing where none does.
std::optional<CodecId> block_format(const IntegerMatrix& matrix) {
  if (matrix.cols % kSmallBlock != 0 || !matrix.column_groups.empty()) return std::nullopt;
  if (matrix.group_cols % kSmallBlock != 0 && matrix.group_cols < matrix.cols) return std::nullopt;
  if (!std::ranges::all_of(matrix.scales, is_f16) || !std::ranges::all_of(matrix.minimums, is_f16)) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(matrix.codes);
  if (!matrix.minimums.empty()) {
    if (low < 0) return std::nullopt;
    return high <= 15 ? std::optional(CodecId::kQ4_1) : high <= 31 ? std::optional(CodecId::kQ5_1) : std::nullopt;
  }
  if (low >= -8 && high <= 7) return CodecId::kQ4_0;
  if (low >= -16 && high <= 15) return CodecId::kQ5_0;
  if (low >= -128 && high <= 127) return CodecId::kQ8_0;
  return std::nullopt;
}

/// Codes of one block of 32 columns, of at most 5 bits: elements 0-15 in the low nibbles, 16-31 in the high.
void store_nibbles(const int16_t* codes, int offset, uint8_t* nibbles, uint8_t* fifth_bits) {
  for (int i = 0; i < kSmallBlock; ++i) {
    const auto code = static_cast<unsigned>(codes[i] + offset);
    nibbles[small_nibble_byte(i)] |= static_cast<uint8_t>((code & 15) << small_nibble_shift(i));
    if (fifth_bits != nullptr) fifth_bits[i / 8] |= static_cast<uint8_t>((code >> 4) << (i % 8));
  }
}

void store_block(CodecId codec, const int16_t* codes, uint16_t scale, uint16_t minimum, std::byte* to) {
  const auto put = [to](const auto& block) { std::memcpy(to, &block, sizeof(block)); };
  if (codec == CodecId::kQ4_0) {
    Q4_0 block{scale, {}};
    store_nibbles(codes, 8, block.nibbles, nullptr);
    put(block);
  } else if (codec == CodecId::kQ4_1) {
    Q4_1 block{scale, minimum, {}};
    store_nibbles(codes, 0, block.nibbles, nullptr);
    put(block);
  } else if (codec == CodecId::kQ5_0) {
    Q5_0 block{scale, {}, {}};
    store_nibbles(codes, 16, block.nibbles, block.fifth_bits);
    put(block);
  } else if (codec == CodecId::kQ5_1) {
    Q5_1 block{scale, minimum, {}, {}};
    store_nibbles(codes, 0, block.nibbles, block.fifth_bits);
    put(block);
  } else {
    Q8_0 block{scale, {}};
    std::copy_n(codes, kSmallBlock, block.codes);
    put(block);
  }
}

Bytes as_blocks(const IntegerMatrix& matrix, const Codec& layout) {
  const int64_t blocks = matrix.cols / kSmallBlock;
  std::vector<std::byte> bytes(static_cast<size_t>(matrix.rows * layout.row_bytes(matrix.cols)));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t block = 0; block < blocks; ++block) {
      const auto group = static_cast<size_t>(row * matrix.groups() + block * kSmallBlock / matrix.group_cols);
      const uint16_t minimum = matrix.minimums.empty() ? uint16_t{0} : f32_to_f16(matrix.minimums[group]);
      store_block(layout.id, matrix.codes.data() + row * matrix.cols + block * kSmallBlock,
                  f32_to_f16(matrix.scales[group]), minimum,
                  bytes.data() + (row * blocks + block) * layout.block_bytes);
    }
  }
  return Bytes(std::move(bytes));
}

Bytes as_floats(const IntegerMatrix& matrix) {
  std::vector<std::byte> bytes(matrix.codes.size() * sizeof(float));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const int64_t own =
          matrix.column_groups.empty() ? col / matrix.group_cols : matrix.column_groups[static_cast<size_t>(col)];
      const auto group = static_cast<size_t>(row * matrix.groups() + own);
      const auto at = static_cast<size_t>(row * matrix.cols + col);
      float value = static_cast<float>(matrix.codes[at]) * matrix.scales[group];
      if (!matrix.minimums.empty()) value += matrix.minimums[group];
      std::memcpy(bytes.data() + at * sizeof(float), &value, sizeof(float));
    }
  }
  return Bytes(std::move(bytes));
}

}  // namespace

Result<QTensor> to_exact_codec(const IntegerMatrix& matrix) {
  TRY_STATUS(check_numbers(matrix));
  const std::optional<CodecId> block = block_format(matrix);
  const Codec& layout = codec(block.value_or(CodecId::kF32));
  Bytes bytes = block ? as_blocks(matrix, layout) : as_floats(matrix);
  return QTensor::make({layout, matrix.rows, matrix.cols, std::move(bytes), {}, {}, {}, matrix.origin});
}

std::vector<int16_t> unpack_bits(std::span<const std::byte> bytes, int bits, int64_t count) {
  std::vector<int16_t> codes(static_cast<size_t>(count));
  const unsigned mask = (1u << bits) - 1;
  size_t bit = 0;
  for (int16_t& code : codes) {
    // A code of at most 8 bits lies in two bytes.
    unsigned word = static_cast<unsigned>(bytes[bit / 8]);
    if (bit % 8 + static_cast<size_t>(bits) > 8) word |= static_cast<unsigned>(bytes[bit / 8 + 1]) << 8;
    code = static_cast<int16_t>(word >> bit % 8 & mask);
    bit += static_cast<size_t>(bits);
  }
  return codes;
}

}  // namespace vernier
