#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>

#include "api/loaded_model.h"
#include "app/bench_kernels.h"
#include "app/bench_serve.h"
#include "app/commands.h"
#include "app/model_flags.h"
#include "app/peer_bench.h"
#include "app/product_limit.h"
#include "base/clock.h"
#include "base/progress.h"
#include "engine/sequence_runner.h"

namespace vernier {
namespace {

struct BenchFlags {
  ModelFlags model;
  std::string against;
  std::string peer;
  std::string b_kv_cache_dtype;
  int rounds = 3;
  BenchShape shape;
};

/// One round: every engine and every limit, one after another, so that a ratio never mixes two minutes.
struct Round {
  MachineLimits limits;
  BenchRates ours;
  std::optional<BenchRates> peer;  ///< another engine, or another cache
};

std::vector<int32_t> random_tokens(int count, int64_t vocab) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(vocab - 1));
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::ranges::generate(tokens, [&] { return any(random); });
  return tokens;
}

Result<double> decode_rate(SequenceRunner& runner, int tokens) {
  SampleSpec greedy{.temperature = 0};
  int32_t token = 1;
  Stopwatch watch;
  for (int i = 0; i < tokens; ++i) {
    TRY_BIND(SampledToken next, runner.feed_and_sample({&token, 1}, greedy));
    token = next.token;
  }
  return tokens / watch.elapsed_seconds();
}

Result<double> prefill_rate(SequenceRunner& runner, const std::vector<int32_t>& prompt, int tokens) {
  Stopwatch watch;
  TRY_STATUS(runner.feed_and_sample(std::span(prompt).first(static_cast<size_t>(tokens)), {.temperature = 0}));
  return tokens / watch.elapsed_seconds();
}

/// Says what is measured now, from the first second on: over itself on a terminal, else a line each.
class PhaseLine {
 public:
  explicit PhaseLine(int rounds) : rounds_(rounds), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~PhaseLine() {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }
  PhaseLine(const PhaseLine&) = delete;
  PhaseLine& operator=(const PhaseLine&) = delete;

  void begin_round() { ++round_; }
  void tell(const std::string& what) const {
    const std::string line = fmt::format("round {} of {}: {}", round_, rounds_, what);
    fmt::print(stderr, "{}", terminal_ ? "\r" + line + "\033[K" : line + "\n");
    std::fflush(stderr);
  }

 private:
  int round_ = 0;
  int rounds_;
  bool terminal_;
};

Result<BenchRates> measure(SequenceRunner& runner, int64_t vocab, const BenchShape& shape, const PhaseLine& phase) {
  BenchRates rates;
  phase.tell(fmt::format("prefill {}", shape.prefill_tokens));
  const std::vector<int32_t> prompt = random_tokens(std::max(shape.prefill_tokens, shape.depth_tokens), vocab);
  runner.reset();
  TRY_BIND(rates.prefill_tokens_per_s, prefill_rate(runner, prompt, shape.prefill_tokens));
  phase.tell(fmt::format("decode {}, empty cache", shape.decode_tokens));
  runner.reset();
  TRY_BIND(rates.decode_tokens_per_s, decode_rate(runner, shape.decode_tokens));
  phase.tell(fmt::format("decode {} at {}", shape.decode_tokens, shape.depth_tokens));
  runner.reset();
  TRY_STATUS(runner.feed(std::span(prompt).first(static_cast<size_t>(shape.depth_tokens))));
  TRY_BIND(rates.deep_decode_tokens_per_s, decode_rate(runner, shape.decode_tokens));
  phase.tell(fmt::format("prefill {} at {}", shape.prefill_tokens, shape.depth_tokens));
  TRY_BIND(rates.deep_prefill_tokens_per_s, prefill_rate(runner, prompt, shape.prefill_tokens));
  return rates;
}

struct Row {
  std::string name;
  double BenchRates::*rate;
  double work;  ///< bytes read or operations done for a token
  std::function<double(const MachineLimits&)> limit;
  std::string limit_name;
};

