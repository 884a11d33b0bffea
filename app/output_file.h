#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace vernier {

/// Whether a file can be written there, asked before the work whose result it will hold. Leaves everything as it was.
Status check_writable(const std::string& path);
/// That a file to write is none of those that are read: a file, or one in a folder, under whatever name.
Status check_no_input(const std::string& path, std::span<const std::string> inputs);

}  // namespace vernier
