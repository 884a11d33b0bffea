#pragma once

#include <cstring>
#include <string_view>

#include "text/jinja_value.h"

namespace vernier::jinja {

/// text.find(wanted, from) in linear time whatever the texts hold.
inline size_t find_bytes(std::string_view text, std::string_view wanted, size_t from = 0) {
  if (from > text.size() || wanted.size() > text.size() - from) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

/// text.rfind(wanted); pays steps for the work, which can be in proportion to both sizes.
inline size_t find_last_bytes(Heap& heap, std::string_view text, std::string_view wanted) {
  const size_t compared = 1 + wanted.size() / 8;
  if (wanted.size() > 64) heap.spend(text.size() / 64 * compared);
  const size_t found = text.rfind(wanted);
  if (wanted.size() <= 64) heap.spend((text.size() - (found == std::string_view::npos ? 0 : found)) / 64 * compared);
  return found;
}

}  // namespace vernier::jinja
