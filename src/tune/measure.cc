#include "tune/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/random.h"

namespace vernier {
namespace {

/// So much slower in each of so few rounds, and no more time is spent on it.
constexpr int64_t kHopelessRounds = 5;
constexpr double kHopeless = 1.25;
/// What a problem has at least, whatever the budget.
constexpr int64_t kFirstRounds = 3;
/// After so many rounds it is asked again whether all is clear: asking after each would find in the noise what it looks
/// for.
constexpr int64_t next_look(int64_t round) {
  return round + round / 2;
}
/// Of a normal distribution, the distance between the quartiles over its standard deviation, and the error of a median
/// over that of a mean.
constexpr double kQuartiles = 1.349;
constexpr double kMedianError = 1.2533;
constexpr double kDoubt = 12;
/// How many standard errors are sure: of who is dropped, again and again asked, and of a tie, which is asked for once.
constexpr double kClearErrors = 3.5;
constexpr double kTieErrors = 2.5;
/// Of the most that a tie may take, what is no lead.
constexpr double kNoLead = 0.25;
/// A machine's mood lasts for many rounds: parts of them, one after the other, tell what one round after another hides.
constexpr size_t kParts = 8;
constexpr size_t kLeastPart = 4;  ///< rounds

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

/// Of the median of values that do not hang together. What few of them tell of their own spread is doubtful, too.
double median_error(double quartiles, size_t count) {
  const auto values = static_cast<double>(count);
  return kMedianError * quartiles / kQuartiles / std::sqrt(values) * (1 + kDoubt / values);
}

/// Of the median of values in the order of time, by how medians of parts of them differ.
double error_by_parts(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = values.size() * part / kParts, end = values.size() * (part + 1) / kParts;
    const double median =
        spread_of({values.begin() + static_cast<ptrdiff_t>(begin), values.begin() + static_cast<ptrdiff_t>(end)})
            .median;
    sum += median;
    squares += median * median;
  }
  constexpr auto kCount = static_cast<double>(kParts);
  const double variance = std::max(0.0, (squares - sum * sum / kCount) / (kCount - 1));
  return std::sqrt(variance / kCount);
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
  double ratio = 1;     ///< of its time to the leader's
  double error = 0;     ///< of that, one standard error
  bool in_each = true;  ///< it was slower in each round
};

Gap gap_of(const Racer& racer, const Racer& leader) {
  const size_t rounds = std::min(racer.times.size(), leader.times.size());
  std::vector<double> ratios;
  Gap gap;
  for (size_t i = 0; i < rounds; ++i) {
    ratios.push_back(racer.times[i] / leader.times[i]);
    gap.in_each = gap.in_each && ratios.back() > 1;
  }
  const Spread spread = spread_of(ratios);
  gap.ratio = spread.median;
  gap.error = median_error(spread.quartiles, rounds);
  if (rounds >= kParts * kLeastPart) gap.error = std::max(gap.error, error_by_parts(ratios));
  return gap;
}

class Race {
 public:
  Race(const std::vector<Contender>& contenders, const MeasureRules& rules) : rules_(rules) {
    for (const Contender& contender : contenders) racers_.push_back({&contender, {}});
  }

  Result<Measured> run() {
    for (Racer& racer : racers_) check(racer);
    if (live() == 0) return nobody();
    const int64_t start_ns = rules_.now_ns();
    int64_t look = rules_.least_rounds;
    for (int64_t round = 1; round <= rules_.most_rounds; ++round) {
      run_round(round);
      if (live() == 0) return nobody();
      if (round == kHopelessRounds) drop_hopeless();
      const int64_t passed_ns = rules_.now_ns() - start_ns;
      if (round >= look && passed_ns >= rules_.least_ns) {
        drop_slower();
        look = next_look(round);
        if (is_decided()) break;
      }
      if (live() == 1 && round >= rules_.least_rounds) break;
      if (round >= kFirstRounds && passed_ns >= rules_.budget_ns) break;
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

  /// Each once, in another order each time: none runs after the same one always.
  void run_round(int64_t round) {
    std::vector<std::pair<uint64_t, Racer*>> order;
    for (Racer& racer : racers_) {
      if (racer.live) order.emplace_back(fmix64(static_cast<uint64_t>(round << 20) + order.size()), &racer);
    }
    std::ranges::sort(order);
    for (const auto& [place, racer] : order) {
      const Result<double> time = racer->contender->run();
      if (!time.ok()) {
        refuse(*racer, time.error());
      } else {
        racer->times.push_back(std::max(*time, 1e-3));
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

  void drop_hopeless() {
    const Racer& first = leader();
    for (Racer& racer : racers_) {
      if (!racer.live || &racer == &first) continue;
      const Gap gap = gap_of(racer, first);
      racer.live = gap.ratio <= kHopeless || !gap.in_each;
    }
  }

  void drop_slower() {
    const Racer& first = leader();
    for (Racer& racer : racers_) {
      if (racer.live && &racer != &first) racer.live = !is_clear(gap_of(racer, first));
    }
  }

  bool is_clear(const Gap& gap) const { return gap.ratio - kClearErrors * gap.error > 1 + kNoLead * rules_.most_tie; }

  bool is_tied(const Racer& racer, const Racer& first) const {
    if (&racer == &first) return true;
    if (!racer.live || std::ssize(racer.times) < rules_.least_rounds) return false;
    const Gap gap = gap_of(racer, first);
    return gap.ratio + kTieErrors * gap.error <= 1 + rules_.most_tie;
  }

  /// Those who are left are surely as good as each other.
  bool is_decided() const {
    const Racer& first = leader();
    return std::ranges::all_of(racers_, [&](const Racer& racer) { return !racer.live || is_tied(racer, first); });
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
      if (is_tied(racer, first)) leaders.push_back(&racer);
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
        const Gap gap = gap_of(racer, taken);
        tried.verdict = tied ? "tie" : is_clear(gap) ? "slower" : "unclear";
        tried.detail = fmt::format("{:+.1f} % +- {:.1f} %", 100 * (gap.ratio - 1), 100 * kTieErrors * gap.error);
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
