#include "ops/ref_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace vernier {
namespace {

const std::vector<float>& numbers_of(const PackedVector& vector) {
  const auto* ours = dynamic_cast<const RefVector*>(&vector);
  CHECK(ours != nullptr, "the vector belongs to another backend");
  return ours->values();
}

const RefMatrix& matrix_of(const PackedMatrix& matrix) {
  const auto* ours = dynamic_cast<const RefMatrix*>(&matrix);
  CHECK(ours != nullptr, "the matrix belongs to another backend");
  return *ours;
}

double activated(double x, Act act, double slope = 1) {
  if (act == Act::kSilu) return x / (1 + std::exp(-slope * x));
  if (act == Act::kGelu) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

}  // namespace

void RefOps::begin(const StepView& step) {
  CHECK(step.rows() <= max_rows_, "a step of {} rows, at most {} were asked for", step.rows(), max_rows_);
  ComposedOps::begin(step);
}

ComposedOps::Array RefOps::create(int64_t rows, int64_t cols) {
  if (free_.empty()) {
    free_.push_back(static_cast<Array>(arrays_.size()));
    arrays_.emplace_back();
  }
  Array array = free_.back();
  free_.pop_back();
  // NaN: whoever reads what no primitive wrote shows it.
  constexpr double kPoison = std::numeric_limits<double>::quiet_NaN();
  at(array) = Numbers{rows, cols, std::vector<double>(static_cast<size_t>(rows * cols), kPoison)};
  return array;
}

void RefOps::destroy(Array array) {
  at(array) = Numbers{};
  free_.push_back(array);
}

void RefOps::gather(const PackedMatrix& table, std::span<const int32_t> rows, Array out) {
  std::vector<float> decoded(static_cast<size_t>(table.cols()));
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i] >= 0 && rows[i] < table.rows(), "row {} of a table of {}", rows[i], table.rows());
    matrix_of(table).decode_row(rows[i], decoded);
    std::copy(decoded.begin(), decoded.end(), at(out).row(static_cast<int64_t>(i)));
  }
}

void RefOps::copy_rows(Array x, std::span<const int32_t> rows, Array out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const double* from = at(x).row(rows[i]);
    std::copy(from, from + at(x).cols, at(out).row(static_cast<int64_t>(i)));
  }
}

void RefOps::copy_block(const Cell& corner, Array out) {
  for (int64_t row = 0; row < at(out).rows; ++row) {
    const double* from = at(corner.array).row(corner.row + row) + corner.first;
    std::copy(from, from + at(out).cols, at(out).row(row));
  }
}

void RefOps::paste(Array x, const Cell& corner) {
  for (int64_t row = 0; row < at(x).rows; ++row) {
    const double* from = at(x).row(row);
    std::copy(from, from + at(x).cols, at(corner.array).row(corner.row + row) + corner.first);
  }
}

void RefOps::matmul(Array x, const PackedMatrix& weight, Array out) {
  const RefMatrix& matrix = matrix_of(weight);
  std::vector<float> decoded(static_cast<size_t>(weight.cols()));
  for (int64_t output = 0; output < weight.rows(); ++output) {
    matrix.decode_row(output, decoded);
    for (int64_t row = 0; row < at(x).rows; ++row) {
      const double* in = at(x).row(row);
      double sum = 0;
      for (size_t i = 0; i < decoded.size(); ++i) sum += in[i] * double{decoded[i]};
      at(out).row(row)[output] = sum;
    }
  }
}

void RefOps::add_vector(Array x, const PackedVector& vector) {
  const std::vector<float>& added = numbers_of(vector);
  CHECK(static_cast<int64_t>(added.size()) == at(x).cols, "a bias of {} on {} columns", added.size(), at(x).cols);
  for (int64_t row = 0; row < at(x).rows; ++row) {
    for (size_t i = 0; i < added.size(); ++i) at(x).row(row)[i] += double{added[i]};
  }
}

void RefOps::accumulate(Array x, Array y) {
  for (size_t i = 0; i < at(x).values.size(); ++i) at(x).values[i] += at(y).values[i];
}

void RefOps::clear(Array x) {
  std::ranges::fill(at(x).values, 0.0);
}

void RefOps::scatter_add(Array x, std::span<const int32_t> rows, std::span<const float> weights, Array out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const double* from = at(x).row(static_cast<int64_t>(i));
    double* to = at(out).row(rows[i]);
    for (int64_t c = 0; c < at(x).cols; ++c) to[c] += double{weights[i]} * from[c];
  }
}

void RefOps::scale(Array x, float factor) {
  for (double& value : at(x).values) value *= double{factor};
}

