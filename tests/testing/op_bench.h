#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "ops/ref_backend.h"
#include "tensor/tensor.h"
#include "testing/step_driver.h"

namespace vernier::testing {

/// Random numbers with no symmetry that could hide a mistake: normal, of the given spread, off centre.
inline std::vector<float> random_numbers(std::mt19937& random, int64_t count, float spread, float centre = 0) {
  std::normal_distribution<float> normal(centre, spread);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline QTensor dense(int64_t rows, int64_t cols, const std::vector<float>& values) {
  return QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), "test").value();
}

/// Puts chosen numbers into one backend's ops and reads results back: token t of a step brings row t of `inputs`. A
/// Shard comes and goes through an identity matrix in float32, which changes no number.
class OpBench {
 public:
  OpBench(Backend& backend, const CacheSpec& cache, const StepDriver::Options& options)
      : backend_(backend), driver_(backend, {cache}, options) {}
  /// For ops that touch no cache.
  explicit OpBench(Backend& backend) : OpBench(backend, some_cache(), {}) {}

  Ops& ops() { return driver_.ops(); }
  StepDriver& driver() { return driver_; }

  template <Split S>
  Weight<S> weight(const std::vector<QTensor>& segments, const std::vector<float>& bias = {},
                   PackUse use = PackUse::kLinear) {
    Weight<S> weight{"test", backend_.pack(segments, use).value(), nullptr, {}};
    if (!bias.empty()) weight.bias = vector(bias);
    return weight;
  }
  std::shared_ptr<const PackedVector> vector(const std::vector<float>& values) {
    return backend_.upload(values).value();
  }

  void set_inputs(int64_t rows, int64_t cols, const std::vector<float>& values) {
    inputs_ = weight<Split::kNone>({dense(rows, cols, values)}, {}, PackUse::kEmbedding);
    to_shard_ = weight<Split::kColumns>({identity(cols)});
  }
  Value input() { return ops().embed(inputs_, 1); }
  Shard input_shard() {
    Value x = input();
    return ops().linear(x, to_shard_);
  }
  std::vector<float> read(const Value& x) { return ops().read(x).value(); }
  std::vector<float> read(Shard x) {
    if (from_shard_.matrix == nullptr || from_shard_.inputs() != x.cols()) {
      from_shard_ = weight<Split::kRows>({identity(x.cols())});
    }
    return read(ops().reduce(ops().linear(x, from_shard_)));
  }

 private:
  static CacheSpec some_cache() {
    CacheSpec cache;
    cache.kv_heads = 1;
    cache.head_dim = 2;
    return cache;
  }
  static QTensor identity(int64_t size) {
    std::vector<float> values(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i * (size + 1))] = 1;
    return dense(size, size, values);
  }

  Backend& backend_;
  StepDriver driver_;
  Weight<Split::kNone> inputs_;
  Weight<Split::kColumns> to_shard_;
  Weight<Split::kRows> from_shard_;
};

/// The largest difference over the largest expected number; a NaN anywhere gives NaN.
inline double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double error = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(double{found[i]} - expected[i]);
    if (!(difference <= error)) error = difference;
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return error / std::max(largest, 1e-30);
}

}  // namespace vernier::testing
