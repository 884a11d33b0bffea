#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"
#include "vernier/vernier.h"

namespace vernier {

/// A text of the C API: null is empty; size 0: up to its NUL.
inline std::string_view c_text(const char* text, size_t size = 0) {
  if (text == nullptr) return {};
  return size > 0 ? std::string_view(text, size) : std::string_view(text);
}

/// A struct that begins with its own size, from a header of this version or an older one, over `defaults`.
template <class Struct>
Result<Struct> c_struct(const Struct* given, const Struct& defaults, std::string_view name) {
  if (given == nullptr) return defaults;
  if (given->struct_size < sizeof(size_t) || given->struct_size > sizeof(Struct)) {
    return invalid_argument("{}.struct_size is {}, expected sizeof({}), which is {} in this library", name,
                            given->struct_size, name, sizeof(Struct));
  }
  Struct own = defaults;
  std::memcpy(&own, given, given->struct_size);
  own.struct_size = sizeof(Struct);
  return own;
}

}  // namespace vernier
