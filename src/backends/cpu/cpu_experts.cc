#include "backends/cpu/cpu_experts.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/cpu_matrix.h"
#include "backends/cpu/cpu_vector.h"

namespace vernier {
namespace {

struct GateContext {
  const RowKernels* kernels;
  const GateSpec* spec;
};

void run_gate(const void* context, const float* row, float* out, int64_t cols) {
  const auto& [kernels, spec] = *static_cast<const GateContext*>(context);
  gate_row(*kernels, *spec, row, cols, out);
}

template <Split S>
void multiply(ThreadPool& pool, LinearScratch& scratch, const Weight<S>& weight, LinearInput input, float* out) {
  const CpuMatrix& matrix = cpu_matrix(*weight.matrix);
  input.cols = matrix.cols();
  input.read_ahead = false;  // the next step's rows may choose others
  linear(pool, scratch, matrix, input,
         {out, matrix.rows(), CpuVector::numbers(weight.bias.get(), matrix.rows()), false});
}

}  // namespace

void gate_row(const RowKernels& kernels, const GateSpec& spec, const float* row, int64_t cols, float* out) {
  if (!spec.is_plain()) {
    CHECK(spec.act == Act::kSilu, "a gate of limits and slopes is a SiLU's");
    const float limit = spec.limit > 0 ? spec.limit : std::numeric_limits<float>::infinity();
    return kernels.gate_clamped(row, row + cols, {limit, spec.slope, spec.up_offset}, cols, out);
  }
  if (spec.act == Act::kSilu) return kernels.gate_silu(row, row + cols, cols, out);
  (spec.act == Act::kGelu ? kernels.gate_gelu : kernels.gate_gelu_tanh)(row, row + cols, cols, out);
}

void CpuExperts::run(const ExpertsLayer& layer, const float* x, int64_t rows, float* out) {
  const auto experts = static_cast<size_t>(layer.spec.experts), weighted = static_cast<size_t>(layer.spec.weighted());
  CHECK(
      layer.router.outputs() == layer.spec.experts && layer.gate_up.size() == weighted && layer.down.size() == weighted,
      "{}: a router of {}, {} and {} matrices for {} experts, {} of them identity", layer.name, layer.router.outputs(),
      layer.gate_up.size(), layer.down.size(), experts, layer.spec.identity);
  reserve(layer, rows);
  route(layer, x, rows);
  sort(layer.spec, rows);
  std::fill_n(out, rows * layer.router.inputs(), 0.0f);
  for (size_t expert = 0; expert < experts; ++expert) {
    const std::span<const Place> places = std::span(places_).subspan(
        static_cast<size_t>(first_[expert]), static_cast<size_t>(first_[expert + 1] - first_[expert]));
    if (places.empty()) continue;
    if (expert < weighted) {
      run_expert(layer, expert, places, x, out);
    } else {
      pass_through(places, layer.router.inputs(), x, out);
    }
  }
}

/// For the case that all rows choose one expert, so that no later step of as many rows needs more.
void CpuExperts::reserve(const ExpertsLayer& layer, int64_t rows) {
  const auto choices = static_cast<size_t>(rows) * static_cast<size_t>(layer.spec.chosen);
  logits_.reserve(rows * layer.spec.experts);
  chosen_.resize(std::max(chosen_.size(), choices));
  places_.resize(std::max(places_.size(), choices));
  first_.resize(std::max(first_.size(), static_cast<size_t>(layer.spec.experts) + 1));
  rows_.reserve(rows * layer.router.inputs());
  gate_up_.reserve(rows * 2 * layer.spec.width);
  answers_.reserve(rows * layer.router.inputs());
  reserve_linear(scratch_, cpu_matrix(*layer.gate_up.front().matrix), rows);
  reserve_linear(scratch_, cpu_matrix(*layer.down.front().matrix), rows);
}

void CpuExperts::route(const ExpertsLayer& layer, const float* x, int64_t rows) {
  const ExpertsSpec& spec = layer.spec;
  multiply(pool_, scratch_, layer.router, {.x = x, .rows = rows, .stride = layer.router.inputs()}, logits_.data());
  const float* numbers = CpuVector::numbers(layer.correction.get(), spec.experts);
  const auto experts = static_cast<size_t>(spec.experts), each = static_cast<size_t>(spec.chosen);
  const std::span<const float> correction = numbers == nullptr ? std::span<const float>() : std::span(numbers, experts);
  const int64_t rows_each = std::max<int64_t>(1, kNumbersPerChunk / (8 * spec.experts));
  pool_.parallel_for(static_cast<int>((rows + rows_each - 1) / rows_each), [&](int chunk) {
    for (int64_t row = chunk * rows_each; row < std::min(rows, (chunk + 1) * rows_each); ++row) {
      route_row(spec, {logits_.data() + row * spec.experts, experts}, correction,
                std::span(chosen_).subspan(static_cast<size_t>(row) * each, each));
    }
  });
}

/// Counts and places: `first_` ends up as where each expert's places begin.
void CpuExperts::sort(const ExpertsSpec& spec, int64_t rows) {
  const auto choices = static_cast<size_t>(rows) * static_cast<size_t>(spec.chosen);
  const auto experts = static_cast<size_t>(spec.experts);
  std::fill_n(first_.begin(), experts + 1, 0);
  for (size_t i = 0; i < choices; ++i) ++first_[static_cast<size_t>(chosen_[i].expert)];
  int32_t end = 0;
  for (size_t expert = 0; expert < experts; ++expert) first_[expert] = end += first_[expert];
  first_[experts] = end;
  // Backwards, each expert's end becomes its begin, and its rows stay in order.
  for (size_t i = choices; i-- > 0;) {
    const auto place = static_cast<size_t>(--first_[static_cast<size_t>(chosen_[i].expert)]);
    places_[place] = {static_cast<int32_t>(i / static_cast<size_t>(spec.chosen)), chosen_[i].weight};
  }
}

const float* CpuExperts::gather(const float* x, std::span<const Place> places, int64_t cols) {
  if (places.size() == 1) return x + places.front().row * cols;
  const int64_t each = std::max<int64_t>(1, kNumbersPerChunk / cols);
  const auto rows = static_cast<int64_t>(places.size());
  pool_.parallel_for(static_cast<int>((rows + each - 1) / each), [&](int chunk) {
    for (int64_t i = chunk * each; i < std::min(rows, (chunk + 1) * each); ++i) {
      std::copy_n(x + places[static_cast<size_t>(i)].row * cols, cols, rows_.data() + i * cols);
    }
  });
  return rows_.data();
}

/// Adds `answer(i, place)`, weighted, to the row of each place.
template <class Answer>
void CpuExperts::scatter(std::span<const Place> places, int64_t cols, float* out, const Answer& answer) {
  const int64_t each = std::max<int64_t>(1, kNumbersPerChunk / cols);
  const auto rows = static_cast<int64_t>(places.size());
  pool_.parallel_for(static_cast<int>((rows + each - 1) / each), [&](int chunk) {
    for (int64_t i = chunk * each; i < std::min(rows, (chunk + 1) * each); ++i) {
      const Place& place = places[static_cast<size_t>(i)];
      float* to = out + place.row * cols;
      kernels_.add_scaled(to, answer(i, place), place.weight, cols, to);
    }
  });
}

/// An expert that answers a row with itself.
void CpuExperts::pass_through(std::span<const Place> places, int64_t cols, const float* x, float* out) {
  scatter(places, cols, out, [x, cols](int64_t, const Place& place) { return x + place.row * cols; });
}

void CpuExperts::run_expert(const ExpertsLayer& layer, size_t expert, std::span<const Place> places, const float* x,
                            float* out) {
  const int64_t cols = layer.router.inputs(), rows = static_cast<int64_t>(places.size());
  const int64_t width = layer.spec.width;
  multiply(pool_, scratch_, layer.gate_up[expert], {.x = gather(x, places, cols), .rows = rows, .stride = cols},
           gate_up_.data());
  const GateContext context{&kernels_, &layer.spec.gate};
  multiply(pool_, scratch_, layer.down[expert],
           {.x = gate_up_.data(), .rows = rows, .stride = 2 * width, .prologue = {run_gate, &context}},
           answers_.data());
  scatter(places, cols, out, [this, cols](int64_t i, const Place&) { return answers_.data() + i * cols; });
}

}  // namespace vernier
