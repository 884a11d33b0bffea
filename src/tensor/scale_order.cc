#include "tensor/scale_order.h"

#include "base/check.h"
#include "tensor/checked.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

constexpr int64_t kLoadBytes = 16;  // columns start where a bulk copy may
constexpr int64_t kTileCols = 4;
constexpr int64_t kWordBytes = 4;

int64_t round_up(int64_t value, int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

}  // namespace

std::string_view name(ScaleOrder order) {
  switch (order) {
    case ScaleOrder::kRows:
      return "rows";
    case ScaleOrder::kColumns:
      return "columns";
    case ScaleOrder::kTiles128x4:
      return "128x4";
    case ScaleOrder::kTiles8x4:
      return "8x4";
    case ScaleOrder::kWords:
      return "words";
    case ScaleOrder::kWordsEachRow:
      return "words of each row";
  }
  return "?";
}

int64_t ScaleTable::bytes() const {
  switch (order) {
    case ScaleOrder::kRows:
      return down * across * bytes_each;
    case ScaleOrder::kColumns:
      return across * round_up(down * bytes_each, kLoadBytes);
    case ScaleOrder::kTiles128x4:
      return round_up(down, 128) * round_up(across, kTileCols);
    case ScaleOrder::kTiles8x4:
      return round_up(down, 8) * round_up(across, kTileCols);
    case ScaleOrder::kWords:
    case ScaleOrder::kWordsEachRow:
      return ceil_div(across, kWordBytes) * round_up(down * kWordBytes, kLoadBytes);
  }
  return 0;
}

int64_t ScaleTable::place(int64_t row, int64_t col) const {
  CHECK(row >= 0 && row < down && col >= 0 && col < across, "scale ({}, {}) of {} x {}", row, col, down, across);
  const int64_t tiles_across = ceil_div(across, kTileCols);
  switch (order) {
    case ScaleOrder::kRows:
      return (row * across + col) * bytes_each;
    case ScaleOrder::kColumns:
      return col * round_up(down * bytes_each, kLoadBytes) + row * bytes_each;
    case ScaleOrder::kTiles128x4:
      return (row / 128 * tiles_across + col / kTileCols) * 512 + row % 32 * 16 + row % 128 / 32 * kTileCols +
             col % kTileCols;
    case ScaleOrder::kTiles8x4:
      return (row / 8 * tiles_across + col / kTileCols) * 32 + row % 8 * kTileCols + col % kTileCols;
    case ScaleOrder::kWords:
    case ScaleOrder::kWordsEachRow:
      return col / kWordBytes * round_up(down * kWordBytes, kLoadBytes) + row * kWordBytes + col % kWordBytes;
  }
  return 0;
}

bool holds(ScaleOrder order, ScaleType type) {
  switch (order) {
    case ScaleOrder::kRows:
      return true;
    case ScaleOrder::kColumns:
      return type != ScaleType::kNone;
    case ScaleOrder::kTiles128x4:
    case ScaleOrder::kTiles8x4:
      return type == ScaleType::kE8M0 || type == ScaleType::kE4M3;
    case ScaleOrder::kWords:
    case ScaleOrder::kWordsEachRow:
      return type == ScaleType::kE8M0;
  }
  return false;
}

}  // namespace vernier
