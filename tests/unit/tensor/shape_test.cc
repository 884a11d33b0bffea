#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <limits>

#include "tensor/scalar.h"
#include "tensor/tensor.h"

namespace vernier {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Bytes zeros(size_t size) {
  return Bytes(std::vector<std::byte>(size));
}

TEST(Shape, TENSOR_1_RefusesWhatCannotBeCounted) {
  for (std::vector<int64_t> extents : std::vector<std::vector<int64_t>>{{},
                                                                        {1, 1, 1, 1, 1},
                                                                        {0, 4},
                                                                        {4, 0},
                                                                        {-1},
                                                                        {-2, -2},
                                                                        {int64_t{1} << 32, int64_t{1} << 32},
                                                                        {(int64_t{1} << 42) + 1, int64_t{1} << 22},
                                                                        {kMax, 2},
                                                                        {2, 2, kMax},
                                                                        {std::numeric_limits<int64_t>::min(), 1}}) {
    EXPECT_FALSE(Shape::make(extents).ok());
  }
  Shape largest = Shape::make(std::vector<int64_t>{kMax, 1}).value();
  EXPECT_EQ(largest.elements(), kMax);
  EXPECT_EQ(Shape({49152, 576}).to_string(), "[49152, 576]");
}

TEST(Tensor, TENSOR_1_ByteCountCannotWrap) {
  Shape huge = Shape::make(std::vector<int64_t>{kMax}).value();
  EXPECT_FALSE(Tensor::make(DType::kF32, huge, zeros(4)).ok());
  // 2^62 x 4 wraps to 0 in 64 bits.
  Shape wraps = Shape::make(std::vector<int64_t>{int64_t{1} << 62}).value();
  EXPECT_FALSE(Tensor::make(DType::kF32, wraps, zeros(0)).ok());
}

TEST(Tensor, RefusesAnotherByteCount) {
  EXPECT_TRUE(Tensor::make(DType::kBF16, Shape({3, 5}), zeros(30)).ok());
  Result<Tensor> cut = Tensor::make(DType::kBF16, Shape({3, 5}), zeros(29));
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("found 29 bytes, expected 30"), std::string::npos) << cut.error().message;
}

TEST(Tensor, ReadsEachTypeAsFloats) {
  std::vector<float> values = {1.5f, -0.0f, -3.25f};
  EXPECT_EQ(Tensor::from_floats(Shape({3}), values).to_floats(), values);
  std::vector<std::byte> bf16(6);
  std::vector<std::byte> f16(6);
  std::vector<std::byte> i32(12);
  for (size_t i = 0; i < 3; ++i) {
    uint16_t b = f32_to_bf16(values[i]);
    uint16_t h = f32_to_f16(values[i]);
    auto n = static_cast<int32_t>(i) - 7;
    std::memcpy(bf16.data() + 2 * i, &b, 2);
    std::memcpy(f16.data() + 2 * i, &h, 2);
    std::memcpy(i32.data() + 4 * i, &n, 4);
  }
  EXPECT_EQ(Tensor::make(DType::kBF16, Shape({3}), Bytes(bf16)).value().to_floats(), values);
  EXPECT_EQ(Tensor::make(DType::kF16, Shape({3}), Bytes(f16)).value().to_floats(), values);
  EXPECT_EQ(Tensor::make(DType::kI32, Shape({3}), Bytes(i32)).value().to_floats(), (std::vector<float>{-7, -6, -5}));
}

TEST(Bytes, SlicesShareTheirMemory) {
  Bytes whole = zeros(10);
  Bytes part = whole.slice(3, 4);
  EXPECT_EQ(part.span().data(), whole.span().data() + 3);
  EXPECT_EQ(part.size(), 4u);
  EXPECT_EQ(whole.slice(10, 0).size(), 0u);
}

TEST(BytesDeathTest, SlicesStayInside) {
  Bytes whole = zeros(10);
  EXPECT_DEATH((void)whole.slice(8, 3), "bytes 8");
  EXPECT_DEATH((void)whole.slice(1, std::numeric_limits<size_t>::max()), "bytes 1");
}

}  // namespace
}  // namespace vernier
