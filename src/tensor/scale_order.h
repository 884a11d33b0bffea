#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/codec.h"

namespace vernier {

/// In which order the inner scales of a matrix stand in memory: [down, across] of them, and what a kernel's loads ask
/// for beyond.
enum class ScaleOrder : uint8_t {
  kRows,          ///< row-major, as a QTensor has them
  kColumns,       ///< column-major, each column a multiple of 16 bytes
  kTiles128x4,    ///< tiles of 128 rows x 4 columns, 512 bytes each: rows r, r + 32, r + 64, r + 96 stand together
  kTiles8x4,      ///< tiles of 8 rows x 4 columns, each row-major
  kWords,         ///< four E8M0 of a row in an int32, lowest byte first; words column-major, columns of 16 bytes
  kWordsEachRow,  ///< the same, a block's scales repeated for each of its rows
};

std::string_view name(ScaleOrder order);

/// Scales of one matrix in one order: `bytes_each` of one scale.
struct ScaleTable {
  ScaleOrder order;
  int64_t down;
  int64_t across;
  int64_t bytes_each;

  int64_t bytes() const;  ///< of the whole table; what no scale stands on is 0
  /// First byte of scale (row, col).
  int64_t place(int64_t row, int64_t col) const;
};

/// Whether the order can hold scales of this type: tiles take single bytes, words take E8M0.
bool holds(ScaleOrder order, ScaleType type);

}  // namespace vernier
