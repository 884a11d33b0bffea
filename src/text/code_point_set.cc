#include "text/code_point_set.h"

#include <algorithm>
#include <array>

#include "text/unicode.h"

namespace vernier {

CodePointSet::CodePointSet(std::span<const CodePointRange> ranges) : ranges_(ranges.begin(), ranges.end()) {
  normalise();
}

CodePointSet CodePointSet::of(char32_t first, char32_t last) {
  CodePointSet set;
  if (first <= last) set.ranges_.push_back({first, last});
  return set;
}

void CodePointSet::normalise() {
  std::sort(ranges_.begin(), ranges_.end(), [](auto a, auto b) { return a.first < b.first; });
  std::vector<CodePointRange> merged;
  for (CodePointRange range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

CodePointSet CodePointSet::united(const CodePointSet& other) const {
  CodePointSet result = *this;
  result.ranges_.insert(result.ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  result.normalise();
  return result;
}

CodePointSet CodePointSet::intersected(const CodePointSet& other) const {
  return complement().united(other.complement()).complement();
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  char32_t next = 0;
  for (CodePointRange range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) result.ranges_.push_back({next, kLast});
  return result;
}

CodePointSet CodePointSet::case_closed() const {
  CodePointSet result = *this;
  for (std::span<const char32_t> orbit : unicode::case_orbits()) {
    bool inside = std::any_of(orbit.begin(), orbit.end(), [&](char32_t c) { return contains(c); });
    if (!inside) continue;
    for (char32_t c : orbit) result.ranges_.push_back({c, c});
  }
  result.normalise();
  return result;
}

bool CodePointSet::contains(char32_t code_point) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                                [](char32_t c, const CodePointRange& range) { return c < range.first; });
  return after != ranges_.begin() && std::prev(after)->last >= code_point;
}

CodePointBitmap::CodePointBitmap(const CodePointSet& set) : block_of_(0x1100), words_(8) {
  // Most blocks lie outside of the set or inside: they share the first two.
  std::fill(words_.begin() + 4, words_.end(), ~uint64_t{0});
  auto range = set.ranges().begin();
  auto end = set.ranges().end();
  for (char32_t block = 0; block < 0x1100; ++block) {
    char32_t first = block << 8;
    char32_t last = first + 255;
    while (range != end && range->last < first) ++range;
    if (range == end || range->first > last) continue;
    if (range->first <= first && range->last >= last) {
      block_of_[block] = 1;
      continue;
    }
    std::array<uint64_t, 4> bits{};
    for (auto here = range; here != end && here->first <= last; ++here) {
      for (char32_t c = std::max(first, here->first); c <= std::min(last, here->last); ++c) {
        bits[c >> 6 & 3] |= uint64_t{1} << (c & 63);
      }
    }
    block_of_[block] = static_cast<uint16_t>(words_.size() / 4);
    words_.insert(words_.end(), bits.begin(), bits.end());
  }
  std::copy_n(words_.begin() + size_t{block_of_[0]} * 4, 4, low_);
}

}  // namespace vernier
