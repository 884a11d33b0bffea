#pragma once

namespace vernier::testing {

/// Whether this build is sanitised: ten times slower, and its shadow takes memory that is no cost of ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace vernier::testing
