#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "testing/isa.h"

// Like gtest_main, plus `--isa NAME`: the instruction set that the CPU backend is asked for.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const char* name = std::getenv("VERNIER_ISA"); name != nullptr) vernier::testing::set_requested_isa(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
      vernier::testing::set_requested_isa(argv[++i]);
    } else if (std::strncmp(argv[i], "--isa=", 6) == 0) {
      vernier::testing::set_requested_isa(argv[i] + 6);
    }
  }
  return RUN_ALL_TESTS();
}
