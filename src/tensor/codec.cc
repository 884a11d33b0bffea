#include "tensor/codec.h"

#include <fmt/format.h>

#include <deque>
#include <limits>
#include <mutex>

#include "base/check.h"
#include "tensor/checked.h"

namespace vernier {
namespace {

constexpr Codec dense(CodecId id, std::string_view name, std::string_view disk_name, Element element, int bits) {
  return {id, name, disk_name, element, bits, 1, 1, ScaleType::kNone, false, Packing::kPlain, 0};
}

constexpr Codec scaled_byte(CodecId id, std::string_view name, Element element, int group_rows, int group_cols,
                            ScaleType inner = ScaleType::kF32) {
  std::string_view disk_name = element == Element::kE4M3 ? "F8_E4M3" : "F8_E5M2";
  return {id, name, disk_name, element, 8, group_rows, group_cols, inner, false, Packing::kPlain, 0};
}

constexpr Codec nibbles(CodecId id, std::string_view name, int group_cols, ScaleType inner, bool outer_scale) {
  return {id, name, "U8", Element::kE2M1, 4, 1, group_cols, inner, outer_scale, Packing::kNibblesLow, 0};
}

constexpr Codec gguf(CodecId id, std::string_view name, std::string_view disk_name, int bits, int group_cols,
                     int block_bytes, Element element = Element::kInt) {
  return {id, name, disk_name, element, bits, 1, group_cols, ScaleType::kNone, false, Packing::kGgufBlock, block_bytes};
}

constexpr std::array<Codec, 23> kCodecs = {{
    dense(CodecId::kF32, "f32", "F32", Element::kF32, 32),
    dense(CodecId::kF16, "f16", "F16", Element::kF16, 16),
    dense(CodecId::kBF16, "bf16", "BF16", Element::kBF16, 16),
    scaled_byte(CodecId::kE4M3Tensor, "e4m3[tensor]", Element::kE4M3, 0, 0),
    scaled_byte(CodecId::kE4M3Channel, "e4m3[channel]", Element::kE4M3, 1, 0),
    scaled_byte(CodecId::kE4M3Block, "e4m3[128x128]", Element::kE4M3, 128, 128),
    scaled_byte(CodecId::kE5M2Tensor, "e5m2[tensor]", Element::kE5M2, 0, 0),
    scaled_byte(CodecId::kE5M2Channel, "e5m2[channel]", Element::kE5M2, 1, 0),
    scaled_byte(CodecId::kE5M2Block, "e5m2[128x128]", Element::kE5M2, 128, 128),
    scaled_byte(CodecId::kMxfp8, "mxfp8", Element::kE4M3, 1, 32, ScaleType::kE8M0),
    nibbles(CodecId::kMxfp4, "mxfp4", 32, ScaleType::kE8M0, false),
    nibbles(CodecId::kNvfp4, "nvfp4", 16, ScaleType::kE4M3, true),
    gguf(CodecId::kQ4_0, "q4_0", "Q4_0", 4, 32, 18),
    gguf(CodecId::kQ4_1, "q4_1", "Q4_1", 4, 32, 20),
    gguf(CodecId::kQ5_0, "q5_0", "Q5_0", 5, 32, 22),
    gguf(CodecId::kQ5_1, "q5_1", "Q5_1", 5, 32, 24),
    gguf(CodecId::kQ8_0, "q8_0", "Q8_0", 8, 32, 34),
    gguf(CodecId::kQ2_K, "q2_k", "Q2_K", 2, 256, 84),
    gguf(CodecId::kQ3_K, "q3_k", "Q3_K", 3, 256, 110),
    gguf(CodecId::kQ4_K, "q4_k", "Q4_K", 4, 256, 144),
    gguf(CodecId::kQ5_K, "q5_k", "Q5_K", 5, 256, 176),
    gguf(CodecId::kQ6_K, "q6_k", "Q6_K", 6, 256, 210),
    gguf(CodecId::kGgufMxfp4, "gguf_mxfp4", "MXFP4", 4, 32, 17, Element::kE2M1),
}};

constexpr bool rows_stand_at_their_id() {
  for (size_t i = 0; i < kCodecs.size(); ++i) {
    if (static_cast<size_t>(kCodecs[i].id) != i) return false;
  }
  return true;
}
static_assert(rows_stand_at_their_id());

/// A Codec holds a view of its name; names of block formats live here for as long as the program.
std::string_view keep_name(std::string name) {
  static std::mutex mutex;
  static std::deque<std::string> names;
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::string& kept : names) {
    if (kept == name) return kept;
  }
  return names.emplace_back(std::move(name));
}

int64_t or_maximum(std::optional<int64_t> value) {
  return value.value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace

int64_t Codec::row_bytes(int64_t cols) const {
  switch (packing) {
    case Packing::kPlain:
      return or_maximum(checked_mul(cols, bits / 8));
    case Packing::kNibblesLow:
      return cols / 2;
    case Packing::kGgufBlock:
      return or_maximum(checked_mul(cols / group_cols, block_bytes));
  }
  return 0;
}

Result<int64_t> Codec::code_bytes(int64_t rows, int64_t cols) const {
  if (rows < 1 || cols < 1) return invalid_argument("found [{}, {}], expected extents of at least 1", rows, cols);
  if (!checked_mul(rows, cols))
    return invalid_argument("[{}, {}] has more elements than 64 bits can count", rows, cols);
  if (int64_t multiple = column_multiple(); cols % multiple != 0) {
    // Unsigned: the multiple above the largest int64 still fits.
    auto below = static_cast<uint64_t>(cols / multiple * multiple);
    return invalid_argument("{} columns, but {} needs a multiple of {}; the nearest are {} and {}", cols, name,
                            multiple, below, below + static_cast<uint64_t>(multiple));
  }
  std::optional<int64_t> row = packing == Packing::kPlain ? checked_mul(cols, bits / 8) : row_bytes(cols);
  std::optional<int64_t> total = row ? checked_mul(rows, *row) : std::nullopt;
  if (!total) return invalid_argument("[{}, {}] as {} needs more bytes than 64 bits can count", rows, cols, name);
  return *total;
}

int64_t Codec::column_multiple() const {
  bool whole_groups = packing != Packing::kPlain || id == CodecId::kMxfp8;
  return whole_groups ? group_cols : 1;
}

int64_t Codec::groups_down(int64_t rows) const {
  return group_rows == 0 ? 1 : ceil_div(rows, group_rows);
}

int64_t Codec::groups_across(int64_t cols) const {
  return group_cols == 0 ? 1 : ceil_div(cols, group_cols);
}

const Codec& codec(CodecId id) {
  CHECK(id != CodecId::kE4M3Block && id != CodecId::kE5M2Block, "a block format needs block_codec");
  return kCodecs.at(static_cast<size_t>(id));
}

Codec block_codec(CodecId id, int group_rows, int group_cols, ScaleType inner) {
  CHECK(id == CodecId::kE4M3Block || id == CodecId::kE5M2Block, "no block format");
  CHECK(group_rows > 0 && group_cols > 0, "blocks of {}x{}", group_rows, group_cols);
  CHECK(inner == ScaleType::kF32 || inner == ScaleType::kE8M0, "a block scale is f32 or E8M0");
  Codec result = kCodecs.at(static_cast<size_t>(id));
  result.group_rows = group_rows;
  result.group_cols = group_cols;
  result.inner = inner;
  result.name = keep_name(fmt::format("{}[{}x{}{}]", id == CodecId::kE4M3Block ? "e4m3" : "e5m2", group_rows,
                                      group_cols, inner == ScaleType::kE8M0 ? ",e8m0" : ""));
  return result;
}

std::span<const Codec> all_codecs() {
  return kCodecs;
}

}  // namespace vernier
