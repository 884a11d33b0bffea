#pragma once

#include <optional>
#include <string_view>

namespace vernier {

/// What to say to a well-known flag of llama.cpp, vLLM, SGLang or TensorRT-LLM that has no counterpart to be an alias
/// of: why it is not needed here, what is used instead, or that it is not built.
std::optional<std::string_view> foreign_flag_advice(std::string_view flag);

}  // namespace vernier
