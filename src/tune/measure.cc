#include "tune/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vernier {
namespace {

/// So much slower after so few rounds, and no more time is spent on it.
constexpr int64_t kHopelessRounds = 3;
constexpr double kHopeless = 1.25;
/// Of a normal distribution, the distance between the quartiles over its standard deviation, and the error of a median
/// over that of a mean.
constexpr double kQuartiles = 1.349;
constexpr double kMedianError = 1.2533;
/// How many standard errors ahead is clearly ahead; and the least share of the rounds that it was ahead in.
constexpr double kClearErrors = 4;
constexpr double kClearShare = 0.9;
/// A leader's rival may be slower by this many times the least lead and still count as tied when time is up.
constexpr double kTieMargin = 2;

double quantile(std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

struct Spread {
  double median = 0;
  double quartiles = 0;  // between them
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {quantile(values, 0.5), quantile(values, 0.75) - quantile(values, 0.25)};
}

struct Racer {
  const Contender* contender = nullptr;
  std::vector<double> times;  // of each round that it ran in
  bool live = true;
  std::string verdict = {};  // of those that are not timed to the end
  std::string detail = {};

  double median() const { return spread_of(times).median; }
};

/// A racer beside the leader, of the rounds that both ran in.
struct Gap {
  double ratio = 1;  ///< of its time to the leader's
  double error = 0;  ///< standard error of it
  double share = 0;  ///< of the rounds in which it was slower
  int64_t rounds = 0;
};

Gap gap_of(const Racer& racer, const Racer& leader) {
  const size_t rounds = std::min(racer.times.size(), leader.times.size());
  std::vector<double> ratios;
  double slower = 0;
  for (size_t i = 0; i < rounds; ++i) {
    ratios.push_back(racer.times[i] / leader.times[i]);
    slower += ratios.back() > 1 ? 1 : 0;
  }
  const Spread spread = spread_of(ratios);
  const auto count = static_cast<double>(rounds);
  return {spread.median, kMedianError * spread.quartiles / kQuartiles / std::sqrt(count), slower / count,
          static_cast<int64_t>(rounds)};
}

class Race {
 public:
  Race(const std::vector<Contender>& contenders, const MeasureRules& rules) : rules_(rules) {
    for (const Contender& contender : contenders) racers_.push_back({&contender, {}});
  }

  Result<Measured> run() {
    for (Racer& racer : racers_) check(racer);
    if (live() == 0) return nobody();
    const int64_t end_ns = rules_.now_ns() + rules_.budget_ns;
    for (int64_t round = 1; round <= rules_.most_rounds; ++round) {
      run_round(round);
      if (live() == 0) return nobody();
      drop_slower(round);
      if (is_decided(round)) break;
      if (round >= kHopelessRounds && rules_.now_ns() >= end_ns) break;
    }
    return result();
  }

 private:
  int64_t live() const { return std::ranges::count(racers_, true, &Racer::live); }

  static void refuse(Racer& racer, const Error& error) {
    racer.live = false;
    racer.verdict = error.code == ErrorCode::kCorrupt       ? "wrong-result"
                    : error.code == ErrorCode::kOutOfMemory ? "out-of-memory"
                                                            : "failed";
    racer.detail = error.message;
    racer.times.clear();
  }

  void check(Racer& racer) const {
    if (racer.contender->needed_bytes > rules_.most_bytes) {
      return refuse(racer, make_error(ErrorCode::kOutOfMemory, "needs {} bytes; {} are allowed",
                                      racer.contender->needed_bytes, rules_.most_bytes));
    }
    if (const Status status = racer.contender->check(); !status.ok()) refuse(racer, status.error());
  }

  /// Each once, another one first each time.
  void run_round(int64_t round) {
    for (size_t i = 0; i < racers_.size(); ++i) {
      Racer& racer = racers_[(i + static_cast<size_t>(round)) % racers_.size()];
      if (!racer.live) continue;
      const Result<double> time = racer.contender->run();
      if (!time.ok()) {
        refuse(racer, time.error());
      } else {
        racer.times.push_back(std::max(*time, 1e-3));
      }
    }
  }

  const Racer& leader() const {
    const Racer* best = nullptr;
    for (const Racer& racer : racers_) {
      if (racer.live && (best == nullptr || racer.median() < best->median())) best = &racer;
    }
    return *best;
  }

  void drop_slower(int64_t round) {
    if (round < kHopelessRounds) return;
    const Racer& first = leader();
    for (Racer& racer : racers_) {
      if (!racer.live || &racer == &first) continue;
      const Gap gap = gap_of(racer, first);
      const bool hopeless = gap.ratio > kHopeless && gap.share == 1;
      if (hopeless || (round >= rules_.least_rounds && is_clear(gap))) racer.live = false;
    }
  }

  bool is_clear(const Gap& gap) const {
    return gap.ratio > 1 + rules_.least_lead && gap.ratio - kClearErrors * gap.error > 1 && gap.share >= kClearShare;
  }

  /// One is left, or those who are left are surely as good as each other.
  bool is_decided(int64_t round) const {
    if (live() == 1) return true;
    if (round < rules_.least_rounds) return false;
    const Racer& first = leader();
    return std::ranges::all_of(racers_, [&](const Racer& racer) {
      if (!racer.live || &racer == &first) return true;
      const Gap gap = gap_of(racer, first);
      return gap.ratio + kClearErrors * gap.error < 1 + rules_.least_lead;
    });
  }

  Error nobody() const {
    const Racer& first = racers_.front();
    return make_error(ErrorCode::kInternal, "none of {} candidates can be used; {}: {}, {}", racers_.size(),
                      first.contender->named.to_string(), first.verdict, first.detail);
  }

  static TacticTime time_of(const Racer& racer) {
    if (racer.times.empty()) return {};
    const Spread spread = spread_of(racer.times);
    return {spread.median, spread.quartiles, static_cast<int64_t>(racer.times.size())};
  }

  Result<Measured> result() const {
    const Racer& first = leader();
    std::vector<const Racer*> leaders;
    for (const Racer& racer : racers_) {
      if (racer.live && gap_of(racer, first).ratio <= 1 + kTieMargin * rules_.least_lead) leaders.push_back(&racer);
    }
    const Racer& taken =
        **std::ranges::min_element(leaders, {}, [](const Racer* racer) { return racer->contender->named.to_string(); });
    Measured measured;
    measured.chosen = taken.contender->named;
    measured.time = time_of(taken);
    measured.tie = leaders.size() > 1;
    for (const Racer& racer : racers_) {
      if (&racer == &taken) continue;
      TriedCandidate tried{racer.contender->named, racer.verdict, racer.detail, time_of(racer)};
      if (tried.verdict.empty()) {
        const bool tied = std::ranges::find(leaders, &racer) != leaders.end();
        const double ratio = gap_of(racer, taken).ratio;
        tried.verdict = tied ? "tie" : "slower";
        tried.detail = fmt::format("{:+.1f} %", 100 * (ratio - 1));
      }
      measured.others.push_back(std::move(tried));
    }
    // Those that were not timed come last.
    std::ranges::stable_sort(measured.others, {}, [](const TriedCandidate& tried) {
      return std::pair(tried.time.repeats == 0, tried.time.median_ns);
    });
    measured.first_ns = time_of(racers_.front()).median_ns;
    measured.first_is_chosen = &taken == &racers_.front();
    return measured;
  }

  const MeasureRules& rules_;
  std::vector<Racer> racers_;
};

}  // namespace

Result<Measured> measure(const std::vector<Contender>& contenders, const MeasureRules& rules) {
  CHECK(!contenders.empty(), "nothing to measure");
  return Race(contenders, rules).run();
}

}  // namespace vernier
