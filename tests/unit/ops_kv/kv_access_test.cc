#include "ops/kv_access.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <vector>

namespace vernier {
namespace {

using KeyWriter = KvWriter<KvRole::kKey>;
using KeyReader = KvReader<KvRole::kKey>;

constexpr KvExtents kExtents{.block_tokens = 4, .kv_heads = 3, .head_dim = 5};
constexpr CodecId kTypes[] = {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor};

size_t number_bytes(CodecId stored) {
  return stored == CodecId::kF32 ? 4 : has_cache_scale(stored) ? 1 : 2;
}

/// Two blocks, full of a pattern that is NaN in every type.
std::vector<std::byte> poisoned(CodecId stored) {
  return std::vector<std::byte>(2 * 4 * 3 * 5 * number_bytes(stored), std::byte{0xFF});
}

std::vector<float> row_of(int64_t slot, int head) {
  std::vector<float> values;
  for (int i = 0; i < 5; ++i) values.push_back(static_cast<float>((slot * 7 + head * 3 + i) % 13) - 6.0f);
  return values;
}

TEST(KvAccess, EverySlotAndHeadComesBackFromItsOwnPlace) {
  for (CodecId stored : kTypes) {
    std::vector<std::byte> bytes = poisoned(stored);
    KeyWriter writer(bytes.data(), kExtents, stored, 0.5f);
    for (int64_t slot = 0; slot < 8; ++slot) {
      for (int head = 0; head < 3; ++head) writer.write(slot, head, row_of(slot, head));
    }
    EXPECT_EQ(writer.saturated(), 0);
    KeyReader reader(bytes.data(), kExtents, stored, 0.5f);
    std::vector<float> found(5);
    for (int64_t slot = 0; slot < 8; ++slot) {
      for (int head = 0; head < 3; ++head) {
        reader.read(slot, head, found);
        EXPECT_EQ(found, row_of(slot, head)) << slot << " " << head;
      }
    }
  }
}

TEST(KvAccess, AWriteTouchesOnlyItsOwnNumbers) {
  for (CodecId stored : kTypes) {
    std::vector<std::byte> bytes = poisoned(stored);
    KeyWriter(bytes.data(), kExtents, stored, 1.0f).write(5, 1, row_of(5, 1));
    size_t width = number_bytes(stored);
    // Slot 5 is token 1 of block 1: ((1 x 3 + 1) x 4 + 1) x 5.
    size_t begin = 85 * width;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i < begin || i >= begin + 5 * width) {
        EXPECT_EQ(bytes[i], std::byte{0xFF}) << i;
      }
    }
  }
}

/// A scale that does not reach the write leaves 448 (0x7E) where 256 belongs.
TEST(KvAccess, TheScaleReachesTheStoredByte) {
  KvExtents one{.block_tokens = 1, .kv_heads = 1, .head_dim = 1};
  std::byte code{0};
  KeyWriter writer(&code, one, CodecId::kE4M3Tensor, 4.0f);
  writer.write(0, 0, std::vector{1000.0f});
  EXPECT_EQ(code, std::byte{0x78});
  EXPECT_EQ(writer.saturated(), 0);
  std::vector<float> found(1);
  KeyReader(&code, one, CodecId::kE4M3Tensor, 4.0f).read(0, 0, found);
  EXPECT_EQ(found[0], 1024.0f);
}

TEST(KvAccess, KeysAndValuesHaveScalesOfTheirOwn) {
  KvExtents one{.block_tokens = 1, .kv_heads = 1, .head_dim = 2};
  std::byte keys[2];
  std::byte values[2];
  std::vector<float> numbers = {3.1f, -0.77f};
  KvWriter<KvRole::kKey>(keys, one, CodecId::kE4M3Tensor, 0.3f).write(0, 0, numbers);
  KvWriter<KvRole::kValue>(values, one, CodecId::kE4M3Tensor, 1.7f).write(0, 0, numbers);
  EXPECT_NE(keys[0], values[0]);
  std::vector<float> found(2);
  KvReader<KvRole::kKey>(keys, one, CodecId::kE4M3Tensor, 0.3f).read(0, 0, found);
  EXPECT_NEAR(found[0], 3.1f, 3.1f / 16);
  EXPECT_NEAR(found[1], -0.77f, 0.77f / 16);
  KvReader<KvRole::kValue>(values, one, CodecId::kE4M3Tensor, 1.7f).read(0, 0, found);
  EXPECT_NEAR(found[0], 3.1f, 3.1f / 16);
  EXPECT_NEAR(found[1], -0.77f, 0.77f / 16);
}

TEST(KvAccess, EachHeadHasItsOwnScale) {
  const KvScale scales = KvScale::make({0.3f, 1.7f, 0.06f}, "test").value();
  for (CodecId stored : {CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    std::vector<std::byte> bytes = poisoned(stored);
    KeyWriter writer(bytes.data(), kExtents, stored, scales);
    KeyReader reader(bytes.data(), kExtents, stored, scales);
    std::vector<float> found(5);
    for (int head = 0; head < 3; ++head) {
      const std::vector<float> numbers = {3.1f, -0.77f, 1.3f, -2.9f, 0.6f};
      writer.write(6, head, numbers);
      reader.read(6, head, found);
      for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(found[i], numbers[i], std::abs(numbers[i]) / 8) << head;
      KeyWriter one(bytes.data(), kExtents, stored, scales.of(head));
      std::vector<float> alone(5);
      one.write(6, head, numbers);
      KeyReader(bytes.data(), kExtents, stored, scales.of(head)).read(6, head, alone);
      EXPECT_EQ(found, alone) << head;
    }
  }
}

TEST(KvScale, HoldsOnlyNumbersThatAreScales) {
  for (float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto refused = KvScale::make({0.3f, bad}, "layers.3.k_scale");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("layers.3.k_scale"), std::string::npos);
  }
  EXPECT_FALSE(KvScale::make({}, "none").ok());
}

