#include "grammar/char_set.h"

#include <algorithm>
#include <cstdint>

namespace vernier {
namespace {

constexpr char32_t kLastChar = 0x10FFFF;
constexpr CharRange kSurrogates = {0xD800, 0xDFFF};

std::vector<CharRange> without_surrogates(const std::vector<CharRange>& ranges) {
  std::vector<CharRange> kept;
  for (CharRange range : ranges) {
    if (range.last < kSurrogates.first || range.first > kSurrogates.last) {
      kept.push_back(range);
      continue;
    }
    if (range.first < kSurrogates.first) kept.push_back({range.first, kSurrogates.first - 1});
    if (range.last > kSurrogates.last) kept.push_back({kSurrogates.last + 1, range.last});
  }
  return kept;
}

}  // namespace

CharSet CharSet::of(std::vector<CharRange> ranges) {
  ranges = without_surrogates(ranges);
  std::ranges::sort(ranges, {}, &CharRange::first);
  CharSet set;
  for (CharRange range : ranges) {
    if (range.first > range.last || range.first > kLastChar) continue;
    range.last = std::min(range.last, kLastChar);
    if (!set.ranges_.empty() && range.first <= set.ranges_.back().last + 1) {
      set.ranges_.back().last = std::max(set.ranges_.back().last, range.last);
    } else {
      set.ranges_.push_back(range);
    }
  }
  return set;
}

CharSet CharSet::complement() const {
  std::vector<CharRange> gaps;
  char32_t next = 0;
  for (CharRange range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastChar) gaps.push_back({next, kLastChar});
  return of(std::move(gaps));
}

CharSet CharSet::operator|(const CharSet& other) const {
  std::vector<CharRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return of(std::move(ranges));
}

CharSet CharSet::operator&(const CharSet& other) const {
  return (complement() | other.complement()).complement();
}

bool CharSet::contains(char32_t c) const {
  return std::ranges::any_of(ranges_, [&](CharRange range) { return range.first <= c && c <= range.last; });
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    char32_t c = bytes == 1 ? lead : lead & (0xFF >> (bytes + 1));
    for (size_t k = 1; k < bytes && i + k < text.size(); ++k) c = (c << 6) | (static_cast<uint8_t>(text[i + k]) & 0x3F);
    out.push_back(c);
    i += bytes;
  }
  return out;
}

}  // namespace vernier
