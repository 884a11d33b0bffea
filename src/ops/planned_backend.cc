#include "ops/planned_backend.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/pack_info.h"
#include "tensor/prepared.h"

namespace vernier {
namespace {

/// The checkpoint's numbers, where they are.
class PlannedMatrix final : public PackedMatrix {
 public:
  PlannedMatrix(std::span<const QTensor> segments, PackUse use)
      : PackedMatrix(rows_of(segments), segments[0].cols()), segments_(segments.begin(), segments.end()), use_(use) {}
  PackedInfo info() const override { return describe_segments(segments_, "as stored"); }
  const std::vector<QTensor>& segments() const { return segments_; }
  PackUse use() const { return use_; }

 private:
  static int64_t rows_of(std::span<const QTensor> segments) {
    int64_t rows = 0;
    for (const QTensor& segment : segments) rows += segment.rows();
    return rows;
  }

  std::vector<QTensor> segments_;
  PackUse use_;
};

const PlannedMatrix& planned_matrix(const PackedMatrix& matrix) {
  const auto* planned = dynamic_cast<const PlannedMatrix*>(&matrix);
  CHECK(planned != nullptr, "a matrix of another backend");
  return *planned;
}

class PlannedVector final : public PackedVector {
 public:
  explicit PlannedVector(int64_t size) : PackedVector(size) {}
};

/// Parts of one codec, as a kernel would meet them.
struct Parts {
  std::vector<QTensor> tensors;
  int64_t rows = 0;
  std::set<float> global_scales;
};

std::vector<Parts> by_codec(const std::vector<QTensor>& segments) {
  std::vector<Parts> all;
  for (const QTensor& segment : segments) {
    auto found = std::ranges::find_if(all, [&](const Parts& p) { return p.tensors[0].codec() == segment.codec(); });
    if (found == all.end()) found = all.insert(all.end(), Parts());
    found->tensors.push_back(segment);
    found->rows += segment.rows();
    for (float scale : segment.view().outer_scales) found->global_scales.insert(scale);
  }
  return all;
}

bool fill_blocks(std::span<const QTensor> parts) {
  const int64_t group = std::max(parts[0].codec().group_rows, 1);
  return std::ranges::all_of(parts.first(parts.size() - 1), [&](const QTensor& t) { return t.rows() % group == 0; });
}

/// Gate and up that a checkpoint keeps as one matrix are two parts all the same.
Status part_in_halves(Parts& parts) {
  if (parts.tensors.size() != 1) return {};
  const QTensor both = parts.tensors[0];
  TRY_BIND(QTensor first, both.slice_rows(0, parts.rows / 2));
  TRY_BIND(QTensor second, both.slice_rows(parts.rows / 2, parts.rows));
  parts.tensors = {std::move(first), std::move(second)};
  return {};
}

/// What becomes of the numbers on the way into the kernel's layout, measured.
Result<std::string> describe_preparation(const ProductKernel& kernel, Parts parts, ProductUse use) {
  std::string loss;
  if (kernel.powers_of_two && parts.tensors[0].codec().inner == ScaleType::kF32) {
    std::vector<float> before, after;
    for (QTensor& tensor : parts.tensors) {
      TRY_BIND(Cast cast, with_e8m0_scales(tensor));
      const std::vector<float> old_numbers = tensor.decode(), new_numbers = cast.tensor.decode();
      before.insert(before.end(), old_numbers.begin(), old_numbers.end());
      after.insert(after.end(), new_numbers.begin(), new_numbers.end());
      tensor = std::move(cast.tensor);
    }
    loss = fmt::format("; scales to powers of two: {}", compare_numbers(before, after).to_string());
  }
  if (kernel.layout == Layout{}) return kernel.layout.to_string() + loss;
  if (use == ProductUse::kExpertsGated) TRY_STATUS(part_in_halves(parts));
  const Layout layout = kernel.layout_for(static_cast<int>(parts.tensors.size()));
  TRY_BIND(PreparedExtents extents, prepared_extents(parts.tensors, layout));
  std::string text = layout.to_string();
  if (extents.physical_rows != extents.rows || extents.physical_cols != extents.cols) {
    const double more = static_cast<double>(extents.physical_rows) * static_cast<double>(extents.physical_cols) /
                            (static_cast<double>(extents.rows) * static_cast<double>(extents.cols)) -
                        1;
    text += fmt::format(", [{}, {}] for [{}, {}]: {} bytes of padding, {:.1f} % more work", extents.physical_rows,
                        extents.physical_cols, extents.rows, extents.cols, extents.padding_bytes, more * 100);
  }
  return text + loss;
}

}  // namespace

Features PlannedBackend::features() const {
  return {fmt::format("{} (planned)", rules_.device.name), rules_.device.capabilities.to_string(), 1, Numerics::kFast};
}

Result<std::shared_ptr<const PackedMatrix>> PlannedBackend::pack(std::span<const QTensor> segments, PackUse use) {
  TRY_STATUS(check_segments(segments));
  return std::shared_ptr<const PackedMatrix>(std::make_shared<PlannedMatrix>(segments, use));
}

Result<std::shared_ptr<const PackedVector>> PlannedBackend::upload(std::span<const float> values) {
  return std::shared_ptr<const PackedVector>(std::make_shared<PlannedVector>(static_cast<int64_t>(values.size())));
}

Result<std::unique_ptr<KvStore>> PlannedBackend::make_kv(const KvLayout&) {
  return unsupported("a plan for {} runs nothing: there is no cache", rules_.device.name);
}

Result<std::unique_ptr<Ops>> PlannedBackend::make_ops(KvStore&, int64_t) {
  return unsupported("a plan for {} runs nothing", rules_.device.name);
}

std::vector<Choice> PlannedBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  Result<std::vector<Choice>> planned = plan_product(matrix, batch_rows, ProductUse::kLinear);
  return planned.ok() ? *std::move(planned) : std::vector<Choice>();
}

Choice PlannedBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  return only_choice(attend_problem(spec, cache, batch_rows), "paged", "");
}

std::vector<PlannedBackend::StoredPart> PlannedBackend::stored_parts(const PackedMatrix& matrix) {
  std::vector<StoredPart> parts;
  for (const QTensor& segment : planned_matrix(matrix).segments()) parts.push_back({segment.codec(), segment.rows()});
  return parts;
}

std::span<const QTensor> PlannedBackend::segments(const PackedMatrix& matrix) {
  return planned_matrix(matrix).segments();
}

PackUse PlannedBackend::use_of(const PackedMatrix& matrix) {
  return planned_matrix(matrix).use();
}

Result<std::vector<Choice>> PlannedBackend::plan_product(const PackedMatrix& matrix, int64_t batch_rows,
                                                         ProductUse use) const {
  std::vector<Choice> choices;
  for (Parts& parts : by_codec(planned_matrix(matrix).segments())) {
    const ProductProblem problem{parts.tensors[0].codec(),
                                 parts.rows,
                                 matrix.cols(),
                                 batch_rows,
                                 rules_.result,
                                 use == ProductUse::kExpertsGated ? 2 : static_cast<int>(parts.tensors.size()),
                                 std::max(1, static_cast<int>(parts.global_scales.size())),
                                 use != ProductUse::kLinear,
                                 fill_blocks(parts.tensors),
                                 rules_.may_requantise};
    Choice choice = choose_product(problem, rules_.device);
    if (!rules_.kernel.empty()) {
      TRY_BIND(choice, require_product(problem, rules_.device, rules_.kernel));
    }
    TRY_BIND(choice.layout, describe_preparation(product_kernel(choice), std::move(parts), use));
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace vernier
