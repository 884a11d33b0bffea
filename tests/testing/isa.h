#pragma once

#include <string>

namespace vernier::testing {

/// The instruction set that this run of the tests asks for: `--isa NAME` of the test program, else the environment's
/// VERNIER_ISA, else empty for the best one that the machine has. Tests that make a CPU backend hand it over.
const std::string& requested_isa();

/// Set once by main() before any test runs.
void set_requested_isa(std::string name);

}  // namespace vernier::testing
