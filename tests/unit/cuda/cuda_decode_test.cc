#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "backends/cuda/cuda_views.h"
#include "backends/cuda/kernels/decode.h"

namespace vernier {
namespace {

/// What a kernel's thread makes of a row, on the host.
std::vector<float> row_of(const cuda::QView& view, int64_t row) {
  std::vector<float> out;
  cuda::with_codes(view.kind, [&](auto tag) {
    const cuda::RowDecoder<decltype(tag)::kValue> decoder(view, row);
    for (int64_t col = 0; col < view.cols; col += cuda::kChunk) {
      float numbers[cuda::kChunk];
      decoder.decode(col, numbers);
      for (int i = 0; i < cuda::kChunk; ++i) {
        if (col + i < view.cols) {
          out.push_back(numbers[i]);
        } else {
          EXPECT_EQ(numbers[i], 0) << "behind the last column";
        }
      }
    }
  });
  return out;
}

void expect_same_bits(const QTensor& tensor) {
  const QTensor::View view = tensor.view();
  const std::vector<CudaRows> parts = views_of(view, 3, view.codes.data(), view.inner_scales.data());
  int64_t row = 0;
  for (const CudaRows& part : parts) {
    EXPECT_EQ(part.first_output, row + 3);
    for (int64_t i = 0; i < part.view.rows; ++i, ++row) {
      std::vector<float> expected(static_cast<size_t>(tensor.cols()));
      tensor.decode_row(row, expected);
      const std::vector<float> found = row_of(part.view, i);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t col = 0; col < found.size(); ++col) {
        ASSERT_EQ(std::bit_cast<uint32_t>(found[col]), std::bit_cast<uint32_t>(expected[col]))
            << tensor.codec().name << " row " << row << " column " << col << ": " << found[col] << ", expected "
            << expected[col];
      }
    }
  }
  EXPECT_EQ(row, tensor.rows());
}

std::vector<float> numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, 1.3f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// Whether byte `i` of a block is the high one of a binary16 scale, or an E8M0 scale.
bool is_scale_byte(CodecId id, int i) {
  switch (id) {
    case CodecId::kQ2_K:
      return i == 81 || i == 83;
    case CodecId::kQ3_K:
      return i == 109;
    case CodecId::kQ6_K:
      return i == 209;
    case CodecId::kQ4_K:
    case CodecId::kQ5_K:
    case CodecId::kQ4_1:
    case CodecId::kQ5_1:
      return i == 1 || i == 3;
    default:
      return i == (id == CodecId::kGgufMxfp4 ? 0 : 1);
  }
}

/// Bytes without order under scales that are numbers, so that every bit of a block is read where it belongs.
QTensor random_blocks(const Codec& codec, int64_t rows, int64_t cols) {
  std::mt19937 random(5);
  const int64_t bytes = codec.code_bytes(rows, cols).value();
  std::vector<std::byte> codes(static_cast<size_t>(bytes));
  for (std::byte& code : codes) code = static_cast<std::byte>(random() & 0xFF);
  // A scale that is no number gives a NaN whose sign is anyone's: the exponents of all 16-bit scales stay low.
  for (size_t block = 0; block < codes.size(); block += static_cast<size_t>(codec.block_bytes)) {
    for (int i = 0; i < codec.block_bytes; ++i) {
      std::byte& code = codes[block + static_cast<size_t>(i)];
      if (is_scale_byte(codec.id, i)) code &= std::byte{0x3B};
    }
  }
  return QTensor::make({codec, rows, cols, Bytes(std::move(codes)), std::nullopt, {}, {}, "test"}).value();
}

// CUDA-2: codes under every scale of their format give the definition's bits.
TEST(CudaDecode, GivesTheDefinitionsBits) {
  for (const Codec& of : all_codecs()) {
    SCOPED_TRACE(of.name);
    if (of.packing == Packing::kGgufBlock) {
      expect_same_bits(random_blocks(of, 3, 512));
      continue;
    }
    const int64_t multiple = of.column_multiple();
    for (int64_t cols : {8 * multiple, 3 * multiple, 33 * multiple}) {
      const auto encoded = encode(of, 5, cols, numbers(5 * cols, 7));
      ASSERT_TRUE(encoded.ok()) << encoded.error().to_string();
      expect_same_bits(*encoded);
    }
  }
}

// Blocks that neither eight columns nor the matrix divide.
TEST(CudaDecode, ReadsBlocksOfAnySize) {
  for (CodecId id : {CodecId::kE4M3Block, CodecId::kE5M2Block}) {
    for (ScaleType scales : {ScaleType::kF32, ScaleType::kE8M0}) {
      for (auto [rows, cols] : {std::pair{1, 3}, {2, 8}, {5, 12}, {64, 32}, {128, 128}}) {
        const Codec of = block_codec(id, rows, cols, scales);
        const auto encoded = encode(of, 131, 67, numbers(int64_t{131} * 67, 9));
        ASSERT_TRUE(encoded.ok()) << encoded.error().to_string();
        SCOPED_TRACE(::testing::Message() << of.name << " " << rows << " x " << cols);
        expect_same_bits(*encoded);
      }
    }
  }
}

// A fused weight keeps one global scale for each part; rows of the second begin inside its tensor.
TEST(CudaDecode, KeepsAGlobalScaleForEachSegment) {
  std::vector<QTensor> parts;
  for (int64_t rows : {3, 4, 2}) {
    parts.push_back(encode(codec(CodecId::kNvfp4), rows, 48, numbers(rows * 48, static_cast<unsigned>(rows))).value());
  }
  const QTensor fused = QTensor::concat_rows(parts).value();
  const QTensor::View view = fused.view();
  ASSERT_EQ(views_of(view, 0, view.codes.data(), view.inner_scales.data()).size(), 3u);
  expect_same_bits(fused);
}

}  // namespace
}  // namespace vernier
