// Whether tuning chooses well: over many problems of the CPU's products, what `measure` takes beside the best that an
// exhaustive search of the same candidates finds, and beside the fixed choice.
//
//   tune_bench [--threads 2] [--isa avx2] [--codec q4_1]... [--seconds 2] [--rounds 25]
//
// Each problem is tuned as `vernier tune` does. Then every candidate that is right runs in every round of the search,
// and the least median is the best. Then tuned, best and fixed take turns, first the one and then the other in front:
// at least 15 rounds, more until the interval of the median of tuned / best is on one side of 1.02. Where the fixed
// choice then takes another time than it took while it was tuned, the machine is no longer the one that was measured,
// and all of the problem is done again. At 95 % some of a hundred are found slower by chance: what is not found good is
// tuned, searched and compared once more, and counts if it is not good again. Exits with 1 where a choice is shown to
// be slower than that, or none of the two could be shown, or the gain falls short.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backends/cpu/linear_tuner.h"
#include "base/clock.h"
#include "tensor/qtensor.h"

namespace vernier {
namespace {

constexpr double kMostSlower = 0.02;
constexpr double kLeastGain = 0.05;
constexpr int kLeastPairs = 15;
constexpr int kMostPairs = 15 << 7;
constexpr int64_t kMostPairsNs = 6'000'000'000;
/// The fixed choice takes so much more or less of its time: something else happens on this machine.
constexpr double kMoved = 0.1;
constexpr int kMostTries = 8;
constexpr int kProofs = 2;

struct BenchOptions {
  int threads = 2;
  std::string isa;
  std::vector<std::string> codecs;
  double seconds = 2;
  int rounds = 25;
};

struct BenchShape {
  int64_t rows, cols, batch;
};
/// A projection of a small model alone and in crowds, a long and a wide one, and one that a thread finishes alone.
constexpr BenchShape kShapes[] = {{192, 256, 1}, {960, 768, 1}, {960, 768, 16}, {1536, 512, 128}, {576, 1536, 512}};

struct Interval {
  double low = 0, middle = 0, high = 0;
};

/// Of a median, by the order of what was seen: between these lies it 95 times of 100, whatever the noise.
Interval median_interval(std::vector<double> seen) {
  std::ranges::sort(seen);
  const auto count = static_cast<double>(seen.size());
  // The binomial's quantile; at 15 the 4th and the 12th, which hold 96.5 %.
  const auto cut = static_cast<size_t>(std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2 - 0.3)));
  const size_t half = seen.size() / 2;
  const double middle = seen.size() % 2 == 1 ? seen[half] : (seen[half - 1] + seen[half]) / 2;
  return {seen[cut], middle, seen[seen.size() - 1 - cut]};
}

struct Row {
  std::string problem;
  size_t candidates = 0;
  std::string tuned;
  std::string best;
  bool tie = false;
  int64_t repeats = 0;
  double tune_ms = 0;
  double tuned_ns = 0;
  Interval beside_best{1, 1, 1};
  double gain = 1;  ///< of the tuned choice over the fixed one
  int pairs = 0;
  double fixed_then_ns = 0, fixed_ns = 0;  ///< while it was tuned; in the pairs
  int tries = 1;
  bool moved() const { return std::abs(fixed_ns / fixed_then_ns - 1) > kMoved; }
  std::string_view verdict() const {
    return beside_best.high <= 1 + kMostSlower ? "good" : beside_best.low > 1 + kMostSlower ? "SLOWER" : "unclear";
  }
};

double median_of(std::vector<double> seen) {
  return median_interval(std::move(seen)).middle;
}

/// Every candidate in every round: the place of the one with the least median.
Result<size_t> search(const std::vector<Contender>& all, int rounds, std::mt19937& random) {
  std::vector<size_t> order;
  std::vector<std::vector<double>> times(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].check().ok()) order.push_back(i);
  }
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      TRY_BIND(const double ns, all[i].run());
      times[i].push_back(ns);
    }
  }
  return *std::ranges::min_element(order, {}, [&](size_t i) { return median_of(times[i]); });
}

/// Tuned, best and fixed in turns.
Status compare(const Contender& tuned, const Contender& best, const Contender& fixed, Row& row) {
  std::vector<double> ratios, gains, times, fixed_times;
  const Stopwatch watch;
  for (int goal = kLeastPairs; goal <= kMostPairs; goal *= 2) {
    for (; row.pairs < goal; ++row.pairs) {
      const bool first = row.pairs % 2 == 0;
      TRY_BIND(const double before, (first ? tuned : best).run());
      TRY_BIND(const double after, (first ? best : tuned).run());
      TRY_BIND(const double fixed_ns, fixed.run());
      const double tuned_ns = first ? before : after;
      ratios.push_back(tuned_ns / (first ? after : before));
      gains.push_back(fixed_ns / tuned_ns);
      times.push_back(tuned_ns);
      fixed_times.push_back(fixed_ns);
    }
    row.beside_best = &tuned == &best ? Interval{1, 1, 1} : median_interval(ratios);
    if (row.verdict() != "unclear" || watch.elapsed_ns() > kMostPairsNs) break;
  }
  row.tuned_ns = median_of(times);
  row.fixed_ns = median_of(fixed_times);
  row.gain = &tuned == &fixed ? 1 : median_of(gains);
  return {};
}