double best(const std::vector<Round>& rounds, const std::function<double(const Round&)>& value) {
  double most = 0;
  for (const Round& round : rounds) most = std::max(most, value(round));
  return most;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<Row> rows_of(const LoadedModel& model, const SequenceRunner& runner, const BenchShape& shape) {
  const auto weights = static_cast<double>(model.bytes_read_per_token());
  const double ops = 2.0 * static_cast<double>(model.product_parameters());
  const ProductShares shares = product_shares(model, shape.prefill_tokens);
  const auto compute = [shares](const MachineLimits& m) { return shares.limit(m); };
  const std::string compute_name = shares.name();
  const auto read = [](const MachineLimits& m) { return m.read_bytes_per_s; };
  const auto kv = static_cast<double>(runner.cache_bytes_read_at(shape.depth_tokens + shape.decode_tokens / 2));
  return {
      {fmt::format("prefill {}", shape.prefill_tokens), &BenchRates::prefill_tokens_per_s, ops, compute, compute_name},
      {"decode, empty cache", &BenchRates::decode_tokens_per_s, weights, read, "read"},
      {fmt::format("decode at {}", shape.depth_tokens), &BenchRates::deep_decode_tokens_per_s, weights + kv, read,
       "read"},
      {fmt::format("prefill {} at {}", shape.prefill_tokens, shape.depth_tokens),
       &BenchRates::deep_prefill_tokens_per_s, ops, compute, compute_name}};
}

void print_table(const std::vector<Row>& rows, const std::vector<Round>& rounds, const std::string& against) {
  fmt::print("\n{:<22}{:>16}{:>22}", "", "vernier", "of limit");
  if (!against.empty()) fmt::print("{:>16}{:>10}", against, "ratio");
  fmt::print("\n");
  for (const Row& row : rows) {
    std::vector<double> shares, ratios;
    for (const Round& r : rounds) {
      const double limit = row.limit(r.limits);
      shares.push_back(limit > 0 ? r.ours.*row.rate * row.work / limit : 0);
      if (r.peer) ratios.push_back(r.ours.*row.rate / (*r.peer.*row.rate));
    }
    const double share = median(shares);  // 0 where the limit is not measured
    fmt::print("{:<22}{:>10.1f} tok/s{:>8} % {:<12}", row.name,
               best(rounds, [&](const Round& r) { return r.ours.*row.rate; }),
               share > 0 ? fmt::format("{:.0f}", 100 * share) : "-", row.limit_name);
    if (!against.empty()) {
      fmt::print("{:>9.1f} tok/s{:>9.2f}x", best(rounds, [&](const Round& r) { return *r.peer.*row.rate; }),
                 median(ratios));
    }
    fmt::print("\n");
  }
}

nlohmann::json rates_json(const BenchRates& rates) {
  return {{"prefill_tokens_per_s", rates.prefill_tokens_per_s},
          {"decode_tokens_per_s", rates.decode_tokens_per_s},
          {"deep_decode_tokens_per_s", rates.deep_decode_tokens_per_s},
          {"deep_prefill_tokens_per_s", rates.deep_prefill_tokens_per_s}};
}

nlohmann::json to_json(const BenchFlags& flags, const std::vector<Row>& rows, const std::vector<Round>& rounds,
                       const std::string& against) {
  nlohmann::json all = nlohmann::json::array();
  for (const Round& r : rounds) {
    nlohmann::json entry = {{"read_bytes_per_s", r.limits.read_bytes_per_s},
                            {"int8_ops_per_s", r.limits.int8_ops_per_s},
                            {"bf16_ops_per_s", r.limits.bf16_ops_per_s},
                            {"f32_ops_per_s", r.limits.f32_ops_per_s},
                            {"vernier", rates_json(r.ours)}};
    if (r.peer) entry[against] = rates_json(*r.peer);
    all.push_back(std::move(entry));
  }
  return {{"prefill_tokens", flags.shape.prefill_tokens},
          {"decode_tokens", flags.shape.decode_tokens},
          {"depth_tokens", flags.shape.depth_tokens},
          {"product_ops_per_token", rows[0].work},
          {"products_in", rows[0].limit_name},
          {"bytes_per_token", rows[1].work},
          {"deep_bytes_per_token", rows[2].work},
          {"rounds", std::move(all)}};
}

Result<std::optional<PeerBench>> find_peer(const BenchFlags& flags) {
  if (flags.against.empty() && flags.peer.empty()) return std::optional<PeerBench>();
  if (!flags.against.empty() && flags.against != "llama.cpp") {
    return invalid_argument("--against {}: expected llama.cpp, the one engine that this knows to run", flags.against);
  }
  if (!flags.b_kv_cache_dtype.empty()) return invalid_argument("--b-kv-cache-dtype stands in the place of --against");
  Result<PeerBench> found = PeerBench::find(flags.peer);
  if (found) return std::optional(std::move(found).value());
  if (!flags.peer.empty()) return std::move(found).error();
  fmt::print(stderr, "skipped: comparison with llama.cpp: {}\n", found.error().message);
  return std::optional<PeerBench>();
}

Result<std::unique_ptr<SequenceRunner>> make_runner(const ModelFlags& flags, const LoadedModel& model,
                                                    const BenchShape& shape) {
  TRY_BIND(RunnerOptions options, flags.runner_options(model));
  TRY_STATUS(flags.check_fallbacks(kernel_fallbacks(model, options.caches)));
  options.context_tokens = shape.prefill_tokens + shape.depth_tokens + shape.decode_tokens;
  return SequenceRunner::make(model.backend(), model.decoder(), options);
}

Status run_bench(const BenchFlags& flags) {
  if (flags.model.model.empty()) {
    return invalid_argument(
        "MODEL is required; or vernier bench serve --url URL for a server, vernier bench kernels for a GPU");
  }
  if (flags.rounds < 1 || flags.shape.prefill_tokens < 1 || flags.shape.decode_tokens < 1 ||
      flags.shape.depth_tokens < 1) {
    return invalid_argument("--rounds, --prefill, --decode and --depth must be at least 1");
  }
  TRY_BIND(const std::optional<PeerBench> peer, find_peer(flags));
  fmt::print(stderr, "loading {}\n", flags.model.model);
  TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(flags.model));
  TRY_BIND(std::unique_ptr<SequenceRunner> runner, make_runner(flags.model, *model, flags.shape));
  std::string against = peer ? "llama.cpp" : "";
  std::unique_ptr<SequenceRunner> other;
  if (!flags.b_kv_cache_dtype.empty()) {
    ModelFlags b = flags.model;
    b.kv_cache_dtype = flags.b_kv_cache_dtype;
    against = b.kv_cache_dtype + " cache";
    TRY_BIND(other, make_runner(b, *model, flags.shape));
  }
  const Features features = model->backend().features();
  const int64_t vocab = model->decoder().spec().vocab;

  std::vector<Round> rounds;
  std::optional<PhaseLine> phase(flags.rounds);
  for (int i = 0; i < flags.rounds; ++i) {
    Round round;
    phase->begin_round();
    phase->tell("limits of the machine");
    TRY_BIND(round.limits, model->backend().measure_limits(model->bytes_read_per_token()));
    TRY_BIND(round.ours, measure(*runner, vocab, flags.shape, *phase));
    if (peer) {
      phase->tell("llama.cpp");
      TRY_BIND(round.peer, peer->run(model->path(), features.threads, flags.shape));
    } else if (other != nullptr) {
      TRY_BIND(round.peer, measure(*other, vocab, flags.shape, *phase));
    }
    rounds.push_back(round);
  }
  phase.reset();

  const std::vector<Row> rows = rows_of(*model, *runner, flags.shape);
  if (global_options().json) {
    fmt::print("{}\n", to_json(flags, rows, rounds, against).dump(2));
    return {};
  }
  fmt::print("{}\n{}, {} threads, {} kernels; {} a token read, {:.1f} M parameters in products\n", model->path(),
             features.device, features.threads, features.isa, format_bytes(model->bytes_read_per_token()),
             static_cast<double>(model->product_parameters()) * 1e-6);
  auto limit = [&](double MachineLimits::*which) {
    return best(rounds, [&](const Round& r) { return r.limits.*which; });
  };
  const double bf16 = limit(&MachineLimits::bf16_ops_per_s);
  fmt::print(
      "limits in this run: read {:.1f} GB/s, int8 {:.0f} GOP/s, bf16 {} and f32 {:.0f} GFLOP/s; best of {} rounds\n",
      limit(&MachineLimits::read_bytes_per_s) * 1e-9, limit(&MachineLimits::int8_ops_per_s) * 1e-9,
      bf16 > 0 ? fmt::format("{:.0f}", bf16 * 1e-9) : "not measured", limit(&MachineLimits::f32_ops_per_s) * 1e-9,
      flags.rounds);
  print_table(rows, rounds, against);
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode rates beside the machine's limits");
  flags->model.add_to(*command);
  flags->model.add_fallback_flag(*command);
  flags->model.tune.add_to(*command);
  command->get_option("MODEL")->required(false);  // a form takes its place
  auto serve = std::make_shared<BenchServeFlags>();
  CLI::App* of_server = add_bench_serve(*command, *serve);
  auto kernels = std::make_shared<BenchKernelsFlags>();
  CLI::App* of_kernels = add_bench_kernels(*command, *kernels);
  command->add_option("--against", flags->against, "Another engine in the same rounds: llama.cpp");
  command->add_option("--peer", flags->peer, "Its benchmark program (default: llama-bench on PATH)");
  command->add_option("--b-kv-cache-dtype", flags->b_kv_cache_dtype,
                      "The same model with this --kv-cache-dtype in the same rounds");
  command->add_option("--rounds", flags->rounds, "Rounds; the best of each rate and the median of each ratio are shown")
      ->capture_default_str();
  command->add_option("--prefill", flags->shape.prefill_tokens, "Prompt tokens")->capture_default_str();
  command->add_option("--decode", flags->shape.decode_tokens, "Tokens to generate")->capture_default_str();
  command->add_option("--depth", flags->shape.depth_tokens, "Tokens in the cache before the second decode and prefill")
      ->capture_default_str();
  set_work(*command, [=]() -> Status {
    if (!of_server->parsed() && !of_kernels->parsed()) return run_bench(*flags);
    if (!flags->model.model.empty()) return invalid_argument("unexpected argument {}", flags->model.model);
    return of_server->parsed() ? run_bench_serve(*serve) : run_bench_kernels(*kernels);
  });
}

}  // namespace vernier
