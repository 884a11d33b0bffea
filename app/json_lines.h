#pragma once

#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// Answers each JSON line of `in` with one JSON line on `out`, in order. A line that is not JSON, or that `answer`
/// refuses, is answered with {"error": message}; an empty line is passed over. `example` is a line
/// that would be understood. False if any line was refused.
bool answer_json_lines(std::istream& in, std::ostream& out, std::string_view example,
                       const std::function<Result<nlohmann::ordered_json>(const nlohmann::json&)>& answer);

/// The member, `otherwise` where it is absent or null; another type is refused by name.
Result<bool> json_flag(const nlohmann::json& line, const char* key, bool otherwise);

/// The bytes that hexadecimal digits spell.
Result<std::string> read_hex(const std::string& digits);

}  // namespace vernier
