#include "backends/cpu/linear_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/cold_memory.h"
#include "ops/tolerance.h"

namespace vernier {
namespace {

/// Of a product, as many numbers are compared with float64: rows of the step, and rows of the matrix.
constexpr int64_t kComparedTokens = 4;
constexpr int64_t kComparedRows = 48;
/// What each thread is given to do between forgetting weights and the clock's start, so that none sleeps.
constexpr int kWakeChunksOfThread = 4;

/// In [-1, 1), from a place alone: the same on every machine.
float number_at(uint64_t place) {
  return static_cast<float>(static_cast<int64_t>(fmix64(place) >> 40) - (int64_t{1} << 23)) / float{1 << 23};
}

/// Places spread over [0, count), the first and the last among them.
std::vector<int64_t> spread_places(int64_t count, int64_t wanted) {
  std::vector<int64_t> places;
  const int64_t steps = std::min(count, wanted);
  for (int64_t i = 0; i < steps; ++i) places.push_back(steps == 1 ? 0 : i * (count - 1) / (steps - 1));
  return places;
}

}  // namespace

LinearTuner::LinearTuner(ThreadPool& pool, const CpuMatrix& matrix, const MatrixSegment& kind, int64_t batch_rows)
    : pool_(pool), matrix_(view_of_kind(matrix, kind)), rows_(batch_rows), scratch_(pool.threads()) {
  for (size_t i = 0; i < matrix_.segments().size(); ++i) matrix_.set_prepared(i, prepared_);
}

int64_t LinearTuner::needed_bytes() const {
  return static_cast<int64_t>(sizeof(float)) * rows_ * (2 * matrix_.cols() + 2 * matrix_.rows());
}

/// Rows and groups of columns differ in size, as a model's do.
void LinearTuner::make_input() {
  const int64_t cols = matrix_.cols();
  input_.resize(static_cast<size_t>(rows_ * cols));
  for (int64_t t = 0; t < rows_; ++t) {
    const float size = 0.3f + static_cast<float>(t % 7);
    for (int64_t c = 0; c < cols; ++c) {
      const float group = c / 16 % 5 == 3 ? 6.1f : 0.7f;
      input_[static_cast<size_t>(t * cols + c)] = size * group * number_at(static_cast<uint64_t>(t * cols + c));
    }
  }
}

void LinearTuner::run(const LinearPlan& plan, std::vector<float>& out) {
  prepared_.set(rows_, plan);
  LinearInput input{input_.data(), rows_, matrix_.cols(), matrix_.cols()};
  input.read_ahead = false;
  linear(pool_, scratch_, matrix_, input, {out.data(), matrix_.rows(), nullptr, false});
}

Status LinearTuner::compare_with_reference() {
  std::vector<float> weights(static_cast<size_t>(matrix_.cols()));
  for (int64_t row : spread_places(matrix_.rows(), kComparedRows)) {
    decode_packed_row(matrix_, row, weights.data());
    for (int64_t t : spread_places(rows_, kComparedTokens)) {
      const std::span<const float> x(input_.data() + t * matrix_.cols(), weights.size());
      double sum = 0;
      for (size_t c = 0; c < weights.size(); ++c) sum += double{x[c]} * weights[c];
      const double tolerance = product_tolerance(x, weights, matrix_.numerics());
      const double got = expected_[static_cast<size_t>(t * matrix_.rows() + row)];
      // The weights of a damaged model may be NaN; then so is the sum.
      if (std::abs(got - sum) <= tolerance || (std::isnan(got) && std::isnan(sum))) continue;
      return corrupt("row {} of the step times row {} is {:.9g}; float64 gives {:.9g} +- {:.2g}", t, row, got, sum,
                     tolerance);
    }
  }
  return {};
}

/// The first is the fixed plan, which the others are compared with.
Status LinearTuner::check(const LinearPlan& plan) {
  const auto numbers = static_cast<size_t>(rows_ * matrix_.rows());
  std::vector<float>& out = expected_.empty() ? expected_ : output_;
  out.assign(numbers, std::numeric_limits<float>::quiet_NaN());
  run(plan, out);
  if (&out == &expected_) {
    output_ = expected_;
    return compare_with_reference();
  }
  if (std::memcmp(out.data(), expected_.data(), numbers * sizeof(float)) == 0) return {};
  const auto differs = [&](size_t i) { return std::memcmp(&out[i], &expected_[i], sizeof(float)) != 0; };
  size_t first = 0;
  while (!differs(first)) ++first;
  const auto width = static_cast<size_t>(matrix_.rows());
  return corrupt("row {} of the step times row {} is {:.9g}; the fixed choice gives {:.9g}", first / width,
                 first % width, out[first], expected_[first]);
}

double LinearTuner::run_cold(const LinearPlan& plan) {
  for (const MatrixSegment& segment : matrix_.segments()) {
    forget_cached(pool_, segment.data, segment.panels * segment.layout.panel_bytes);
  }
  pool_.parallel_for(pool_.threads() * kWakeChunksOfThread, [](int) {});
  const Stopwatch watch;
  run(plan, output_);
  return static_cast<double>(watch.elapsed_ns());
}

Result<std::vector<Contender>> LinearTuner::contenders(int64_t most_bytes) {
  if (needed_bytes() > most_bytes) {
    return make_error(ErrorCode::kOutOfMemory, "measuring takes {} bytes; {} are allowed", needed_bytes(), most_bytes);
  }
  make_input();
  const MatrixSegment& segment = matrix_.segments().front();
  std::vector<Contender> contenders;
  for (const LinearPlan& plan : linear_candidates(matrix_, segment, rows_, pool_.threads())) {
    Contender contender;
    contender.named = name_plan(plan, matrix_, segment);
    contender.check = [this, plan] { return check(plan); };
    contender.run = [this, plan]() -> Result<double> { return run_cold(plan); };
    contenders.push_back(std::move(contender));
  }
  return contenders;
}

Result<Measured> LinearTuner::measure(const MeasureRules& rules) {
  TRY_BIND(const std::vector<Contender> all, contenders(rules.most_bytes));
  return vernier::measure(all, rules);
}

}  // namespace vernier
