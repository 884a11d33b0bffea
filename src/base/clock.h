#pragma once

#include <cstdint>
#include <string>

namespace vernier {

/// Nanoseconds of a clock that never goes back; only differences mean anything.
int64_t monotonic_ns();

/// Time since it was made, or since `restart`.
class Stopwatch {
 public:
  Stopwatch() : start_ns_(monotonic_ns()) {}
  void restart() { start_ns_ = monotonic_ns(); }
  int64_t elapsed_ns() const { return monotonic_ns() - start_ns_; }
  double elapsed_seconds() const { return static_cast<double>(elapsed_ns()) * 1e-9; }

 private:
  int64_t start_ns_;
};

/// "850 us", "12 ms", "3.4 s", "2 min 05 s".
std::string format_duration(int64_t ns);

}  // namespace vernier
