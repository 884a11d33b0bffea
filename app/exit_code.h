#pragma once

#include "base/result.h"

namespace vernier {

/// What the program's exit codes mean; `vernier --help` and docs/user-guide.md list them.
enum class ExitCode : int {
  kSuccess = 0,
  kFailed = 1,       ///< a device or system call failed, or a comparison did not hold
  kUsage = 2,        ///< a flag, argument or configuration key to change
  kNotFound = 3,     ///< a file or model that is not there
  kCorrupt = 4,      ///< a file that breaks its own format
  kUnsupported = 5,  ///< understood, and not built yet or not possible here
  kDoesNotFit = 6,   ///< more memory needed than there is
};

constexpr ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kUsage;
    case ErrorCode::kNotFound:
      return ExitCode::kNotFound;
    case ErrorCode::kCorrupt:
      return ExitCode::kCorrupt;
    case ErrorCode::kUnsupported:
      return ExitCode::kUnsupported;
    case ErrorCode::kOutOfMemory:
      return ExitCode::kDoesNotFit;
    case ErrorCode::kOverloaded:
    case ErrorCode::kTimeout:
    case ErrorCode::kUnavailable:
    case ErrorCode::kInternal:
      return ExitCode::kFailed;
  }
  return ExitCode::kFailed;
}

}  // namespace vernier
