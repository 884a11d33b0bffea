#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace vernier {

/// What kind of failure an Error is; decides exit codes and, in the server, status codes.
enum class ErrorCode {
  kInvalidArgument,  ///< a flag, field or option the caller can change
  kNotFound,         ///< a file, model or name that is not there
  kCorrupt,          ///< a file that breaks its own format
  kUnsupported,      ///< understood, and not built yet or not possible here
  kOutOfMemory,      ///< does not fit; the message says by how much
  kOverloaded,       ///< the queue is full; try again in a while
  kTimeout,          ///< a deadline passed
  kUnavailable,      ///< not now: loading, shutting down
  kInternal,         ///< a device or system call failed
};

/// An expected failure. The message names what was found, what was expected and what to do.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string where;  ///< file, tensor, flag or JSON pointer it concerns; may be empty

  /// "where: message", or the message alone.
  std::string to_string() const { return where.empty() ? message : where + ": " + message; }
};

template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

template <class... Args>
Error invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <class... Args>
Error not_found(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kNotFound, format, std::forward<Args>(args)...);
}
template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
}
template <class... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}

/// A value or an Error. Ignoring one does not compile; reading the absent half is a programmer's error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), "value() of a failed Result: {}", error().to_string());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), "value() of a failed Result: {}", error().to_string());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), "value() of a failed Result: {}", error().to_string());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value: `return {};`.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace vernier

#define VERNIER_CONCAT_INNER(a, b) a##b
#define VERNIER_CONCAT(a, b) VERNIER_CONCAT_INNER(a, b)

/// TRY(expression): returns its Error from the enclosing function. TRY(auto x, expression): the same, and binds the
/// value.
#define TRY_STATUS(expression)                                \
  do {                                                        \
    if (auto try_result = (expression); !try_result.ok()) {   \
      return ::vernier::Error(std::move(try_result).error()); \
    }                                                         \
  } while (false)
#define TRY_BIND(declaration, expression) TRY_BIND_NAMED(VERNIER_CONCAT(try_result_, __LINE__), declaration, expression)
#define TRY_BIND_NAMED(name, declaration, ...)        \
  auto name = (__VA_ARGS__);                          \
  if (!name.ok()) {                                   \
    return ::vernier::Error(std::move(name).error()); \
  }                                                   \
  declaration = std::move(name).value()
