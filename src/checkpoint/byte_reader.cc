#include "checkpoint/byte_reader.h"

#include <fmt/format.h>

namespace vernier {

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string out;
  for (char character : name.substr(0, kLongest)) {
    auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += character;
    }
  }
  if (name.size() > kLongest) out += "...";
  return out;
}

}  // namespace vernier
