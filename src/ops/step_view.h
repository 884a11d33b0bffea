#pragma once

#include <cstdint>
#include <span>

namespace vernier {

/// The blocks of one cache class, for each sequence of the step. The slot of absolute position p of sequence s is
/// blocks[begin[s] + (p - first_position[s]) / block_tokens] * block_tokens + p % block_tokens.
struct CacheTable {
  int32_t block_tokens = 0;
  std::span<const int32_t> blocks;          ///< all sequences' blocks, one after another
  std::span<const int32_t> begin;           ///< [sequences + 1] offsets into blocks
  std::span<const int32_t> first_position;  ///< [sequences] of the first block's first slot; a multiple of block_tokens

  int64_t slot(size_t sequence, int32_t position) const {
    int32_t block = blocks[static_cast<size_t>(begin[sequence] + (position - first_position[sequence]) / block_tokens)];
    return int64_t{block} * block_tokens + position % block_tokens;
  }
};

/// Consecutive rows of one sequence, at consecutive positions.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t first_position = 0;
};

/// One step as a backend reads it. Rows are tokens; `sampled_rows` are those whose logits are wanted, ascending. The
/// spans belong to the engine and outlive the step. A row reads no slot that is not written by this or an earlier step.
struct StepView {
  std::span<const int32_t> tokens;          ///< [rows]
  std::span<const int32_t> positions;       ///< [rows]
  std::span<const SequenceRows> sequences;  ///< cover all rows, in order
  std::span<const CacheTable> tables;       ///< one for each cache class
  std::span<const int32_t> sampled_rows;
  /// [sequences] all tokens of each from its first on, to the end of its rows or further; for models whose embedding
  /// looks back, empty where nobody asks.
  std::span<const std::span<const int32_t>> histories = {};

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace vernier
