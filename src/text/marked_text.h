#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_range.h"

namespace vernier {

/// Valid UTF-8 that remembers which of its bytes came from a caller. Without callers' text `marks` is empty and costs
/// nothing. A byte made from several counts as the caller's if one of them did.
struct MarkedText {
  std::string text;
  std::vector<uint8_t> marks;  // [bytes], or empty

  bool is_marked(size_t begin, size_t end) const {
    for (size_t i = begin; i < end && !marks.empty(); ++i) {
      if (marks[i] != 0) return true;
    }
    return false;
  }
};

/// Writes a changed copy of a text and carries its marks along.
class MarkedWriter {
 public:
  explicit MarkedWriter(const MarkedText& from) : from_(from) { out_.text.reserve(from.text.size() + 16); }

  /// Appends bytes of the source as they are.
  void copy(size_t begin, size_t end) {
    out_.text.append(from_.text, begin, end - begin);
    if (!from_.marks.empty()) {
      out_.marks.insert(out_.marks.end(), from_.marks.begin() + static_cast<ptrdiff_t>(begin),
                        from_.marks.begin() + static_cast<ptrdiff_t>(end));
    }
  }
  /// Appends what the bytes [begin, end) of the source became.
  void put(size_t begin, size_t end, std::string_view text) {
    out_.text.append(text);
    if (!from_.marks.empty()) out_.marks.resize(out_.text.size(), from_.is_marked(begin, end) ? 1 : 0);
  }
  size_t size() const { return out_.text.size(); }
  MarkedText take() { return std::move(out_); }

 private:
  const MarkedText& from_;
  MarkedText out_;
};

}  // namespace vernier
