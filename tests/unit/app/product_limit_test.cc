#include "app/product_limit.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(ProductShares, AKernelsNameTellsItsArithmetic) {
  for (const char* kernel :
       {"bf16_tile_avx512", "fp8_bf16_tile_amx", "fast_rows_bf16", "deep_tiles_bf16", "deep_tiles_e4m3"}) {
    EXPECT_EQ(arithmetic_of(kernel), &ProductShares::bf16) << kernel;
  }
  for (const char* kernel :
       {"float_tile_avx2", "float_stream_avx512", "fp8_tile_avx2", "fp8_stream_baseline", "product_rows_f32"}) {
    EXPECT_EQ(arithmetic_of(kernel), &ProductShares::f32) << kernel;
  }
  for (const char* kernel : {"int8_tile_avx2", "int8_stream_avx512"}) {
    EXPECT_EQ(arithmetic_of(kernel), &ProductShares::int8) << kernel;
  }
}

// Times of the parts add up: half of the products at 4 a second and half at 12 are 6 a second.
TEST(ProductShares, TheLimitIsThatOfItsPartsOneAfterAnother) {
  const MachineLimits limits{.int8_ops_per_s = 12, .bf16_ops_per_s = 4, .f32_ops_per_s = 2};
  EXPECT_EQ(ProductShares{.bf16 = 1}.limit(limits), 4);
  EXPECT_EQ(ProductShares{.f32 = 1}.limit(limits), 2);
  const ProductShares mixed{.int8 = 0.5, .bf16 = 0.5};
  EXPECT_DOUBLE_EQ(mixed.limit(limits), 6);
  EXPECT_EQ(mixed.name(), "bf16 and int8");
}

TEST(ProductShares, ARateThatWasNotMeasuredIsNoLimit) {
  const MachineLimits limits{.int8_ops_per_s = 12, .f32_ops_per_s = 2};
  EXPECT_EQ(ProductShares{.bf16 = 1}.limit(limits), 0);
  EXPECT_EQ((ProductShares{.int8 = 0.9, .bf16 = 0.1}.limit(limits)), 0);
  EXPECT_EQ(ProductShares{.int8 = 1}.limit(limits), 12);
}

}  // namespace
}  // namespace vernier
