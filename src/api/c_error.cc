#include "api/c_error.h"

namespace vernier {
namespace {

constexpr const char* kNoMemory = "no memory is left";

thread_local std::string last_message;
thread_local bool ran_out = false;

}  // namespace

vernier_status c_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return VERNIER_INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return VERNIER_NOT_FOUND;
    case ErrorCode::kCorrupt:
      return VERNIER_CORRUPT;
    case ErrorCode::kUnsupported:
      return VERNIER_UNSUPPORTED;
    case ErrorCode::kOutOfMemory:
      return VERNIER_OUT_OF_MEMORY;
    case ErrorCode::kOverloaded:
      return VERNIER_OVERLOADED;
    case ErrorCode::kTimeout:
      return VERNIER_TIMEOUT;
    case ErrorCode::kUnavailable:
      return VERNIER_UNAVAILABLE;
    case ErrorCode::kInternal:
      return VERNIER_INTERNAL;
  }
  return VERNIER_INTERNAL;
}

std::string c_message(const Error& error) {
  return error.message.find(error.where) != std::string::npos ? error.message : error.to_string();
}

vernier_status c_failure(const Error& error) {
  last_message = c_message(error);
  ran_out = false;
  return c_status(error.code);
}

vernier_status c_failure_without_memory() {
  ran_out = true;
  return VERNIER_OUT_OF_MEMORY;
}

const char* last_c_message() {
  return ran_out ? kNoMemory : last_message.c_str();
}

}  // namespace vernier
