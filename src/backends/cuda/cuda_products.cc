#include "backends/cuda/cuda_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/cuda_matrix.h"
#include "backends/cuda/kernel_choice.h"
#include "tune/device_features.h"

namespace vernier {
namespace {

constexpr int32_t kArrivals = 4096;  // more tiles than are shared out: twice as many as multiprocessors

/// Whether one launch of tensor cores has a place for a norm and, `gated`, for a gate.
bool fused_fast(const PackedMatrix& matrix, int64_t rows, bool gated) {
  const std::span<const CudaRows> parts = CudaMatrix::of(matrix).parts();
  std::vector<int64_t> first_outputs;
  for (const CudaRows& part : parts) {
    if (part.fast != parts.front().fast) return false;
    first_outputs.push_back(part.first_output);
  }
  return judge_fast_fused(rows, matrix.cols(), first_outputs, matrix.rows(), gated).code == ReasonCode::kChosen;
}

}  // namespace

bool aligned(cuda::ConstRows x) {
  return x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

FastDevice fast_device(const cuda::DeviceFacts& facts) {
  const DeviceFeatures* known = find_device(fmt::format("sm{}{}", facts.major, facts.minor));
  const auto has = [&](ChipFeature feature) { return known != nullptr && known->capabilities.has(feature); };
  return {facts.multiprocessors, has(ChipFeature::kWarpgroupMma), has(ChipFeature::kBulkCopy),
          has(ChipFeature::kFp8Mma)};
}

bool takes_norm(const PackedMatrix& matrix, int64_t rows) {
  const std::span<const CudaRows> parts = CudaMatrix::of(matrix).parts();
  if (std::ranges::all_of(parts, [](const CudaRows& part) { return part.fast == cuda::FastCodes::kNone; })) {
    return judge_fused_norm(rows, matrix.cols()).code == ReasonCode::kChosen;
  }
  return fused_fast(matrix, rows, false);
}

bool takes_gate(const PackedMatrix& matrix, int64_t rows) {
  const std::span<const CudaRows> parts = CudaMatrix::of(matrix).parts();
  if (parts.front().fast != cuda::FastCodes::kNone) return fused_fast(matrix, rows, true);
  return rows <= cuda::kMostFusedRows && parts.size() <= static_cast<size_t>(cuda::kMostParts) &&
         std::ranges::all_of(parts, [&](const CudaRows& part) {
           return part.fast == cuda::FastCodes::kNone && part.view.kind == parts.front().view.kind;
         });
}

void CudaProducts::multiply(const PackedMatrix& matrix, const float* bias, cuda::ConstRows x, int64_t rows,
                            cuda::Rows out, bool add, const ProductNeighbours& with) {
  const std::span<const CudaRows> parts = CudaMatrix::of(matrix).parts();
  for (size_t next = 0; next < parts.size();) {
    cuda::ProductCall call;
    const cuda::FastCodes codes = parts[next].fast;
    bool deep = true;
    // As many as a launch takes: neighbours of one kind of codes.
    while (next < parts.size() && call.part_count < cuda::kMostParts && parts[next].fast == codes &&
           (call.part_count == 0 || parts[next].view.kind == call.parts[0].weight.kind)) {
      call.parts[call.part_count++] = {parts[next].view, parts[next].first_output};
      deep = deep && parts[next].deep.code == ReasonCode::kChosen;
      call.outputs += parts[next++].view.rows;
    }
    call.x = x;
    call.rows = rows;
    call.out = out;
    call.bias = bias;
    call.add = add;
    if (codes != cuda::FastCodes::kNone) {
      multiply_fast(call, codes, deep, with);
    } else if (rows <= cuda::kMostFusedRows) {
      const cuda::FusedProductCall fused{call, with.norm, with.norm_eps, with.gate.has_value(),
                                         with.gate.value_or(cuda::GateRule{})};
      queue_.launch("product", cuda::fused_product, fused);
    } else {
      queue_.launch("product", cuda::product, call);
    }
  }
}

cuda::FastScratch CudaProducts::scratch_for(const cuda::FastPlan& plan) {
  cuda::FastScratch scratch;
  if (plan.arranged) {
    scratch.arranged = arranged_.reserve<uint32_t>(device_, queue_, plan.arranged_pairs, "rows of a product");
  }
  if (plan.splits == 1) return scratch;
  CHECK(plan.arrivals <= kArrivals, "{} tiles are shared, at most {}", plan.arrivals, kArrivals);
  scratch.partials = partials_.reserve<float>(device_, queue_, plan.partial_numbers, "parts of a product");
  constexpr int64_t kBytes = kArrivals * static_cast<int64_t>(sizeof(int32_t));
  if (arrivals_.data() == nullptr && !queue_.failed()) {
    Result<DeviceBuffer> made = device_.take(kBytes, "counters of a product");
    if (made.ok()) {
      arrivals_ = std::move(made).value();
      queue_.note(device_.fill(arrivals_.data(), 0, kBytes));
    } else {
      queue_.fail(std::move(made).error());
    }
  }
  scratch.arrivals = arrivals_.as<int32_t>();
  return scratch;
}

void CudaProducts::multiply_fast(const cuda::ProductCall& call, cuda::FastCodes codes, bool deep,
                                 const ProductNeighbours& with) {
  if (with.norm != nullptr || with.gate) {
    CHECK(aligned(call.x), "rows of {} numbers that are normed or gated", call.x.stride);
    const cuda::FusedProductCall fused{call, with.norm, with.norm_eps, with.gate.has_value(),
                                       with.gate.value_or(cuda::GateRule{})};
    return queue_.launch("fast product", cuda::fast_fused_product, fused, codes);
  }
  FastProblem problem;
  for (int i = 0; i < call.part_count; ++i) {
    const int64_t outputs = call.parts[i].weight.rows;
    problem.output_tiles += (outputs + cuda::kTileOutputs - 1) / cuda::kTileOutputs;
    problem.output_strips += (outputs + 15) / 16;
  }
  problem.cols = call.parts[0].weight.cols;
  problem.rows = call.rows;
  problem.aligned = aligned(call.x);
  problem.codes = codes;
  problem.deep = deep;
  problem.same_rows = same_rows_;
  const cuda::FastPlan plan = plan_fast_product(problem, fast_device(device_.facts()));
  const cuda::FastScratch scratch = scratch_for(plan);
  queue_.launch("fast product", cuda::fast_product, call, codes, plan, scratch);
}

void CudaProducts::multiply_grouped(const cuda::GroupedProductCall& call, cuda::FastCodes codes, int64_t cols,
                                    int64_t places) {
  if (codes == cuda::FastCodes::kNone || !aligned(call.x)) {
    return queue_.launch("experts' product", cuda::grouped_product, call);
  }
  const cuda::FastPlan plan = plan_fast_grouped(places, call.matrices, cols, fast_device(device_.facts()));
  const cuda::FastScratch scratch = scratch_for(plan);
  const cuda::FastGroupedCall fast{call, codes, cols, places};
  queue_.launch("experts' product", cuda::fast_grouped_product, fast, plan, scratch);
}

}  // namespace vernier
