#pragma once

#include <string>

#include "base/result.h"

namespace vernier {

/// Whether a file can be written there, asked before the work whose result it will hold. Leaves everything as it was.
Status check_writable(const std::string& path);

}  // namespace vernier
