#include "text/civil_time.h"

#include <chrono>
#include <cstdio>
#include <ctime>

namespace vernier {
namespace {

std::tm broken_down(const CivilTime& time) {
  std::tm tm{};
  tm.tm_year = time.year - 1900;
  tm.tm_mon = time.month - 1;
  tm.tm_mday = time.day;
  tm.tm_hour = time.hour;
  tm.tm_min = time.minute;
  tm.tm_sec = time.second;
  std::tm full = tm;
  timegm(&full);  // fills the days of the week and of the year
  tm.tm_wday = full.tm_wday;
  tm.tm_yday = full.tm_yday;
  return tm;
}

}  // namespace

CivilTime CivilTime::local_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(microseconds / 1'000'000);
  std::tm tm{};
  localtime_r(&seconds, &tm);
  return {tm.tm_year + 1900,
          tm.tm_mon + 1,
          tm.tm_mday,
          tm.tm_hour,
          tm.tm_min,
          tm.tm_sec,
          static_cast<int>(microseconds % 1'000'000)};
}

Result<CivilTime> CivilTime::parse(std::string_view text) {
  CivilTime time;
  char separator = 'T';
  char fraction[8] = "";
  int used = 0;
  const std::string owned(text);
  int fields = std::sscanf(owned.c_str(), "%4d-%2d-%2d%n%c%2d:%2d%n", &time.year, &time.month, &time.day, &used,
                           &separator, &time.hour, &time.minute, &used);
  if (fields == 6) {
    int more = 0;
    if (std::sscanf(owned.c_str() + used, ":%2d%n.%6[0-9]%n", &time.second, &more, fraction, &more) >= 1) used += more;
    for (int i = 0, scale = 100'000; fraction[i] != 0; ++i, scale /= 10)
      time.microsecond += (fraction[i] - '0') * scale;
  }
  const bool complete = (fields == 3 || fields == 6) && static_cast<size_t>(used) == owned.size();
  const bool in_range = time.year >= 1 && time.month >= 1 && time.month <= 12 && time.day >= 1 && time.day <= 31 &&
                        time.hour >= 0 && time.hour < 24 && time.minute >= 0 && time.minute < 60 && time.second >= 0 &&
                        time.second < 60 && (separator == 'T' || separator == ' ');
  if (!complete || !in_range) {
    return invalid_argument("found the time '{}', expected YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS", text);
  }
  return time;
}

std::string CivilTime::format(const std::string& format) const {
  std::string expanded;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = i + 1 < format.size() ? format[i + 1] : 0;
    if (format[i] != '%' || next == 0) {
      expanded.push_back(format[i]);
      continue;
    }
    ++i;
    if (next == 'f') {
      expanded += fmt::format("{:06}", microsecond);
    } else if (next != 'z' && next != 'Z') {
      expanded += {'%', next};
    }
  }
  if (expanded.empty()) return expanded;
  const std::tm tm = broken_down(*this);
  // A sentinel tells an empty result from a buffer that is too small.
  expanded.push_back('.');
  std::string buffer(expanded.size() * 4 + 64, '\0');
  // A directive may ask for any width, so the size is bounded.
  while (buffer.size() < (16U << 20) + expanded.size() * 8) {
    const size_t size = std::strftime(buffer.data(), buffer.size(), expanded.c_str(), &tm);
    if (size > 0) return buffer.substr(0, size - 1);
    buffer.resize(buffer.size() * 4);
  }
  return {};
}

}  // namespace vernier
