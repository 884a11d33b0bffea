#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace vernier {

/// One cache class as the planner sees it: how many blocks, and the window of its layers if they have one.
struct SchedClass {
  int32_t blocks = 0;
  std::optional<int32_t> window;
};

struct SchedConfig {
  std::vector<SchedClass> classes;
  int32_t block_tokens = 64;
  int32_t max_rows = 256;      ///< rows of one step at most; at least max_sequences
  int32_t max_sequences = 64;  ///< sequences that hold cache at one time
  int32_t max_queue = 512;     ///< sequences that wait; one more is refused with kUnavailable
  int32_t context_tokens = 4096;
  /// Prompt rows of a step that carries a decode row: what a running stream waits for. The engine sets it by its speed.
  int32_t prefill_rows_when_decoding = 256;
  /// Prompt rows of any other step: what a prompt that arrives meanwhile waits for.
  int32_t prefill_rows_alone = std::numeric_limits<int32_t>::max();
  /// Chunks of a prompt begin at multiples of this, whatever else runs: chunks then depend on the prompt's length
  /// alone. A multiple of block_tokens.
  std::optional<int32_t> chunk_grid_rows;
  bool prefix_cache = true;
};

}  // namespace vernier
