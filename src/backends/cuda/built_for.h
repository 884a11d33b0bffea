#pragma once

#include <string_view>

#include "base/result.h"

namespace vernier {

/// Whether machine code for `architectures` (as CMake lists them: "90a-real", "80-real;90a") runs on a GPU of this
/// compute capability: that of "90a" on 9.0 alone, that of "80" on 8.x from 8.0 on, and what holds PTX too ("80",
/// "80-virtual") on every later one. An error names the GPU, what was built, and the build that it needs.
Status check_built_for(std::string_view architectures, std::string_view device, int major, int minor);

}  // namespace vernier
