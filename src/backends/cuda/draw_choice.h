#pragma once

#include <cstdint>

#include "backends/cuda/kernels/draw.h"
#include "ops/sample_spec.h"

/// Which rows' tokens a device draws, and how. Pure.
namespace vernier {

/// False where log probabilities are asked for, a token is forced, there is typical_p, or the spec is wrong: the
/// definition says why.
bool device_draws(const SampleSpec& spec, int64_t vocab);
/// Whether edits or masks stand between a row's logits and its token.
bool changes_logits(const SampleSpec& spec);
/// Whether all that is asked of a row is the largest of its logits.
bool takes_largest(const SampleSpec& spec, int64_t vocab);
/// A row that the device draws, without its masks and edits.
cuda::DrawRow draw_row(const SampleSpec& spec, int64_t vocab);

}  // namespace vernier
