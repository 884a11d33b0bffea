#pragma once

#include <fmt/format.h>

#include <string>

namespace vernier {

/// Prints the failed condition with its place and message on standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace vernier

/// A programmer's error: no request, file or configuration can reach one. CHECK(condition, "format", values...).
#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      ::vernier::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                         \
  } while (false)
