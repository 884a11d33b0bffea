#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"

namespace vernier {

/// How tensor parallelism cuts a matrix of [outputs, inputs].
enum class Split : uint8_t {
  kNone,     ///< whole on every rank
  kColumns,  ///< this rank has some outputs: takes a Value, makes a Shard
  kRows,     ///< this rank has some inputs: takes a Shard, makes a Partial
};

/// What a backend says of a matrix it packed; for reports and sizing.
struct PackedInfo {
  std::string layout;        ///< "u4 x 8 rows, f16 scale and minimum", with padding where there is any
  std::string codec;         ///< as stored; parts of a fused matrix joined by '+'
  std::string scale_origin;  ///< where each scale came from
  int64_t bytes = 0;         ///< physical, padding included
  int64_t padding_bytes = 0;
};

/// A matrix [rows = outputs, cols = inputs] in a backend's own layout, with every scale. Made by Backend::pack;
/// immutable but for Backend::repack. Only the backend that made it can read it.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  virtual PackedInfo info() const = 0;

 protected:
  PackedMatrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {}

 private:
  int64_t rows_;
  int64_t cols_;
};

/// A short row of float32 numbers in a backend's memory: a bias, a norm's weight, a sink for each head.
class PackedVector {
 public:
  virtual ~PackedVector() = default;
  int64_t size() const { return size_; }

 protected:
  explicit PackedVector(int64_t size) : size_(size) {}

 private:
  int64_t size_;
};

/// A matrix with its bias and, where the checkpoint has one, its static input scale; typed by its cut. A tied embedding
/// shares one packed copy between two weights.
template <Split S>
struct Weight {
  std::string name;  ///< in the checkpoint; a fused weight joins its parts by '+'
  std::shared_ptr<const PackedMatrix> matrix;
  std::shared_ptr<const PackedVector> bias;  ///< null where there is none
  std::optional<float> input_scale;

  int64_t outputs() const { return matrix->rows(); }
  int64_t inputs() const { return matrix->cols(); }
};

/// x / sqrt(mean(x^2) + eps) * weight. A checkpoint's `1 + w` is folded when it is bound.
struct Norm {
  std::string name;
  std::shared_ptr<const PackedVector> weight;
  float eps = 0;
};

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias.
struct LayerNorm {
  std::string name;
  std::shared_ptr<const PackedVector> weight;
  std::shared_ptr<const PackedVector> bias;
  float eps = 0;
};

}  // namespace vernier
