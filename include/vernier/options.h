#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "vernier/error.h"

namespace vernier {
inline namespace api {

/// How a model is opened. An empty text and a zero are defaults.
struct Options {
  std::string backend;   ///< "cpu"; "cuda", "auto"; "reference" computes slowly, in float64
  std::string isa;       ///< "baseline", "avx2", "avx512", "amx"; else the best of the machine
  std::string numerics;  ///< "fast": activations may be quantised in a product; "exact"
  std::string kv_type;   ///< stored type of keys and values: "auto", "f32", "f16", "bf16", "fp8_e4m3", "fp8_e5m2"
  std::optional<std::string> chat_template = {};  ///< its text, instead of the model's own
  int32_t threads = 0;                            ///< 0: one for each core that the process may use
  int32_t context_tokens = 0;                     ///< longest sequence; 0: the model's, at most 8192
  int32_t max_sequences = 0;                      ///< that run at once; 0: 64
  int32_t max_queue = 0;                          ///< that wait; one more is refused with kOverloaded; 0: 256, -1: none
  int32_t max_step_rows = 0;                      ///< tokens computed in one step at most; 0: 512
  int64_t cache_bytes = 0;                        ///< of keys and values; 0: four sequences of full length
  std::string tune = {};  ///< while it opens: "off" uses what was measured of this machine; "missing", "full" measure
  std::string tune_store = {};  ///< the folder where that is kept, FOLDER:ro is only read; empty: none
  int64_t tune_budget_ms = 0;   ///< for measuring; 0: 10000
  bool prefix_cache = true;     ///< beginnings of prompts are computed once
  bool parse_reasoning = true;  ///< false: reasoning stays a part of the text
  bool model_sampling = true;   ///< the makers' advice holds where a request is silent
  /// Called by the thread that opens, while the weights load.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};
};

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

}  // namespace api
}  // namespace vernier
