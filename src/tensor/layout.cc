#include "tensor/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/checked.h"

namespace vernier {
namespace {

/// Eight rows a step apart stand together, as one thread group of a tile reads them.
void shuffle_rows(std::vector<int64_t>& rows, int64_t block) {
  const std::vector<int64_t> before = rows;
  const int64_t step = block / 8;
  for (int64_t row = 0; row < static_cast<int64_t>(rows.size()); ++row) {
    const int64_t within = row % block;
    rows[static_cast<size_t>(row)] = before[static_cast<size_t>(row - within + within % 8 * step + within / 8)];
  }
}

}  // namespace

std::string Layout::to_string() const {
  if (*this == Layout{}) return "as stored";
  std::string text;
  auto add = [&](std::string words) { text += (text.empty() ? "" : ", ") + std::move(words); };
  if (row_multiple > 1 || col_multiple > 1) add(fmt::format("multiples of {}x{}", row_multiple, col_multiple));
  if (last_part_first) add("last part first");
  if (parts_alternate) add("parts alternate");
  if (shuffle != RowShuffle::kNone) {
    add(fmt::format("rows shuffled by {}", shuffle == RowShuffle::kBlocks16 ? 16 : 32));
  }
  if (scales != ScaleOrder::kRows) add(fmt::format("scales in {}", name(scales)));
  return text;
}

Result<std::vector<int64_t>> row_sources(std::span<const int64_t> part_rows, const Layout& layout) {
  std::vector<std::vector<int64_t>> parts;
  int64_t next = 0;
  for (int64_t rows : part_rows) {
    std::vector<int64_t>& part = parts.emplace_back();
    for (int64_t row = 0; row < rows; ++row) part.push_back(next++);
    part.resize(static_cast<size_t>(ceil_div(rows, layout.row_multiple) * layout.row_multiple), kPaddingRow);
  }
  if (layout.parts_alternate && (parts.size() != 2 || part_rows[0] != part_rows[1])) {
    return invalid_argument("rows of {} parts cannot take turns, expected two parts of equal height", parts.size());
  }
  if (layout.last_part_first) std::ranges::reverse(parts);
  std::vector<int64_t> sources;
  if (layout.parts_alternate) {
    for (size_t row = 0; row < parts[0].size(); ++row) {
      sources.push_back(parts[0][row]);
      sources.push_back(parts[1][row]);
    }
  } else {
    for (const std::vector<int64_t>& part : parts) sources.insert(sources.end(), part.begin(), part.end());
  }
  if (layout.shuffle == RowShuffle::kNone) return sources;
  const int64_t block = layout.shuffle == RowShuffle::kBlocks16 ? 16 : 32;
  if (static_cast<int64_t>(sources.size()) % block != 0) {
    return invalid_argument("{} rows cannot be shuffled by {}, expected a multiple", sources.size(), block);
  }
  shuffle_rows(sources, block);
  return sources;
}

}  // namespace vernier
