#include "ops/kv_access.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/code_tables.h"
#include "tensor/scalar.h"

namespace vernier {
namespace {

// The largest float that rounds to a number of the type; what lies beyond does not fit.
constexpr float kLimitF16 = 65519.996f;
constexpr float kLimitBF16 = 0x1.FEFFFEp127f;
constexpr float kLimitE4M3 = 464.0f;
constexpr float kLimitE5M2 = 61439.996f;
constexpr const char* kWanted = "a cache stores f32, f16, bf16, e4m3 or e5m2";

size_t number_bytes(CodecId stored) {
  CHECK(is_cache_type(stored), "{}", kWanted);
  return stored == CodecId::kF32 ? 4 : has_cache_scale(stored) ? 1 : 2;
}

void check_access(const KvExtents& extents, CodecId stored, const KvScale& scale, int64_t slot, int head,
                  size_t count) {
  CHECK(is_cache_type(stored), "{}", kWanted);
  CHECK(!scale.per_head() || scale.values().size() == static_cast<size_t>(extents.kv_heads), "{} scales for {} heads",
        scale.values().size(), extents.kv_heads);
  CHECK(slot >= 0 && head >= 0 && head < extents.kv_heads, "slot {}, head {} of {}", slot, head, extents.kv_heads);
  CHECK(count == static_cast<size_t>(extents.head_dim), "{} numbers for a head of {}", count, extents.head_dim);
}

/// Writes numbers of type Code; returns how many did not fit and became the largest.
template <class Code, class Encode>
int64_t write_codes(std::byte* to, std::span<const float> values, float scale, float limit, Encode encode) {
  int64_t saturated = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    float value = values[i] / scale;
    // NaN compares false and stays NaN.
    if (std::fabs(value) > limit) {
      ++saturated;
      value = std::copysign(limit, value);
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
      saturated_ += write_codes<uint16_t>(to, values, 1.0f, kLimitF16, [](float value) { return f32_to_f16(value); });
      break;
    case CodecId::kBF16:
      saturated_ += write_codes<uint16_t>(to, values, 1.0f, kLimitBF16, [](float value) { return f32_to_bf16(value); });
      break;
    case CodecId::kE4M3Tensor:
      saturated_ +=
          write_codes<uint8_t>(to, values, scale_.of(head), kLimitE4M3, [](float value) { return f32_to_e4m3(value); });
      break;
    case CodecId::kE5M2Tensor:
      saturated_ +=
          write_codes<uint8_t>(to, values, scale_.of(head), kLimitE5M2, [](float value) { return f32_to_e5m2(value); });
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
      return read_codes<uint16_t>(from, out, 1.0f, [](uint16_t code) { return f16_to_f32(code); });
    case CodecId::kBF16:
      return read_codes<uint16_t>(from, out, 1.0f, [](uint16_t code) { return bf16_to_f32(code); });
    case CodecId::kE4M3Tensor:
      return read_codes<uint8_t>(from, out, scale_.of(head), [](uint8_t code) { return kE4M3Values[code]; });
    case CodecId::kE5M2Tensor:
      return read_codes<uint8_t>(from, out, scale_.of(head), [](uint8_t code) { return kE5M2Values[code]; });
    default:
      std::memcpy(out.data(), from, out.size_bytes());
  }
}

template class KvWriter<KvRole::kKey>;
template class KvWriter<KvRole::kValue>;
template class KvReader<KvRole::kKey>;
template class KvReader<KvRole::kValue>;

}  // namespace vernier
