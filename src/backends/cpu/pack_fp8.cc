#include "backends/cpu/pack_fp8.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/scale_level.h"

namespace vernier {
namespace {

/// Whether one of the codes is no number: E4M3's NaN, E5M2's NaNs and infinities. Eight codes at a time: adding the
/// lowest bit carries into a byte's sign where all bits of the mask are set, and nowhere else.
bool has_special_code(Element element, const uint8_t* codes, size_t count) {
  const uint64_t every = 0x0101010101010101u;
  const uint64_t mask = every * (element == Element::kE4M3 ? 0x7F : 0x7C);
  const uint64_t lowest = every * (element == Element::kE4M3 ? 0x01 : 0x04);
  uint64_t found = 0;
  for (size_t i = 0; i < count; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, codes + i, std::min<size_t>(8, count - i));
    found |= ((word & mask) + lowest) & every * 0x80;
  }
  return found != 0;
}

bool has_special_code(const QTensor::View& view, ThreadPool& pool) {
  constexpr size_t kEach = 256 << 10;
  std::atomic<bool> found = false;
  pool.parallel_for(static_cast<int>((view.codes.size() + kEach - 1) / kEach), [&](int chunk) {
    const size_t begin = static_cast<size_t>(chunk) * kEach;
    const auto* codes = reinterpret_cast<const uint8_t*>(view.codes.data());
    if (has_special_code(view.codec.element, codes + begin, std::min(kEach, view.codes.size() - begin))) found = true;
  });
  return found;
}

/// Columns of a scale in the panel: the codec's, or a part of them; 0 where no panel can hold them.
int panel_group(int group_cols) {
  if (group_cols <= kMostFp8Group) return group_cols % kLeastFp8Group == 0 ? group_cols : 0;
  for (int group : {kMostFp8Group, kMostFp8Group / 2, kMostFp8Group / 4, kMostFp8Group / 8}) {
    if (group_cols % group == 0) return group;
  }
  return 0;
}

PanelFormat format_of(Element element, GroupScales scales) {
  for (int i = static_cast<int>(PanelFormat::kE4M3); i <= static_cast<int>(PanelFormat::kE5M2F32); ++i) {
    const auto format = static_cast<PanelFormat>(i);
    const Fp8Format fp8 = fp8_format(format);
    if (fp8.e5m2 == (element == Element::kE5M2) && fp8.scales == scales) return format;
  }
  CHECK(false, "no FP8 format for an element");
}

float in_units(float scale, PanelFormat format) {
  return std::ldexp(scale, fp8_format(format).unit_exponent());
}

float largest_scale(const QTensor::View& view) {
  const int64_t count = view.codec.groups_down(view.rows) * view.codec.groups_across(view.cols);
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, scale_value(view.codec.inner, view.inner_scales, i));
  return most;
}

int64_t first_scale(const QTensor::View& view, int64_t row) {
  return view.codec.group_rows == 0 ? 0 : row / view.codec.group_rows * view.codec.groups_across(view.cols);
}

}  // namespace

Fp8Plan plan_fp8(const QTensor& tensor, ThreadPool& pool) {
  const QTensor::View view = tensor.view();
  const Codec& codec = view.codec;
  CHECK(codec.packing == Packing::kPlain && (codec.element == Element::kE4M3 || codec.element == Element::kE5M2),
        "{} is no FP8", codec.name);
  const bool each_row = codec.groups_across(view.cols) == 1;
  Fp8Plan plan;
  const GroupScales scales = each_row                          ? GroupScales::kNone
                             : codec.inner == ScaleType::kE8M0 ? GroupScales::kE8M0
                                                               : GroupScales::kF32;
  plan.format = format_of(codec.element, scales);
  plan.group = each_row ? 0 : panel_group(codec.group_cols);
  if (!each_row && plan.group == 0) {
    plan.refused = {ReasonCode::kShape,
                    fmt::format("scales of {} columns; needs a multiple of {} up to {}, or of {}", codec.group_cols,
                                kLeastFp8Group, kMostFp8Group, kMostFp8Group / 8)};
    return plan;
  }
  // As float32 or as an E8M0 byte, a scale in the panel's units must be finite.
  if (float most = largest_scale(view); most >= 0x1p119f) {
    plan.refused = {ReasonCode::kScales, fmt::format("a scale of {:g}; needs scales below 2^119", most)};
    return plan;
  }
  if (has_special_code(view, pool)) {
    plan.refused = {ReasonCode::kValues, "a code that is NaN or infinite; needs codes that are numbers"};
    return plan;
  }
  if (!each_row) return plan;
  for (int64_t row = 0; row < view.rows; ++row) {
    plan.row_scale.push_back(
        in_units(scale_value(codec.inner, view.inner_scales, first_scale(view, row)), plan.format));
  }
  return plan;
}

void pack_fp8_row(const QTensor::View& tensor, int64_t row, const PanelLayout& layout, int lane, uint8_t* panel) {
  const auto* codes = reinterpret_cast<const uint8_t*>(tensor.codes.data()) + row * tensor.cols;
  uint8_t* to = panel + layout.code_offset + lane * 2;
  const int64_t stride = layout.rows * 2;
  for (int64_t pair = 0; pair < tensor.cols / 2; ++pair) std::memcpy(to + pair * stride, codes + pair * 2, 2);
  if (tensor.cols % 2 != 0) to[tensor.cols / 2 * stride] = codes[tensor.cols - 1];
  if (layout.group == 0) return;
  const Codec& codec = tensor.codec;
  const int64_t first = first_scale(tensor, row);
  const int64_t groups = (layout.cols + layout.group - 1) / layout.group;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t from = first + std::min(group * layout.group, tensor.cols - 1) / codec.group_cols;
    const int64_t at = group * layout.rows + lane;
    if (fp8_format(layout.format).scales == GroupScales::kE8M0) {
      panel[at] = static_cast<uint8_t>(static_cast<uint8_t>(tensor.inner_scales[static_cast<size_t>(from)]) +
                                       fp8_format(layout.format).unit_exponent());
    } else {
      const float scale = in_units(scale_value(codec.inner, tensor.inner_scales, from), layout.format);
      std::memcpy(panel + at * 4, &scale, 4);
    }
  }
}

}  // namespace vernier
