#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace vernier {

/// SHA-256 of some bytes: the address of whatever is named by its content.
struct ContentHash {
  std::array<uint8_t, 32> bytes{};

  std::string to_hex() const;         ///< 64 digits
  uint64_t word(size_t index) const;  ///< of its four, big-endian
  bool operator==(const ContentHash&) const = default;
};

ContentHash content_hash(std::string_view bytes);

/// Whether a text is what to_hex gives.
bool is_hash_text(std::string_view text);

}  // namespace vernier
