#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/weight.h"

namespace vernier {

enum class TensorUse : uint8_t {
  kNotBound,       ///< no model has asked yet, or ever will: unused once binding is finished
  kMatrix,         ///< packed by a backend
  kVector,         ///< a norm or a bias
  kConfiguration,  ///< taken in by the configuration
  kUnneeded,       ///< known, and no answer depends on it
  kScale,          ///< scales a matrix
  kInputScale,     ///< static scale of a matrix's activations; no part of the weight
  kCacheScale,     ///< scales keys, values or queries of a quantised KV cache
  kTiedCopy,       ///< the same bytes as the embedding table, which serves as the head
};

std::string_view name(TensorUse use);

/// What became of one tensor of the checkpoint.
struct TensorReport {
  std::string name;       ///< in Hugging Face spelling
  std::string file_name;  ///< as the file spells it
  std::string type;       ///< "Q4_1"
  std::vector<int64_t> extents;
  int64_t stored_bytes = 0;
  std::string scales;        ///< where the scales are: "in its blocks", "weight_scale", "none"
  std::string rule;          ///< of a matrix in a quantised checkpoint: what its configuration says of it, and where
  std::string read_as;       ///< codec of its numbers, where they were put into another one
  std::string quantised_to;  ///< that other codec; else empty
  TensorUse use = TensorUse::kNotBound;
  std::string bound_as;  ///< the weight that it is (a part of)
};

/// What a backend made of one weight.
struct WeightReport {
  std::string name;  ///< parts joined by '+'
  int64_t rows = 0;
  int64_t cols = 0;
  PackedInfo packed;
};

/// A scale that the checkpoint holds for a layer's KV cache: stored = round(x / scale).
struct CacheScale {
  int layer = 0;
  char of = 'k';              ///< k, v or q; p: the probabilities
  std::vector<float> values;  ///< one, or one a KV head
  std::string origin;         ///< the tensor
};

/// Everything that was loaded, and everything that was not: each tensor of the checkpoint stands here once, in file
/// order. Plain data.
struct LoadReport {
  std::string format;
  std::vector<TensorReport> tensors;
  std::vector<WeightReport> weights;
  std::vector<CacheScale> cache_scales;
  std::vector<std::string> warnings;

  int64_t stored_bytes() const;
  int64_t packed_bytes() const;
  std::vector<const TensorReport*> unused() const;
  std::string to_string() const;  ///< a table, one line a tensor, then weights and warnings
  nlohmann::json to_json() const;
};

/// The report before anything is bound; for `inspect`.
LoadReport describe(const Checkpoint& checkpoint);

}  // namespace vernier
