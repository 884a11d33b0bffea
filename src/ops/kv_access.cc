#include "ops/kv_access.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

constexpr float kLargestF16 = 65504.0f;
constexpr float kLargestBF16 = 0x1.FEp127f;
constexpr float kLargestE4M3 = 448.0f;

bool is_kv_type(CodecId stored) {
  return stored == CodecId::kF32 || stored == CodecId::kF16 || stored == CodecId::kBF16 ||
         stored == CodecId::kE4M3Tensor;
}

size_t number_bytes(CodecId stored) {
  CHECK(is_kv_type(stored), "a cache stores f32, f16, bf16 or e4m3");
  return stored == CodecId::kF32 ? 4 : stored == CodecId::kE4M3Tensor ? 1 : 2;
}

void check_access(const KvExtents& extents, CodecId stored, float scale, int64_t slot, int head, size_t count) {
  CHECK(is_kv_type(stored), "a cache stores f32, f16, bf16 or e4m3");
  CHECK(scale > 0 && std::isfinite(scale), "a cache scale of {}", scale);
  CHECK(slot >= 0 && head >= 0 && head < extents.kv_heads, "slot {}, head {} of {}", slot, head, extents.kv_heads);
  CHECK(count == static_cast<size_t>(extents.head_dim), "{} numbers for a head of {}", count, extents.head_dim);
}

/// Writes numbers of type Code; returns how many did not fit. What rounds to the largest number fits.
template <class Code, class Encode>
int64_t write_codes(std::byte* to, std::span<const float> values, float scale, float largest, Encode encode) {
  int64_t saturated = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    float value = values[i] / scale;
    // NaN compares false and stays NaN.
    if (std::fabs(value) > largest) {
      ++saturated;
      value = std::copysign(largest, value);
    }
    Code code = encode(value);
    std::memcpy(to + i * sizeof(Code), &code, sizeof(Code));
  }
  return saturated;
}

template <class Code, class Decode>
void read_codes(const std::byte* from, std::span<float> out, float scale, Decode decode) {
  for (size_t i = 0; i < out.size(); ++i) {
    Code code;
    std::memcpy(&code, from + i * sizeof(Code), sizeof(Code));
    out[i] = decode(code) * scale;
  }
}

}  // namespace

template <KvRole R>
void KvWriter<R>::write(int64_t slot, int head, std::span<const float> values) {
  check_access(extents_, stored_, scale_, slot, head, values.size());
  std::byte* to = bytes_ + static_cast<size_t>(extents_.offset(slot, head)) * number_bytes(stored_);
  // A scale acts only where the stored type has one.
  switch (stored_) {
    case CodecId::kF16:
      saturated_ += write_codes<uint16_t>(to, values, 1.0f, kLargestF16, f32_to_f16);
      break;
    case CodecId::kBF16:
      saturated_ += write_codes<uint16_t>(to, values, 1.0f, kLargestBF16, f32_to_bf16);
      break;
    case CodecId::kE4M3Tensor:
      saturated_ += write_codes<uint8_t>(to, values, scale_, kLargestE4M3, f32_to_e4m3);
      break;
    default:
      std::memcpy(to, values.data(), values.size_bytes());
  }
}

template <KvRole R>
void KvReader<R>::read(int64_t slot, int head, std::span<float> out) const {
  check_access(extents_, stored_, scale_, slot, head, out.size());
  const std::byte* from = bytes_ + static_cast<size_t>(extents_.offset(slot, head)) * number_bytes(stored_);
  switch (stored_) {
    case CodecId::kF16:
      return read_codes<uint16_t>(from, out, 1.0f, f16_to_f32);
    case CodecId::kBF16:
      return read_codes<uint16_t>(from, out, 1.0f, bf16_to_f32);
    case CodecId::kE4M3Tensor:
      return read_codes<uint8_t>(from, out, scale_, e4m3_to_f32);
    default:
      std::memcpy(out.data(), from, out.size_bytes());
  }
}

template class KvWriter<KvRole::kKey>;
template class KvWriter<KvRole::kValue>;
template class KvReader<KvRole::kKey>;
template class KvReader<KvRole::kValue>;

}  // namespace vernier
