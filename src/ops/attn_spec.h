#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace vernier {

struct RopePlain {};
/// Positions divided by `factor`.
struct RopeLinear {
  double factor = 1;
};
/// Llama 3: long wavelengths divided by `factor`, short ones kept, a smooth ramp between.
struct RopeLlama3 {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_max_positions = 8192;
};
/// Each pair's frequency divided by its own number, [dim / 2]; GGUF files store scaling this way.
struct RopeDivisors {
  std::vector<float> divisors;
};

/// Rotary embedding of the first `dim` numbers of a head; pairs are (i, i + dim / 2).
struct RopeSpec {
  double base = 10000;
  int dim = 0;
  std::variant<RopePlain, RopeLinear, RopeLlama3, RopeDivisors> scaling;

  /// One angle step for each pair, in float32, [dim / 2].
  std::vector<float> frequencies() const;
  std::string to_string() const;
};

/// All that attention of one layer needs to know, read alike by a backend's planning and by its kernels.
/// Key k is visible to query q when k <= q and, with a window, q - k < window; without `causal` every key is.
struct AttnSpec {
  int heads = 0;     ///< query heads of this rank
  int kv_heads = 0;  ///< key and value heads of this rank; divides heads
  int head_dim = 0;
  std::optional<int> window;
  float scale = 1;     ///< of q.k, before the soft cap
  float soft_cap = 0;  ///< 0: none; else cap * tanh(x / cap)
  bool sinks = false;  ///< one learnt logit a head joins each softmax denominator once
  bool qk_norm = false;
  bool causal = true;  ///< false: an encoder's; no window, no sinks, and nothing is cached
  RopeSpec rope;       ///< of dim 0: none

  int64_t q_cols() const { return int64_t{heads} * head_dim; }
  int64_t kv_cols() const { return int64_t{kv_heads} * head_dim; }
};

}  // namespace vernier
