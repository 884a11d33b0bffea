#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/ref_backend.h"
#include "tensor/qtensor.h"
#include "tensor/tensor.h"
#include "testing/isa.h"

namespace vernier::testing {

/// The sequences of one test and their blocks: positions grow step by step, and a window class gives its blocks back
/// as the engine does. Owns what a StepView points to.
class StepMaker {
 public:
  struct CacheClass {
    std::optional<int> window;
    int32_t pool_blocks = 0;
  };

  StepMaker(std::vector<CacheClass> classes, int32_t block_tokens, int sequences, uint32_t seed);

  /// Rows for each sequence (0: it takes no part); every row is sampled where `sample_all`, else the last of each.
  const StepView& next(std::span<const int> rows, int vocab, bool sample_all);
  std::vector<int32_t> class_blocks() const;

 private:
  struct Held {
    std::vector<int32_t> blocks;
    int32_t first_position = 0;
  };

  std::vector<CacheClass> classes_;
  int32_t block_tokens_;
  std::mt19937 random_;
  std::vector<int32_t> positions_;          // next of each sequence
  std::vector<std::vector<Held>> held_;     // [class][sequence]
  std::vector<std::vector<int32_t>> free_;  // [class]
  StepView view_;
  std::vector<int32_t> tokens_, row_positions_, sampled_;
  std::vector<SequenceRows> sequences_;
  std::vector<CacheTable> tables_;
  std::vector<std::vector<int32_t>> blocks_, begin_, first_position_;  // [class]
};

/// The same weights, caches and ops on the CPU backend and on the reference.
class OpsPair {
 public:
  OpsPair(Numerics numerics, int threads, uint32_t seed);

  Backend& cpu() { return *cpu_; }
  std::mt19937& random() { return random_; }
  /// Random numbers times `width`.
  std::vector<float> numbers(int64_t count, float width);

  template <class T>
  struct Both {
    T cpu;
    T ref;
  };
  template <Split S>
  Both<Weight<S>> weight(int64_t rows, int64_t cols, bool bias, float width);
  Both<std::shared_ptr<const PackedVector>> vector(std::span<const float> values);
  Both<Norm> norm(int64_t size);

  void make_ops(const KvLayout& layout, int64_t max_rows);
  Ops& cpu_ops() { return *cpu_ops_; }
  Ops& ref_ops() { return *ref_ops_; }

 private:
  std::mt19937 random_;
  std::unique_ptr<Backend> cpu_;
  RefBackend ref_;
  std::unique_ptr<KvStore> cpu_kv_, ref_kv_;
  std::unique_ptr<Ops> cpu_ops_, ref_ops_;
};

template <Split S>
OpsPair::Both<Weight<S>> OpsPair::weight(int64_t rows, int64_t cols, bool bias, float width) {
  std::vector<float> values = numbers(rows * cols, width);
  QTensor tensor = QTensor::from_dense(Tensor::from_floats(Shape{rows, cols}, values), "test").value();
  Both<std::shared_ptr<const PackedVector>> biases{nullptr, nullptr};
  if (bias) biases = vector(numbers(rows, 0.5f));
  auto make = [&](Backend& backend, const std::shared_ptr<const PackedVector>& its_bias) {
    return Weight<S>{"test", backend.pack(std::span(&tensor, 1), PackUse::kLinear).value(), its_bias, {}};
  };
  return {make(*cpu_, biases.cpu), make(ref_, biases.ref)};
}

/// The largest difference, relative to the largest expected number; NaN counts as infinite.
double relative_error(std::span<const float> got, std::span<const float> expected);

}  // namespace vernier::testing
