#pragma once

#include <chrono>

#include "server/readiness.h"
#include "server/served_model.h"

namespace vernier {

/// Asks the model once for each thing that it is published to do, and nothing else: a generator for tokens, one with
/// hidden states for a vector, one with grammars for a constrained token. Tells `readiness` what failed; an answer that
/// has not come after `limit` has. Waits for the last.
void warm_up(const ServedModel& model, Readiness& readiness, std::chrono::nanoseconds limit = std::chrono::minutes(5));

}  // namespace vernier
