#pragma once

#include <string>

namespace vernier::testing {

/// The backend that this run asks for in place of the CPU: `--backend cuda` of the test program, else the environment's
/// VERNIER_TEST_BACKEND, else empty.
const std::string& requested_backend();

/// Set once by main() before any test runs.
void set_requested_backend(std::string name);

}  // namespace vernier::testing
