#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/result.h"
#include "vernier/vernier.h"

namespace vernier {

vernier_status c_status(ErrorCode code);
/// One line for a caller: where it is, unless the message says so itself.
std::string c_message(const Error& error);

/// Keeps the message for vernier_last_error of this thread.
vernier_status c_failure(const Error& error);
/// The same where no memory may be left.
vernier_status c_failure_without_memory();
const char* last_c_message();

/// Runs the body of a C function: its Status becomes a status, and nothing is thrown out of it.
template <class Body>
vernier_status c_call(Body body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? VERNIER_OK : c_failure(status.error());
  } catch (const std::bad_alloc&) {
    return c_failure_without_memory();
  } catch (const std::exception& error) {
    return c_failure(make_error(ErrorCode::kInternal, "unexpected: {}", error.what()));
  } catch (...) {
    return c_failure(make_error(ErrorCode::kInternal, "a callback threw"));
  }
}

}  // namespace vernier
