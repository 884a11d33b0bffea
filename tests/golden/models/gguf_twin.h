#pragma once

#include <string>

#include "base/result.h"

namespace vernier::testing {

/// Writes a Hugging Face checkpoint of this repository's test data as a GGUF file at `path`: the names, metadata,
/// stacks of experts, row orders and folded norms that converters write, all numbers as float32.
Status write_gguf_twin(const std::string& folder, const std::string& path);

}  // namespace vernier::testing
