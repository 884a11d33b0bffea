#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace vernier {

/// Results of one op, of which some numbers may have been computed several ways from the same inputs.
struct JudgedNumbers {
  std::span<const float> found;        ///< by the backend under test
  std::span<const float> reference;    ///< by RefOps
  std::span<const double> limits;      ///< of |found - reference|, one for each number
  std::span<const float> unquantised;  ///< with nothing rounded to fewer bits on the way; empty: not computed
  bool by_reference = false;           ///< `unquantised` is RefOps' own: what it differs by is the cache's rounding
};

/// One op of one layer, over all rows of the prompt.
struct NumericsRow {
  std::string op;
  int layer = -1;  ///< -1: before or after the layers
  int64_t numbers = 0;
  double error = 0;  ///< the largest, and the limit at its place
  double limit = 0;
  double fraction = 0;      ///< the largest error over its own limit: above 1 the op is wrong
  double quantisation = 0;  ///< the largest error that activations or cache entries of few bits make
  double kernel = 0;        ///< the largest error that is left: order of sums, exponentials
  double largest = 0;       ///< number of the reference

  bool passed() const { return fraction <= 1; }  ///< NaN is no number that passes
};

/// What `verify numerics` found. Plain data.
struct NumericsReport {
  std::string model;
  std::string backend;
  int64_t tokens = 0;
  std::vector<NumericsRow> rows;  ///< in order of computation

  void add(const std::string& op, int layer, const JudgedNumbers& numbers);
  bool passed() const;
  /// Ops that are outside their bound, first; then for each kind of op its worst layer, or every layer.
  std::string to_string(bool every_layer) const;
  nlohmann::json to_json() const;
};

}  // namespace vernier