void RefOps::normalize(Array x, const Heads& heads, const PackedVector& weight, float eps) {
  const std::vector<float>& factors = numbers_of(weight);
  CHECK(static_cast<int>(factors.size()) == heads.width, "a norm of {} on {} numbers", factors.size(), heads.width);
  for (int64_t row = 0; row < at(x).rows; ++row) {
    for (int head = 0; head < heads.count; ++head) {
      double* values = at(x).row(row) + heads.first + int64_t{head} * heads.width;
      double squares = 0;
      for (int i = 0; i < heads.width; ++i) squares += values[i] * values[i];
      double inverse = 1 / std::sqrt(squares / heads.width + double{eps});
      for (int i = 0; i < heads.width; ++i) values[i] *= inverse * double{factors[static_cast<size_t>(i)]};
    }
  }
}

void RefOps::standardize(Array x, const LayerNorm& norm) {
  const std::vector<float>&weight = numbers_of(*norm.weight), &bias = numbers_of(*norm.bias);
  const auto count = static_cast<size_t>(at(x).cols);
  for (int64_t row = 0; row < at(x).rows; ++row) {
    double* values = at(x).row(row);
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; ++i) mean += values[i];
    mean /= static_cast<double>(count);
    for (size_t i = 0; i < count; ++i) squares += (values[i] - mean) * (values[i] - mean);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + double{norm.eps});
    for (size_t i = 0; i < count; ++i) values[i] = (values[i] - mean) * inverse * double{weight[i]} + double{bias[i]};
  }
}

void RefOps::rotate(Array x, const Heads& heads, const RopeSpec& spec) {
  const std::vector<float> frequencies = spec.frequencies();
  const size_t pairs = frequencies.size();
  const double magnitude = spec.magnitude();
  for (int64_t row = 0; row < at(x).rows; ++row) {
    const double position = step().positions[static_cast<size_t>(row)];
    for (int head = 0; head < heads.count; ++head) {
      double* values = at(x).row(row) + heads.first + int64_t{head} * heads.width;
      for (size_t i = 0; i < pairs; ++i) {
        const double angle = position * double{frequencies[i]};
        const double low = values[i], high = values[i + pairs];
        values[i] = magnitude * (low * std::cos(angle) - high * std::sin(angle));
        values[i + pairs] = magnitude * (high * std::cos(angle) + low * std::sin(angle));
      }
    }
  }
}

void RefOps::activate_multiply(Array gate_up, const GateSpec& spec, Array out) {
  CHECK(spec.slope == 1 || spec.act == Act::kSilu, "a slope of {} of an activation other than silu", spec.slope);
  const int64_t half = at(out).cols;
  const double limit = spec.limit > 0 ? double{spec.limit} : std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < at(out).rows; ++row) {
    const double* in = at(gate_up).row(row);
    for (int64_t i = 0; i < half; ++i) {
      // A NaN stays one: it is no smaller than the limit.
      const double gate = in[i] > limit ? limit : in[i];
      const double up = in[half + i] > limit ? limit : in[half + i] < -limit ? -limit : in[half + i];
      at(out).row(row)[i] = activated(gate, spec.act, double{spec.slope}) * (up + double{spec.up_offset});
    }
  }
}

void RefOps::activate_each(Array x, Act act) {
  for (double& value : at(x).values) value = activated(value, act);
}

void RefOps::squash(Array x, float cap) {
  for (double& value : at(x).values) value = double{cap} * std::tanh(value / double{cap});
}

void RefOps::cache_write(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) {
  const CacheTable& table = step().tables[static_cast<size_t>(layer.cache_class)];
  std::vector<float> rounded(static_cast<size_t>(heads.width));
  auto write_all = [&](auto writer) {
    for (size_t sequence = 0; sequence < step().sequences.size(); ++sequence) {
      const SequenceRows& rows = step().sequences[sequence];
      for (int32_t row = 0; row < rows.rows; ++row) {
        const int64_t slot = table.slot(sequence, rows.first_position + row);
        for (int head = 0; head < heads.count; ++head) {
          const double* values = at(x).row(rows.first_row + row) + heads.first + int64_t{head} * heads.width;
          for (int i = 0; i < heads.width; ++i) rounded[static_cast<size_t>(i)] = static_cast<float>(values[i]);
          writer.write(slot, head, rounded);
        }
      }
    }
    kv_.add_saturated(layer.layer, writer.saturated());
  };
  if (role == KvRole::kKey) {
    write_all(kv_.writer<KvRole::kKey>(layer.layer));
  } else {
    write_all(kv_.writer<KvRole::kValue>(layer.layer));
  }
}

