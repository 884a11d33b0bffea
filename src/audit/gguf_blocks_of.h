#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "checkpoint/gguf_types.h"
#include "tensor/qtensor.h"

namespace vernier {

/// GGUF's name of the type that holds a codec's numbers exactly; empty where it has none.
std::string_view gguf_type_of(const Codec& codec);
/// Null where there is no such type.
const GgmlType* ggml_type_named(std::string_view name);
/// A matrix as GGUF's blocks. MXFP4's and NVFP4's codes and scales change places and stay the same; NVFP4's global
/// scale is a tensor of its own.
std::vector<std::byte> gguf_blocks_of(const QTensor& matrix);

}  // namespace vernier
