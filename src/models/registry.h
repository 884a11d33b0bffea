#pragma once

#include <string>
#include <vector>

#include "models/decoder_spec.h"
#include "models/encoder_spec.h"
#include "ops/config.h"

namespace vernier {

/// The spec of the model that a configuration describes, by `model_type` and `architectures`. Refuses by name what is
/// recognised and not built yet, with what it waits for; what is unknown, with the list of what is supported; and keys
/// that nobody read.
Result<DecoderSpec> read_decoder(Config& config);

/// The same for an encoder.
Result<EncoderSpec> read_encoder(Config& config);
/// Whether `read_encoder` is the one to ask.
bool names_encoder(Config& config);

/// Model types that `read_decoder` builds, in order of name.
std::vector<std::string> supported_model_types();

}  // namespace vernier
