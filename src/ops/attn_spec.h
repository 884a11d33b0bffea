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
/// YaRN: pairs that turn often keep their frequency, pairs that turn seldom have it divided by `factor`, a linear ramp
/// over pairs between. What is turned grows by `magnitude`, for q and k alike.
struct RopeYarn {
  double factor = 1;
  double original_max_positions = 4096;
  double beta_fast = 32;  ///< turns over the original positions from which on a frequency is kept
  double beta_slow = 1;   ///< turns up to which it is divided
  bool truncate = true;   ///< the ramp's ends are whole pairs
  double magnitude = 1;
};
/// Each pair's frequency divided by its own number, [dim / 2]; GGUF files store scaling this way.
struct RopeDivisors {
  std::vector<float> divisors;
};

/// Rotary embedding of the first `dim` numbers of a head; pairs are (i, i + dim / 2).
struct RopeSpec {
  double base = 10000;
  int dim = 0;
  std::variant<RopePlain, RopeLinear, RopeLlama3, RopeYarn, RopeDivisors> scaling;

  /// One angle step for each pair, in float32, [dim / 2].
  std::vector<float> frequencies() const;
  /// By which cosines and sines are multiplied.
  float magnitude() const;
  std::string to_string() const;
};

/// Attention whose cache is one compressed row for each token. Its last `rope_dim` numbers are rotated and join every
/// head's key; its first `rank`, normed, become each head's key and value through matrices of the head.
struct LatentSpec {
  int q_rank = 0;          ///< columns between the two products that make queries; 0: one product makes them
  int rank = 0;            ///< numbers of a token that keys and values are made of
  int nope_dim = 0;        ///< numbers of a head's query and key that are not rotated; they come first
  int rope_dim = 0;        ///< those that are
  int value_dim = 0;       ///< numbers of a head's value
  float norm_scale = 1;    ///< of the norm's weights, folded when bound
  bool neighbours = true;  ///< a pair that is rotated stands side by side, not half a row apart

  int query_dim() const { return nope_dim + rope_dim; }
  int row_dim() const { return rank + rope_dim; }
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
  /// What is cached is compressed: one row of row_dim numbers, which counts as the one KV head.
  std::optional<LatentSpec> latent = {};

  int64_t q_cols() const { return int64_t{heads} * head_dim; }
  int64_t kv_cols() const { return int64_t{kv_heads} * head_dim; }
};

}  // namespace vernier
