#pragma once

#include <string>

#include "models/decoder_spec.h"
#include "ops/binder.h"
#include "ops/ops.h"

namespace vernier {

/// Binds the router and every expert of the layer under `prefix` ("model.layers.3."), in the first of the spec's
/// spellings that the checkpoint has.
Result<ExpertsLayer> bind_experts(const DecoderSpec& spec, const ExpertsSpec& experts, const std::string& prefix,
                                  Binder& binder);

}  // namespace vernier