void RefOps::cache_read(const AttnLayer& layer, KvRole role, const CacheRange& range, Array out) {
  const CacheTable& table = step().tables[static_cast<size_t>(layer.cache_class)];
  std::vector<float> stored(static_cast<size_t>(at(out).cols));
  auto read_all = [&](const auto& reader) {
    for (int32_t position = range.begin; position < range.end; ++position) {
      reader.read(table.slot(range.sequence, position), range.kv_head, stored);
      std::copy(stored.begin(), stored.end(), at(out).row(position - range.begin));
    }
  };
  if (role == KvRole::kKey) {
    read_all(kv_.reader<KvRole::kKey>(layer.layer));
  } else {
    read_all(kv_.reader<KvRole::kValue>(layer.layer));
  }
}

FreshRows RefOps::fresh_rows(const AttnLayer& layer) const {
  return kv_.spec(layer.layer).fresh;
}

void RefOps::cache_round(Array x, const Heads& heads, const AttnLayer& layer, KvRole role) {
  std::vector<float> rounded(static_cast<size_t>(heads.width));
  for (int64_t row = 0; row < at(x).rows; ++row) {
    for (int head = 0; head < heads.count; ++head) {
      double* values = at(x).row(row) + heads.first + int64_t{head} * heads.width;
      std::transform(values, values + heads.width, rounded.begin(), [](double v) { return static_cast<float>(v); });
      if (role == KvRole::kKey) {
        kv_.round<KvRole::kKey>(layer.layer, head, rounded);
      } else {
        kv_.round<KvRole::kValue>(layer.layer, head, rounded);
      }
      std::copy(rounded.begin(), rounded.end(), values);
    }
  }
}

void RefOps::dot_rows(const Cell& cell, Array keys, int64_t begin, int64_t end, float factor, Array scores) {
  const double* query = at(cell.array).row(cell.row) + cell.first;
  for (int64_t key = begin; key < end; ++key) {
    double sum = 0;
    for (int64_t i = 0; i < at(keys).cols; ++i) sum += query[i] * at(keys).row(key)[i];
    at(scores).values[static_cast<size_t>(key - begin)] = double{factor} * sum;
  }
}

void RefOps::softmax(Array scores, const PackedVector* sinks, int head) {
  std::vector<double>& values = at(scores).values;
  double largest = *std::max_element(values.begin(), values.end());
  double sink = -std::numeric_limits<double>::infinity();
  if (sinks != nullptr) sink = double{numbers_of(*sinks)[static_cast<size_t>(head)]};
  largest = std::max(largest, sink);
  double sum = std::exp(sink - largest);
  for (double& value : values) sum += value = std::exp(value - largest);
  for (double& value : values) value /= sum;
}

void RefOps::part_softmax(Array scores, const Cell& lse) {
  std::vector<double>& values = at(scores).values;
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - largest);
  for (double& value : values) value /= sum;
  at(lse.array).row(lse.row)[lse.first] = largest + std::log(sum);
}

void RefOps::merge_parts(Array parts, Array lse, const PackedVector* sinks, int head, const Cell& cell) {
  const std::vector<double>& logs = at(lse).values;
  double largest = *std::max_element(logs.begin(), logs.end());
  double sink = -std::numeric_limits<double>::infinity();
  if (sinks != nullptr) sink = double{numbers_of(*sinks)[static_cast<size_t>(head)]};
  largest = std::max(largest, sink);
  double sum = std::exp(sink - largest);
  for (double log : logs) sum += std::exp(log - largest);
  double* out = at(cell.array).row(cell.row) + cell.first;
  std::fill(out, out + at(parts).cols, 0.0);
  for (int64_t part = 0; part < at(parts).rows; ++part) {
    const double weight = std::exp(logs[static_cast<size_t>(part)] - largest) / sum;
    for (int64_t i = 0; i < at(parts).cols; ++i) out[i] += weight * at(parts).row(part)[i];
  }
}

void RefOps::mix_rows(Array weights, Array values, int64_t begin, int64_t end, const Cell& cell) {
  double* out = at(cell.array).row(cell.row) + cell.first;
  std::fill(out, out + at(values).cols, 0.0);
  for (int64_t key = begin; key < end; ++key) {
    const double weight = at(weights).values[static_cast<size_t>(key - begin)];
    for (int64_t i = 0; i < at(values).cols; ++i) out[i] += weight * at(values).row(key)[i];
  }
}

std::vector<float> RefOps::download(Array x) const {
  const Numbers& numbers = arrays_[static_cast<size_t>(x)];
  return std::vector<float>(numbers.values.begin(), numbers.values.end());
}

std::vector<float> RefOps::download(const PackedVector& vector) const {
  return numbers_of(vector);
}

}  // namespace vernier