Result<Row> try_problem(const BenchOptions& options, const std::vector<Contender>& all, const MeasureRules& rules) {
  std::mt19937 random(7);
  const Stopwatch watch;
  TRY_BIND(const Measured measured, measure(all, rules));
  Row row;
  row.tune_ms = static_cast<double>(watch.elapsed_ns()) * 1e-6;
  row.candidates = all.size();
  row.tie = measured.tie;
  row.repeats = measured.time.repeats;
  row.fixed_then_ns = measured.first_ns;
  TRY_BIND(const size_t best, search(all, options.rounds, random));
  const auto named = [](const Contender& one) { return one.named.to_string(); };
  const auto found = std::ranges::find(all, measured.chosen.to_string(), named);
  const Contender& tuned = *found;
  row.tuned = named(tuned);
  row.best = named(all[best]);
  TRY_STATUS(compare(tuned, all[best], all[0], row));
  return row;
}

Result<Row> bench_problem(const BenchOptions& options, const Codec& codec, const BenchShape& shape, Isa isa,
                          ThreadPool& pool) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.3f);
  std::vector<float> weights(static_cast<size_t>(shape.rows * shape.cols));
  for (float& weight : weights) weight = normal(random);
  TRY_BIND(const QTensor tensor, encode(codec, shape.rows, shape.cols, weights));
  TRY_BIND(std::shared_ptr<const CpuMatrix> matrix,
           pack_matrix({&tensor, 1}, PackUse::kLinear, isa, Numerics::kFast, pool));
  LinearTuner tuner(pool, *matrix, matrix->segments().front(), shape.batch);
  MeasureRules rules;
  rules.budget_ns = static_cast<int64_t>(options.seconds * 1e9);
  TRY_BIND(const std::vector<Contender> all, tuner.contenders(rules.most_bytes));
  Row row;
  int not_good = 0;
  for (int tries = 1; tries <= kMostTries; ++tries) {
    TRY_BIND(row, try_problem(options, all, rules));
    row.tries = tries;
    if (row.moved()) continue;
    if (row.verdict() == "good" || ++not_good == kProofs) break;
  }
  row.problem = fmt::format("{}x{} {}, {}", shape.rows, shape.cols, codec.name, shape.batch);
  return row;
}

void print_row(const Row& row) {
  fmt::print("{:<30} {:>3} {:>9.1f} {:>6.0f} {:>4}{:<4} {:>5} {:>6.3f} [{:.3f}, {:.3f}] {:>5} {:<8} {:>+7.1f}  {}{}\n",
             row.problem, row.candidates, row.tuned_ns * 1e-3, row.tune_ms, row.repeats, row.tie ? " tie" : "",
             row.tries, row.beside_best.middle, row.beside_best.low, row.beside_best.high, row.pairs, row.verdict(),
             100 * (row.gain - 1), row.tuned, row.tuned == row.best ? "" : "; best: " + row.best);
  std::fflush(stdout);
}

Result<bool> run(const BenchOptions& options) {
  TRY_BIND(const Isa isa, choose_isa(options.isa));
  ThreadPool pool(options.threads);
  fmt::print("{} threads, {}\n", options.threads, vernier::name(isa));
  fmt::print("{:<30} {:>3} {:>9} {:>6} {:>8} {:>5} {:>6} {:<14} {:>5} {:<8} {:>7}  {}\n", "problem, rows of a step",
             "of", "us", "ms", "repeats", "tries", "ratio", "95 % interval", "pairs", "verdict", "gain %", "choice");
  int64_t count = 0, good = 0, slower = 0, same = 0, again = 0;
  double gain = 0, fixed = 0;
  for (const Codec& codec : all_codecs()) {
    if (!options.codecs.empty() && std::ranges::find(options.codecs, codec.name) == options.codecs.end()) continue;
    for (const BenchShape& shape : kShapes) {
      TRY_BIND(const Row row, bench_problem(options, codec, shape, isa, pool));
      print_row(row);
      ++count;
      good += row.verdict() == "good" ? 1 : 0;
      slower += row.verdict() == "SLOWER" ? 1 : 0;
      same += row.tuned == row.best ? 1 : 0;
      again += row.tries > 1 ? 1 : 0;
      gain += std::log(row.gain);
      fixed += row.gain == 1 ? 1 : 0;
    }
  }
  gain = count == 0 ? 0 : std::exp(gain / static_cast<double>(count)) - 1;
  fmt::print(
      "{} problems: {} within {:.0f} % of the best ({} are the best), {} slower, {} unclear; {:+.1f} % beside the "
      "fixed choice in the geometric mean ({} keep it); {} were done again\n",
      count, good, 100 * kMostSlower, same, slower, count - good - slower, 100 * gain, fixed, again);
  return good == count && gain >= kLeastGain;
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  vernier::BenchOptions options;
  CLI::App app("What tuning chooses beside the best of an exhaustive search, and beside the fixed choice.");
  app.add_option("--threads", options.threads);
  app.add_option("--isa", options.isa);
  app.add_option("--codec", options.codecs);
  app.add_option("--seconds", options.seconds, "The budget of one problem");
  app.add_option("--rounds", options.rounds, "Of the exhaustive search");
  CLI11_PARSE(app, argc, argv);
  const vernier::Result<bool> good = vernier::run(options);
  if (!good.ok()) fmt::print(stderr, "error: {}\n", good.error().to_string());
  return good.ok() && *good ? 0 : 1;
}
