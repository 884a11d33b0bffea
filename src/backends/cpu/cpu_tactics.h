#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tune/tactic.h"

namespace vernier {

/// Content hash of the sources and flags that a kernel is built of; empty: there is no kernel of that name.
std::string cpu_kernel_hash(std::string_view kernel);

/// What tactics hold for on this machine's processor with these options, as CpuBackend::make takes them.
Result<TacticScope> cpu_tactic_scope(const std::string& isa, int threads);

/// What is known of how fast the processor runs just now: "governor performance, 3200 MHz at most"; "unknown".
std::string cpu_clock_state();

}  // namespace vernier
