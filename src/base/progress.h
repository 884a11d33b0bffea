#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/clock.h"

namespace vernier {

enum class ProgressUnit : uint8_t { kCount, kBytes };

/// A bar for work of known length, drawn over itself on a terminal: "loading  [####....]  45 %  61 of 135 MB  2.1 s".
/// Work that is over within 300 ms draws nothing; on a stream that is no terminal only `finish` writes, one line. One
/// thread; the stream outlives it. An unfinished bar is wiped when it is destroyed.
class Progress {
 public:
  Progress(std::string label, int64_t total, ProgressUnit unit, std::FILE* stream = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(int64_t done);
  void add(int64_t amount) { set(done_ + amount); }
  /// Ends the bar with one line saying how long it took, if it was long enough to be worth one.
  void finish();

  /// The bar as drawn after this long; no control characters.
  std::string line(int64_t elapsed_ns) const;

 private:
  void wipe();

  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  ProgressUnit unit_;
  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  bool finished_ = false;
  int64_t last_drawn_ns_ = 0;
  Stopwatch watch_;
};

/// "512 B", "4.2 KB", "135 MB", "1.35 GB": powers of 1000.
std::string format_bytes(int64_t bytes);

}  // namespace vernier
