#pragma once

#include "backends/cuda/kernels/launch.h"

/// Tokens out of logits: the border of draw.cu.
namespace vernier::cuda {

/// Copies counters to memory of the host.
struct SaturationCall {
  const unsigned long long* counters = nullptr;
  int32_t count = 0;
  unsigned long long* seen = nullptr;  ///< of the host, at the device's address
  VERNIER_COMPARED(SaturationCall)
};
LaunchCode tell_saturation(const SaturationCall& call, Stream stream);

/// Which cuts act on a row's tokens, and in which order.
enum class DrawCut : uint8_t {
  kNone,
  kMinThenBest,  ///< min_p, top_k, top_p
  kTogether,     ///< top_k and top_p of the same tokens; with min_p as kBestThenMin
  kBestThenMin,  ///< top_k, top_p, min_p
  kMassThenMin,  ///< top_p, min_p, top_k
};

/// How one row's token is drawn; see SampleSpec. Lies in device memory.
struct DrawRow {
  uint64_t seed = 0;
  uint32_t position = 0;
  float temperature = 0;  ///< 0: the largest logit, without noise
  float top_p = 1, min_p = 0;
  int32_t top_k = 0;
  int32_t known = 0;    ///< tokens from here on are not drawn
  int32_t edited = -1;  ///< row of edited logits; below 0: its own
  int32_t first_edit = 0, edits = 0;
  int32_t mask = -1, allowed = -1;  ///< rows of masks; below 0: none. A mask acts after edits, too
  DrawCut cut = DrawCut::kNone;
  bool divide_last = false;    ///< by the temperature, after the cuts
  bool penalty_first = false;  ///< of an edit: before its repetition and bias
};

/// A change to a token's logit; see LogitEdit. A token has one at most.
struct DrawEdit {
  int32_t token = 0;
  float bias = 0, repetition = 1, penalty = 0;
};

/// A token for each row, to memory of the host: what sample_row draws, or kNoToken, where that has more to say: a NaN,
/// nothing that is allowed, or more tokens of nearly one logit than are put in order here.
struct DrawCall {
  ConstRows logits;
  int64_t rows = 0, cols = 0;
  const DrawRow* draws = nullptr;   ///< [rows]; null: each row's largest logit
  const DrawEdit* edits = nullptr;  ///< those of the rows
  const uint32_t* masks = nullptr;  ///< [masks, mask_words], a bit for each token that may be drawn
  int64_t mask_words = 0;
  float* edited = nullptr;  ///< [edited rows, cols] scratch; null: no row has edits or masks
  bool any_cut = false;
  unsigned long long* best = nullptr;  ///< [rows] scratch that begins as 0 and is 0 again
  uint32_t* arrived = nullptr;         ///< [rows] the same
  int32_t* tokens = nullptr;           ///< [rows]
  SaturationCall saturation;           ///< told on the way
  VERNIER_COMPARED(DrawCall)
};
inline constexpr int32_t kNoToken = -1;
LaunchCode draw(const DrawCall& call, Stream stream);

}  // namespace vernier::cuda
