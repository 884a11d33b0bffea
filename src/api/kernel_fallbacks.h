#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/loaded_encoder.h"
#include "api/loaded_model.h"
#include "base/result.h"

namespace vernier {

/// Weights or layers of one op that run on another kernel than the fastest for it, for one reason.
struct KernelFallback {
  std::string op;          ///< "linear", "attend"
  std::string phase;       ///< "decode", "prefill"
  std::string kernel;      ///< taken
  std::string instead_of;  ///< the one it would have been
  std::string reason;      ///< a stable code: "shape"
  std::string detail;      ///< the values that decided the first of them
  int64_t count = 0;

  /// "linear (decode): float_stream_avx2 in place of fp8_stream_avx2 for 30 weights: shape, scales of 6 columns"
  std::string to_string() const;
};

/// What `explain` shows, counted: choices that stand in for another (tune/fallback.h). No fallback is another level
/// of instructions, a kernel made for another codec or number of rows, or less exact numerics than were asked for.
std::vector<KernelFallback> kernel_fallbacks(const LoadedModel& model, const std::vector<CacheSpec>& caches);
std::vector<KernelFallback> kernel_fallbacks(const LoadedEncoder& model);

/// What to do about a fallback.
enum class OnFallback : uint8_t { kError, kWarn, kAllow };

/// An answer for each kind of op.
class FallbackRules {
 public:
  /// "warn", or "linear=error,attend=allow", where what is not named is warned of.
  static Result<FallbackRules> parse(std::string_view option, std::string_view text);

  OnFallback of(std::string_view op) const;
  /// One line of log for each fallback that is warned of; an error that names all that are refused.
  Status apply(std::span<const KernelFallback> fallbacks) const;

 private:
  OnFallback all_ = OnFallback::kWarn;
  std::map<std::string, OnFallback, std::less<>> by_op_;
};

}  // namespace vernier
