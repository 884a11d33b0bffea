#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sequence_runner.h"

namespace vernier {

struct CachedLogits {
  std::vector<float> logits;    ///< [tokens, vocab]
  std::vector<int32_t> greedy;  ///< what follows, as many as were asked for
  int32_t cached_tokens = 0;    ///< of the second request, found in the cache
};

/// Logits of all tokens as an engine makes them for two requests: the first `prefix` tokens, then all of them, the
/// second behind the first one's cached blocks. Each row is the last that was computed for its position.
Result<CachedLogits> run_cached(Backend& backend, const Decoder& decoder, const RunnerOptions& options,
                                std::span<const int32_t> tokens, int32_t prefix, int32_t generate);

}  // namespace vernier
