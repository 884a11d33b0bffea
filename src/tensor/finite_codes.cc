#include "tensor/finite_codes.h"

#include <cstring>

namespace vernier {
namespace {

/// The first code whose bits under `mask` are all set: an exponent of ones, or E4M3's one NaN.
template <class Bits>
std::optional<int64_t> find_all_set(std::span<const std::byte> codes, Bits mask) {
  constexpr size_t kChunk = 1024;  // looked at without a branch, so that it costs no more than reading
  const size_t count = codes.size() / sizeof(Bits);
  auto is_set = [&](size_t i) {
    Bits code;
    std::memcpy(&code, codes.data() + i * sizeof(Bits), sizeof code);
    return (code & mask) == mask;
  };
  for (size_t begin = 0; begin < count;) {
    if (count - begin >= kChunk) {
      Bits any = 0;
      for (size_t i = 0; i < kChunk; ++i) any |= static_cast<Bits>(is_set(begin + i));
      if (any == 0) {
        begin += kChunk;
        continue;
      }
    }
    const size_t end = begin + kChunk < count ? begin + kChunk : count;
    for (; begin < end; ++begin) {
      if (is_set(begin)) return static_cast<int64_t>(begin);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> find_not_finite(Element element, std::span<const std::byte> codes) {
  switch (element) {
    case Element::kF32:
      return find_all_set<uint32_t>(codes, 0x7F800000);
    case Element::kF16:
      return find_all_set<uint16_t>(codes, 0x7C00);
    case Element::kBF16:
      return find_all_set<uint16_t>(codes, 0x7F80);
    case Element::kE4M3:
      return find_all_set<uint8_t>(codes, 0x7F);
    case Element::kE5M2:
      return find_all_set<uint8_t>(codes, 0x7C);
    case Element::kE2M1:
    case Element::kInt:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace vernier
