#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/cache_scale_file.h"
#include "checkpoint/checkpoint.h"
#include "ops/backend.h"

namespace vernier {

struct CalibrateOptions {
  CodecId stored = CodecId::kE4M3Tensor;  ///< or kE5M2Tensor
  bool per_head = false;
  double margin = 1.25;         ///< room above the largest number that was seen, as other text goes beyond it
  int32_t window = 512;         ///< the text is cut into sequences of at most so many tokens
  std::vector<int32_t> prefix;  ///< tokens that begin every sequence (BOS), within its length
  std::function<void(int64_t tokens)> on_progress;  ///< of the text, after each sequence; may be empty
};

/// What one layer writes to its cache; by KV head or one for all. Of a compressed row keys and values are the row.
struct CalibratedLayer {
  int layer = 0;
  bool one_row = false;
  std::vector<float> k_largest, v_largest;
};

struct Calibration {
  CacheScaleFile file;  ///< without a path
  std::vector<CalibratedLayer> layers;
};

/// Cache scales of a model from text: for each layer, and for keys and values apart, the smallest power of two under
/// which the largest number that is written, times the margin, fits into the type. So nothing that was seen is clipped,
/// what scale 1 holds exactly stays as exact (a power of two moves no mantissa), and small numbers keep more bits.
/// What wrote nothing but zeros has scale 1.
///
/// Each token of the text counts once, and exactly what is written is looked at; it runs over a float32 cache, so that
/// no layer's scale depends on the rounding of those before it. Refuses an encoder, and a text without tokens.
Result<Calibration> calibrate_cache(const Checkpoint& checkpoint, std::unique_ptr<Backend> backend,
                                    std::span<const int32_t> tokens, const CalibrateOptions& options);

}  // namespace vernier
