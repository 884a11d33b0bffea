#pragma once

#include <cstddef>

namespace vernier {

/// Bytes [begin, end) of a text. Lists of ranges are sorted, do not touch and hold no empty range.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace vernier
