#pragma once

#include <cstdint>

namespace vernier {

enum class Act : uint8_t {
  kSilu,
  kGeluTanh,  ///< the approximation
  kGelu,      ///< x times the normal distribution's integral up to x
};

/// act(gate) * up over [gate | up] columns.
struct GateSpec {
  Act act = Act::kSilu;
  float limit = 0;      ///< above 0: first gate becomes at most this, and up lies within it on both sides
  float slope = 1;      ///< of a SiLU's sigmoid: x / (1 + e^(-slope x)); 1 for other activations
  float up_offset = 0;  ///< added to up

  /// Nothing but the activation.
  bool is_plain() const { return limit <= 0 && slope == 1 && up_offset == 0; }
};

}  // namespace vernier
