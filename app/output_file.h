#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace vernier {

/// Whether a file can be written there, asked before the work whose result it will hold. Leaves everything as it was.
Status check_writable(const std::string& path);
/// That a file to write is no part of the model that is read, nor `input`, under whatever name.
Status check_no_input(const std::string& path, const Checkpoint& model, const std::string& input);

}  // namespace vernier
