#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "testing/isa.h"
#include "testing/requested_backend.h"

namespace {

/// Hands `set` what stands behind the flag, or in the environment.
void read_setting(int argc, char** argv, const char* flag, const char* variable, void (*set)(std::string)) {
  if (const char* value = std::getenv(variable); value != nullptr) set(value);
  const size_t length = std::strlen(flag);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0 && i + 1 < argc) {
      set(argv[++i]);
    } else if (std::strncmp(argv[i], flag, length) == 0 && argv[i][length] == '=') {
      set(argv[i] + length + 1);
    }
  }
}

}  // namespace

// Like gtest_main, plus `--isa NAME`, the instruction set that the CPU backend is asked for, and `--backend cuda`, what
// runs in the CPU's place.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  read_setting(argc, argv, "--isa", "VERNIER_ISA", vernier::testing::set_requested_isa);
  read_setting(argc, argv, "--backend", "VERNIER_TEST_BACKEND", vernier::testing::set_requested_backend);
  return RUN_ALL_TESTS();
}
