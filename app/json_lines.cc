#include "app/json_lines.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace vernier {

using nlohmann::json;
using nlohmann::ordered_json;

bool answer_json_lines(std::istream& in, std::ostream& out, std::string_view example,
                       const std::function<Result<ordered_json>(const json&)>& answer) {
  bool good = true;
  std::string line;
  for (size_t number = 1; out && std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    Result<ordered_json> result =
        request.is_object()
            ? answer(request)
            : invalid_argument("line {} is not a JSON object; expected one such as {}", number, example);
    if (!result.ok()) good = false;
    const ordered_json reply = result.ok() ? *result : ordered_json{{"error", result.error().to_string()}};
    out << reply.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
    // Whoever writes line by line waits for each answer.
    if (in.rdbuf()->in_avail() <= 0) out.flush();
  }
  out.flush();
  return good;
}

Result<bool> json_flag(const json& line, const char* key, bool otherwise) {
  const auto found = line.find(key);
  if (found == line.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) return invalid_argument("'{}' is neither true nor false", key);
  return found->get<bool>();
}

Result<std::string> read_hex(const std::string& digits) {
  auto value = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (digits.size() % 2 != 0) return invalid_argument("'hex' has an odd number of digits");
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = value(digits[i]);
    const int low = value(digits[i + 1]);
    if (high < 0 || low < 0) return invalid_argument("'hex' holds a character that is not hexadecimal");
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

}  // namespace vernier
