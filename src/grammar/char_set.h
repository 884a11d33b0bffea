#pragma once

#include <string_view>
#include <vector>

namespace vernier {

/// Code points, both ends included.
struct CharRange {
  char32_t first = 0;
  char32_t last = 0;
  bool operator==(const CharRange&) const = default;
};

/// A set of Unicode scalar values. Surrogates are never in it: no text holds one.
class CharSet {
 public:
  static CharSet all() { return CharSet().complement(); }
  static CharSet of(std::vector<CharRange> ranges);

  CharSet complement() const;
  CharSet operator|(const CharSet& other) const;
  CharSet operator&(const CharSet& other) const;
  bool contains(char32_t c) const;
  bool contains_all(const CharSet& other) const { return (other & complement()).empty(); }
  bool empty() const { return ranges_.empty(); }
  /// Sorted, with gaps between them.
  const std::vector<CharRange>& ranges() const { return ranges_; }

 private:
  std::vector<CharRange> ranges_;
};

/// The characters of a text that is UTF-8.
std::vector<char32_t> code_points(std::string_view text);

}  // namespace vernier
