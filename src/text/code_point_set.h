#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace vernier {

struct CodePointRange {
  char32_t first;
  char32_t last;
  bool operator==(const CodePointRange&) const = default;
};

/// A set of code points as sorted, disjoint, non-adjacent ranges: the form in which classes are computed with.
class CodePointSet {
 public:
  static constexpr char32_t kLast = 0x10FFFF;

  CodePointSet() = default;
  explicit CodePointSet(std::span<const CodePointRange> ranges);
  static CodePointSet of(char32_t code_point) { return of(code_point, code_point); }
  static CodePointSet of(char32_t first, char32_t last);

  CodePointSet united(const CodePointSet& other) const;
  CodePointSet intersected(const CodePointSet& other) const;
  CodePointSet complement() const;
  /// With every character that matches one of these when case is ignored.
  CodePointSet case_closed() const;

  bool contains(char32_t code_point) const;
  std::span<const CodePointRange> ranges() const { return ranges_; }

 private:
  void normalise();
  std::vector<CodePointRange> ranges_;
};

/// The same set as a two-level bitmap: one test costs two loads. Immutable; any thread.
class CodePointBitmap {
 public:
  CodePointBitmap() : CodePointBitmap(CodePointSet()) {}
  explicit CodePointBitmap(const CodePointSet& set);

  bool contains(char32_t code_point) const {
    if (code_point < 256) return low_[code_point >> 6] >> (code_point & 63) & 1;
    size_t word = size_t{block_of_[code_point >> 8]} * 4 + (code_point >> 6 & 3);
    return words_[word] >> (code_point & 63) & 1;
  }

 private:
  uint64_t low_[4];
  std::vector<uint16_t> block_of_;  // [0x1100] block of 256 code points -> its place in words_
  std::vector<uint64_t> words_;     // [blocks, 4]
};

}  // namespace vernier
