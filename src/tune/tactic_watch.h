#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "tune/stored_tactics.h"
#include "tune/tactic.h"

namespace vernier {

/// A tactic in use: one launch in so many is timed, beside what its record says. Off the record's word is a problem
/// whose samples' median is beyond the record's by a quarter and by four times its spread. One thread launches; any may
/// ask for `slower`.
class TacticWatch {
 public:
  static constexpr int kSamples = 32;  ///< of one verdict

  /// `on_slower` is called once, by the thread that launches.
  TacticWatch(const TacticTime& recorded, int64_t every, std::function<void(const SlowerInUse&)> on_slower);

  /// Whether this launch is to be timed.
  bool is_due() noexcept { return ++launches_ % every_ == 0; }
  void note(int64_t ns);
  bool slower() const { return slower_.load(std::memory_order_relaxed); }

 private:
  const double most_ns_;
  const int64_t every_;
  const std::function<void(const SlowerInUse&)> on_slower_;
  int64_t launches_ = 0;
  int64_t noted_ = 0;
  std::array<int64_t, kSamples> samples_{};
  std::atomic<bool> slower_{false};
};

}  // namespace vernier
