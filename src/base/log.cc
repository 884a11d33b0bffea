#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "base/log_sink.h"

namespace vernier {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};
std::atomic<LogLevel> current_level{LogLevel::kWarning};

struct SinkPlace {
  std::mutex mutex;
  LogSink sink;
};
/// Never destroyed: threads may log to the very end.
SinkPlace& sink_place() {
  static auto* const place = new SinkPlace;
  return *place;
}

}  // namespace

std::string_view name(LogLevel level) {
  return kNames[static_cast<size_t>(level)];
}

std::optional<LogLevel> parse_log_level(std::string_view text) {
  if (text == "warn") return LogLevel::kWarning;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void set_log_level(LogLevel level) {
  current_level.store(level, std::memory_order_relaxed);
}
LogLevel log_level() {
  return current_level.load(std::memory_order_relaxed);
}

void set_log_sink(LogSink sink) {
  SinkPlace& place = sink_place();
  std::lock_guard lock(place.mutex);
  std::swap(place.sink, sink);
}

void log_line(LogLevel level, std::string_view message) {
  SinkPlace& place = sink_place();
  {
    std::lock_guard lock(place.mutex);
    if (place.sink) return place.sink(level, message);
  }
  std::string line = fmt::format("{}: {}\n", name(level), message);
  // Nothing can be done about a standard error that does not take the line.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace vernier
