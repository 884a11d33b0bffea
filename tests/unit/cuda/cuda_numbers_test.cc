#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "backends/cuda/cuda_views.h"
#include "backends/cuda/kernels/kv_numbers.cuh"
#include "ops/kv_access.h"
#include "tensor/code_tables.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

uint32_t bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

TEST(CudaNumbers, EveryCodeMeansWhatItsTypeSays) {
  for (uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(bits(cuda::from_e4m3(code)), bits(kE4M3Values[code])) << code;
    EXPECT_EQ(bits(cuda::from_e5m2(code)), bits(kE5M2Values[code])) << code;
    EXPECT_EQ(bits(cuda::from_e8m0(code)), bits(kE8M0Values[code])) << code;
    EXPECT_EQ(bits(cuda::from_e2m1(code & 15)), bits(kE2M1Values[code & 15])) << code;
  }
  for (uint32_t code = 0; code < 65536; ++code) {
    ASSERT_EQ(bits(cuda::from_f16(code)), bits(f16_to_f32(static_cast<uint16_t>(code)))) << code;
    ASSERT_EQ(bits(cuda::from_bf16(code)), bits(bf16_to_f32(static_cast<uint16_t>(code)))) << code;
  }
}

/// Numbers of every size, ties between codes among them, and what is none.
std::vector<float> numbers() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               -std::numeric_limits<float>::quiet_NaN(),
                               448.0f,
                               464.0f,
                               464.1f,
                               57344.0f,
                               61440.0f,
                               65504.0f,
                               65520.0f,
                               3.39e38f,
                               3.4e38f,
                               1e-45f};
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (uint32_t code = 0; code + 1 < 0x7C; ++code) {
    values.push_back((kE4M3Values[code] + kE4M3Values[code + 1]) / 2);
    values.push_back((kE5M2Values[code] + kE5M2Values[code + 1]) / 2 * 0.7f);
  }
  return values;
}

// CUDA-4: a cache write stores what KvWriter stores, to the bit, and counts as many saturated ones.
TEST(CudaNumbers, TheCacheStoresWhatItsWriterStores) {
  const std::vector<float> values = numbers();
  const auto count = static_cast<int32_t>(values.size());
  for (CodecId stored : {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    for (float scale : {1.0f, 0.3f, 1.7f}) {
      const float acts = has_cache_scale(stored) ? scale : 1.0f;
      const KvExtents extents{1, 1, count};
      const size_t number_bytes = static_cast<size_t>(cuda::kv_number_bytes(kv_numbers(stored)));
      std::vector<std::byte> expected(values.size() * number_bytes);
      KvWriter<KvRole::kKey> writer(expected.data(), extents, stored, KvScale(acts));
      writer.write(0, 0, values);
      std::vector<float> read(values.size());
      KvReader<KvRole::kKey>(expected.data(), extents, stored, KvScale(acts)).read(0, 0, read);
      int64_t saturated = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        bool too_large = false;
        const uint32_t code = cuda::kv_code(kv_numbers(stored), acts, values[i], too_large);
        saturated += too_large ? 1 : 0;
        uint32_t wanted = 0;
        std::memcpy(&wanted, expected.data() + i * number_bytes, number_bytes);
        ASSERT_EQ(code, wanted) << cache_type_name(stored) << " of " << values[i] << " under " << scale;
        ASSERT_EQ(bits(cuda::kv_number(kv_numbers(stored), acts, code)), bits(read[i])) << cache_type_name(stored);
      }
      EXPECT_EQ(saturated, writer.saturated()) << cache_type_name(stored);
    }
  }
}

}  // namespace
}  // namespace vernier
