#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace vernier {
namespace {

constexpr int64_t kQuietNs = 300'000'000;
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarWidth = 24;

std::string amount(int64_t value, ProgressUnit unit) {
  return unit == ProgressUnit::kBytes ? format_bytes(value) : std::to_string(value);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"KB", "MB", "GB", "TB", "PB"};
  const double size = std::abs(static_cast<double>(bytes));
  if (size < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

Progress::Progress(std::string label, int64_t total, ProgressUnit unit, std::FILE* stream)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      stream_(stream),
      terminal_(::isatty(::fileno(stream)) == 1) {}

Progress::~Progress() {
  if (!finished_) wipe();
}

std::string Progress::line(int64_t elapsed_ns) const {
  const double fraction =
      total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 1.0;
  const int filled = static_cast<int>(fraction * kBarWidth);
  return fmt::format("{}  [{}{}]  {:3.0f} %  {} of {}  {}", label_, std::string(filled, '#'),
                     std::string(kBarWidth - filled, '.'), std::floor(fraction * 100), amount(done_, unit_),
                     amount(total_, unit_), format_duration(elapsed_ns));
}

void Progress::set(int64_t done) {
  done_ = done;
  if (!terminal_ || finished_) return;
  const int64_t now_ns = watch_.elapsed_ns();
  if (now_ns < kQuietNs || now_ns - last_drawn_ns_ < kRedrawNs) return;
  last_drawn_ns_ = now_ns;
  drawn_ = true;
  fmt::print(stream_, "\r{}\033[K", line(now_ns));
  std::fflush(stream_);
}

void Progress::wipe() {
  if (!drawn_) return;
  fmt::print(stream_, "\r\033[K");
  std::fflush(stream_);
  drawn_ = false;
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  wipe();
  const int64_t elapsed_ns = watch_.elapsed_ns();
  if (elapsed_ns < kQuietNs) return;
  fmt::print(stream_, "{}: {} in {}\n", label_, amount(done_, unit_), format_duration(elapsed_ns));
  std::fflush(stream_);
}

}  // namespace vernier
