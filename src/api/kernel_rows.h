#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/attn_spec.h"
#include "ops/experts_spec.h"
#include "tensor/codec.h"

namespace vernier {

/// A layer's attention with the write of its keys and values: one row behind `depth` tokens of a cache, or, where
/// `prompt`, so many rows from a sequence's beginning on.
struct AttendWork {
  int heads = 0, kv_heads = 0, head_dim = 0;
  CodecId stored = CodecId::kBF16;
  int depth = 0;
  int window = 0;  ///< 0: none
  int prompt = 0;

  AttnSpec spec() const;
  double bytes() const;       ///< of the keys and values that rows see, read once
  double operations() const;  ///< of the products with them; what is masked is not counted
};
/// rows x a matrix [outputs, inputs].
struct ProductWork {
  CodecId codec = CodecId::kE4M3Block;
  int64_t outputs = 0, inputs = 0;
  int rows = 1;
};
/// A whole layer of experts: its router, both products, the sum of the answers.
struct ExpertsWork {
  CodecId codec = CodecId::kMxfp4;
  ExpertsSpec spec;
  int64_t hidden = 0;
  int rows = 1;
};
/// The largest logit of one stream on an empty cache, again and again, by a model without training.
struct DecodeWork {
  std::string config;  ///< as Hugging Face spells it
  CodecId codec = CodecId::kBF16;
  CodecId experts = CodecId::kMxfp4;
  int tokens = 200;
};
using KernelWork = std::variant<AttendWork, ProductWork, ExpertsWork, DecodeWork>;

enum class GoalOf : uint8_t {
  kCopy,      ///< at least this share of the rate of copying
  kProducts,  ///< at least this share of the rate of the vendor's large bf16 product
  kTimeOf,    ///< at most this share of another row's time
  kTokens,    ///< at least so many tokens a second
};
struct KernelGoal {
  GoalOf of = GoalOf::kCopy;
  double number = 0;
  std::string row = {};  ///< of kTimeOf
};

struct KernelRow {
  std::string name;
  KernelWork work;
  std::vector<KernelGoal> goals;
};

/// What `bench kernels` measures: pure, kernel_bench.h measures. `only`: rows whose names have it in them, with those
/// that their goals name; empty: all.
std::vector<KernelRow> kernel_rows(std::string_view only = {});

/// Of one launch in a steady state, or of one token.
struct KernelTime {
  double seconds = 0;
  double bytes = 0;       ///< that must come from memory; 0: not said
  double operations = 0;  ///< a multiply and an add are two; 0: not said
};
struct KernelResult {
  KernelRow row;
  KernelTime time;
};
/// Both measured in the run whose rows are divided by them.
struct KernelLimits {
  double copy_bytes_per_s = 0;  ///< bytes read and bytes written
  std::optional<double> product_ops_per_s;
  std::string no_products;  ///< why there is none
};

struct GoalOutcome {
  KernelGoal goal;
  std::optional<double> reached;  ///< absent where what it is a share of was not measured
  bool met = false;
};
std::vector<GoalOutcome> judge_goals(const KernelResult& result, const std::vector<KernelResult>& all,
                                     const KernelLimits& limits);
/// "0.46 of copy (goal 0.75: missed)".
std::string to_string(const GoalOutcome& outcome);

}  // namespace vernier
