#include "tune/tactic_watch.h"

#include <algorithm>
#include <utility>

namespace vernier {
namespace {

/// What a machine that does other things, too, may take more without a word.
constexpr double kMostShare = 0.25;
constexpr double kMostSpreads = 4;

}  // namespace

TacticWatch::TacticWatch(const TacticTime& recorded, int64_t every, std::function<void(const SlowerInUse&)> on_slower)
    : most_ns_(recorded.median_ns + std::max(kMostShare * recorded.median_ns, kMostSpreads * recorded.spread_ns)),
      every_(every),
      on_slower_(std::move(on_slower)) {}

void TacticWatch::note(int64_t ns) {
  samples_[static_cast<size_t>(noted_ % kSamples)] = ns;
  if (++noted_ % kSamples != 0 || slower()) return;
  std::array<int64_t, kSamples> sorted = samples_;
  const auto middle = sorted.begin() + kSamples / 2;
  std::ranges::nth_element(sorted, middle);
  if (static_cast<double>(*middle) <= most_ns_) return;
  slower_.store(true, std::memory_order_relaxed);
  on_slower_({static_cast<double>(*middle), kSamples, calendar_ns() / 1'000'000});
}

}  // namespace vernier
