#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

#include "vernier/vernier.h"

/// The C++ API is written over the C API and lives in the program that includes it: nothing of C++ crosses the border
/// of the library, so that any compiler and standard library of C++17 or later will do. Names are in an inline
/// namespace, apart from those inside the library.
namespace vernier {
inline namespace api {

/// What kind of failure an Error is; the values of vernier_status.
enum class ErrorCode {
  kInvalidArgument = VERNIER_INVALID_ARGUMENT,
  kNotFound = VERNIER_NOT_FOUND,
  kCorrupt = VERNIER_CORRUPT,
  kUnsupported = VERNIER_UNSUPPORTED,
  kOutOfMemory = VERNIER_OUT_OF_MEMORY,
  kOverloaded = VERNIER_OVERLOADED,
  kTimeout = VERNIER_TIMEOUT,
  kUnavailable = VERNIER_UNAVAILABLE,
  kInternal = VERNIER_INTERNAL,
};

/// A failure. The message says what was found, what was expected and what to do.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  /// Of the last call on this thread, which returned `status`.
  static Error last(vernier_status status) { return {static_cast<ErrorCode>(status), vernier_last_error()}; }
};

/// A value or an Error. Asking for the half that is absent ends the program with the error's message: look at ok()
/// first.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() { return *get<0>("holds no value: ", ok() ? "" : error().message); }
  const T& value() const { return const_cast<Result*>(this)->value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return *const_cast<Result*>(this)->template get<1>("holds no error", ""); }

 private:
  template <size_t kIndex>
  auto* get(const char* what, const std::string& why) {
    auto* half = std::get_if<kIndex>(&state_);
    if (half == nullptr) {
      std::fprintf(stderr, "vernier::Result %s%s\n", what, why.c_str());
      std::abort();
    }
    return half;
  }

  std::variant<T, Error> state_;
};

}  // namespace api
}  // namespace vernier
