#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sequence_runner.h"

namespace vernier {

/// How a text is cut: windows of `window` tokens, each computed on its own; of each the second half is scored, so that
/// every scored token has at least half a window before it. A text shorter than a window is one, scored from its second
/// token on.
struct EvalOptions {
  int32_t window = 512;
  std::vector<int32_t> prefix;  ///< tokens that begin every window (BOS), within its length
  std::function<void(int64_t done, int64_t total)> on_progress;  ///< scored tokens; may be empty
};

/// How well a model foresees a text.
struct Perplexity {
  int64_t scored = 0;     ///< tokens
  double nll = 0;         ///< mean negative log-likelihood, in nats
  double nll_error = 0;   ///< standard error of that mean
  double perplexity = 0;  ///< e^nll
};

/// How far the predictions of B are from those of A, over all scored positions; KL is of A relative to B, in nats.
struct Divergence {
  Perplexity a, b;
  double mean = 0;
  double mean_error = 0;  ///< standard error
  double median = 0;
  double p99 = 0;  ///< 99th percentile, nearest rank
  double largest = 0;
  double top1_agreement = 0;  ///< share of positions at which both have the same likeliest token
  double rms_delta_p = 0;     ///< root of the mean square of how the probability of the text's own token changes
};

/// Refuses a text of fewer than two tokens. Each runner's context holds a window.
Result<Perplexity> measure_perplexity(SequenceRunner& runner, std::span<const int32_t> tokens,
                                      const EvalOptions& options);
/// Both run the same tokens in the same steps. Refuses vocabularies of different sizes.
Result<Divergence> measure_divergence(SequenceRunner& a, SequenceRunner& b, std::span<const int32_t> tokens,
                                      const EvalOptions& options);

/// The beginning of The Jargon File 4.4.7, which is in the public domain; 64 KB.
std::string_view built_in_text();

}  // namespace vernier
