#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace vernier {

/// A date and a time of day without a zone, as a clock on the wall shows them.
struct CivilTime {
  int year = 1970, month = 1, day = 1;
  int hour = 0, minute = 0, second = 0, microsecond = 0;

  /// The clock of this machine in its zone.
  static CivilTime local_now();
  /// "2025-07-09", "2025-07-09T14:05" or "2025-07-09 14:05:06.5".
  static Result<CivilTime> parse(std::string_view text);
  /// strftime in the C locale, with %f for microseconds; %z and %Z are empty.
  std::string format(const std::string& format) const;
};

}  // namespace vernier
