#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "tensor/codec.h"

namespace vernier {

/// Weights or layers of one op that run on another kernel than the fastest for it, for one reason.
struct KernelFallback {
  std::string op;          ///< "linear", "attend"
  std::string phase;       ///< "decode", "prefill"
  std::string kernel;      ///< taken
  std::string instead_of;  ///< the one it would have been
  std::string reason;      ///< a stable code: "needs-isa"
  int64_t count = 0;
};

/// What `explain` shows, counted: choices whose first candidate cannot run here. A kernel made for another number of
/// rows is no fallback.
std::vector<KernelFallback> kernel_fallbacks(const LoadedModel& model, CodecId kv_type);

}  // namespace vernier