TEST(KvAccess, AScaleActsOnlyWhereTheStoredTypeHasOne) {
  for (CodecId stored : {CodecId::kF32, CodecId::kF16, CodecId::kBF16}) {
    std::vector<std::byte> with = poisoned(stored);
    std::vector<std::byte> without = poisoned(stored);
    std::vector<float> numbers = {0.1f, -7.3f, 1e-5f, 300.7f, -0.0f};
    KeyWriter(with.data(), kExtents, stored, 4.0f).write(2, 0, numbers);
    KeyWriter(without.data(), kExtents, stored, 1.0f).write(2, 0, numbers);
    EXPECT_EQ(with, without);
    std::vector<float> a(5);
    std::vector<float> b(5);
    KeyReader(with.data(), kExtents, stored, 4.0f).read(2, 0, a);
    KeyReader(without.data(), kExtents, stored, 1.0f).read(2, 0, b);
    EXPECT_EQ(a, b);
  }
}

TEST(KvAccess, SaturatesAndCountsEachNumberThatDid) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Case {
    CodecId stored;
    float scale;
    float largest;  ///< as read back
  };
  for (auto [stored, scale, largest] : {Case{CodecId::kE4M3Tensor, 0.6f, 448.0f * 0.6f},
                                        {CodecId::kE5M2Tensor, 0.6f, 57344.0f * 0.6f},
                                        {CodecId::kF16, 0.6f, 65504.0f},
                                        {CodecId::kBF16, 0.6f, 0x1.FEp127f}}) {
    std::vector<std::byte> bytes = poisoned(stored);
    KeyWriter writer(bytes.data(), kExtents, stored, scale);
    writer.write(0, 0, std::vector{kInfinity, -kInfinity, largest, 1.0f, -0.0f});
    EXPECT_EQ(writer.saturated(), 2);
    writer.write(1, 0, std::vector{1.0f, kInfinity, 0.0f, 0.0f, 0.0f});
    EXPECT_EQ(writer.saturated(), 3);
    std::vector<float> found(5);
    KeyReader(bytes.data(), kExtents, stored, scale).read(0, 0, found);
    EXPECT_EQ(found[0], largest);
    EXPECT_EQ(found[1], -largest);
    EXPECT_EQ(found[2], largest);
    EXPECT_TRUE(std::signbit(found[4]));
  }
}

TEST(KvAccess, NanStaysNanAndIsNotCountedAsSaturated) {
  for (CodecId stored : kTypes) {
    std::vector<std::byte> bytes(poisoned(stored).size(), std::byte{0});
    KeyWriter writer(bytes.data(), kExtents, stored, 0.3f);
    writer.write(0, 0, std::vector<float>(5, std::numeric_limits<float>::quiet_NaN()));
    EXPECT_EQ(writer.saturated(), 0);
    std::vector<float> found(5);
    KeyReader(bytes.data(), kExtents, stored, 0.3f).read(0, 0, found);
    EXPECT_TRUE(std::isnan(found[0]));
  }
}

TEST(KvAccessDeathTest, AScaleThatIsNoScaleIsNeverUsed) {
  std::vector<std::byte> bytes = poisoned(CodecId::kE4M3Tensor);
  for (float scale : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_DEATH(KeyWriter(bytes.data(), kExtents, CodecId::kE4M3Tensor, scale).write(0, 0, row_of(0, 0)), "scale");
  }
  EXPECT_DEATH(KeyWriter(bytes.data(), kExtents, CodecId::kMxfp4, 1.0f).write(0, 0, row_of(0, 0)), "cache stores");
  EXPECT_DEATH(KeyWriter(bytes.data(), kExtents, CodecId::kE4M3Tensor, 1.0f).write(0, 3, row_of(0, 0)), "head 3 of 3");
}

// An offset that 32 bits do not hold: FP8 keys of 16 tokens, 8 heads of 128 numbers, block 131072. The pages that are
// not touched cost no memory.
TEST(KvAccess, ABlockBeyondTwoGigabytesIsItsOwn) {
  constexpr KvExtents extents{.block_tokens = 16, .kv_heads = 8, .head_dim = 128};
  constexpr int64_t kBlock = 131072, kBytes = (kBlock + 1) * 16 * 8 * 128;
  static_assert(kBlock * 16 * 8 * 128 == int64_t{1} << 31);
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no 2 GiB of addresses here";
  auto* bytes = static_cast<std::byte*>(mapped);
  KeyWriter writer(bytes, extents, CodecId::kE4M3Tensor, 0.3f);
  KeyReader reader(bytes, extents, CodecId::kE4M3Tensor, 0.3f);
  std::vector<float> first(128), last(128), found(128);
  for (int head = 0; head < 8; ++head) {
    for (size_t i = 0; i < 128; ++i) {
      first[i] = 0.3f * static_cast<float>(head + 1);
      last[i] = -0.3f * static_cast<float>(i % 8);
    }
    writer.write(5, head, first);
    writer.write(kBlock * 16 + 5, head, last);
    reader.read(kBlock * 16 + 5, head, found);
    EXPECT_EQ(found, last) << head;
    reader.read(5, head, found);
    EXPECT_EQ(found, first) << head;
  }
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace vernier
