// What the store of tactics costs: a warm start of a model with so many records, and a look-up on the step's path.
//
//   tactic_bench [RECORDS]
//
// Prints the best of ten of each: opening a store of the records in a fresh folder; preparing as many problems; a
// look-up of keys that are prepared, in an order that no cache line foretells, beside a loop of the same run that only
// walks the keys; and what a step of the CPU does: the plan of a product that was resolved when it was packed.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>

#include "backends/cpu/prepared_linear.h"
#include "base/clock.h"
#include "tune/tactic_store.h"

namespace vernier {
namespace {

constexpr int kRuns = 10;
constexpr int kLookUps = 200'000;

TacticScope bench_scope() {
  TacticScope scope;
  scope.device = {{"backend", "cpu"}, {"device", "bench"}};
  scope.kernel_hash = [](std::string_view) { return std::string(64, 'a'); };
  return scope;
}

Problem bench_problem(int number) {
  return {"linear", {{"codec", "q4_1"}, {"rows", "2048"}, {"cols", fmt::format("{}", number)}, {"batch", "1"}}};
}

/// As tuning leaves it: eight candidates were tried beside the chosen one.
Tactic bench_tactic(int number, const TacticScope& scope) {
  Tactic tactic;
  tactic.problem = bench_problem(number);
  tactic.chosen = {"int8_stream_avx2", std::string(64, 'a'), {{"rows_at_once", "4"}}};
  tactic.time = {12'345.5, 170.3, 15};
  for (int i = 0; i < 8; ++i) {
    tactic.others.push_back({tactic.chosen, "slower", fmt::format("by {} %", i), {13'000.7 + i, 180.1, 15}});
  }
  tactic.device = scope.device;
  tactic.version = "0.1.0";
  return tactic;
}

/// This process's time on a processor: what a start would take were the machine its own.
double processor_ms() {
  return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

/// Nanoseconds of one turn of `body`, the best of the runs.
template <class Body>
double best_ns(int64_t turns, const Body& body) {
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    const Stopwatch watch;
    body();
    best = std::min(best, static_cast<double>(watch.elapsed_ns()) / static_cast<double>(turns));
  }
  return best;
}

Status bench(int records, const std::filesystem::path& folder) {
  const TacticScope scope = bench_scope();
  TacticStoreOptions options;
  options.folder = folder;
  {
    TacticStore store(scope, options);
    for (int i = 0; i < records; ++i) TRY_STATUS(store.commit(bench_tactic(i, scope)));
  }
  const double before_ms = processor_ms();
  const double open_ns = best_ns(1, [&] { const TacticStore opened(scope, options); });
  const double open_processor_ms = (processor_ms() - before_ms) / kRuns;
  TacticStore store(scope, options);
  std::vector<TacticKey> keys(static_cast<size_t>(records));
  const double prepare_ns = best_ns(records, [&] {
    for (int i = 0; i < records; ++i) keys[static_cast<size_t>(i)] = store.prepare(bench_problem(i));
  });
  std::vector<TacticKey> asked;
  std::mt19937 random(1);
  for (int i = 0; i < kLookUps; ++i) asked.push_back(keys[random() % keys.size()]);
  int64_t found = 0;
  const double find_ns = best_ns(kLookUps, [&] {
    for (const TacticKey& key : asked) found += store.find(key)->tie ? 0 : 1;
  });
  uint64_t sum = 0;
  const double walk_ns = best_ns(kLookUps, [&] {
    for (const TacticKey& key : asked) {
      sum += key.high ^ key.low;
      asm volatile("" : "+r"(sum));
    }
  });
  std::vector<PreparedLinear> products(static_cast<size_t>(records));
  for (PreparedLinear& product : products) product.set(1, {});
  int64_t planned = 0;
  const double plan_ns = best_ns(kLookUps, [&] {
    for (int i = 0; i < kLookUps; ++i) {
      planned += products[asked[static_cast<size_t>(i)].low % products.size()].find(1 + i % 2) != nullptr ? 1 : 0;
    }
  });
  CHECK(planned == int64_t{kRuns} * kLookUps / 2, "{} plans", planned);
  CHECK(found == int64_t{kRuns} * kLookUps, "{} look-ups found nothing", int64_t{kRuns} * kLookUps - found);
  fmt::print(
      "{} records, best of {}: warm start {:.2f} ms ({:.2f} ms on a processor), prepare {:.0f} ns, look-up {:.2f} ns, "
      "a product's plan {:.2f} ns; reference loop {:.2f} ns\n",
      records, kRuns, open_ns * 1e-6, open_processor_ms, prepare_ns, find_ns, plan_ns, walk_ns);
  return {};
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  const int records = argc > 1 ? std::clamp(std::atoi(argv[1]), 1, 20'000) : 200;
  std::string pattern = (std::filesystem::temp_directory_path() / "tactic-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return 1;
  const vernier::Status status = vernier::bench(records, pattern);
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
