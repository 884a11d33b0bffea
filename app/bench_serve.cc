#include "app/bench_serve.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/output_file.h"
#include "base/random.h"

namespace vernier {
namespace {

using nlohmann::ordered_json;

Result<ArrivalProcess> parse_arrival(const BenchServeFlags& flags) {
  const bool rated = !flags.request_rates.empty();
  if (rated && !flags.concurrency.empty()) {
    return invalid_argument("--concurrency and --request-rate: only one can be swept");
  }
  if (flags.arrival == "auto") return rated ? ArrivalProcess::kPoisson : ArrivalProcess::kClosed;
  if (flags.arrival == "closed" && rated) return invalid_argument("--request-rate needs --arrival poisson or constant");
  if (flags.arrival == "closed") return ArrivalProcess::kClosed;
  if (!rated) return invalid_argument("--arrival {} needs --request-rate", flags.arrival);
  return flags.arrival == "poisson" ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
}

Status check_counts(const BenchServeFlags& flags) {
  auto bad = [](auto value, auto most) { return !(value > 0 && value <= most); };
  for (int level : flags.concurrency) {
    if (bad(level, 4096)) return invalid_argument("--concurrency {}: expected 1 to 4096", level);
  }
  for (double rate : flags.request_rates) {
    if (bad(rate, 1e5)) return invalid_argument("--request-rate {}: expected more than 0, at most 100000", rate);
  }
  if (bad(flags.spec.requests, 1'000'000))
    return invalid_argument("--requests {}: expected 1 to 1000000", flags.spec.requests);
  if (bad(flags.rounds, 1000)) return invalid_argument("--rounds {}: expected 1 to 1000", flags.rounds);
  if (bad(flags.max_in_flight, 4096)) return invalid_argument("--max-in-flight: expected 1 to 4096");
  if (flags.spec.warmup < 0) return invalid_argument("--warmup {}: expected 0 or more", flags.spec.warmup);
  if (flags.spec.shared_prefix_tokens < 0) return invalid_argument("--shared-prefix: expected 0 or more");
  if (bad(flags.timeout_s, 1e6)) return invalid_argument("--timeout {}: expected seconds above 0", flags.timeout_s);
  return {};
}

Result<LoadSpec> spec_of(const BenchServeFlags& flags) {
  TRY_STATUS(check_counts(flags));
  LoadSpec spec = flags.spec;
  TRY_BIND(spec.url, parse_server_url(flags.url));
  TRY_BIND(spec.arrival, parse_arrival(flags));
  TRY_BIND(spec.prompt_tokens, parse_length_range(flags.prompt_tokens));
  TRY_BIND(spec.output_tokens, parse_length_range(flags.output_tokens));
  if (spec.output_tokens.least < 1) return invalid_argument("--output-tokens: at least 1");
  if (spec.prompt_tokens.least + spec.shared_prefix_tokens < 1) {
    return invalid_argument("--prompt-tokens and --shared-prefix are both 0: a prompt needs at least 1 token");
  }
  spec.extra = nlohmann::json::parse(flags.extra, nullptr, /*allow_exceptions=*/false);
  if (!spec.extra.is_object()) return invalid_argument("--extra {}: expected a JSON object", flags.extra);
  spec.chat = flags.api == "chat";
  spec.api_key = flags.api_key;
  spec.model = flags.model;
  spec.limits.silence_s = spec.limits.total_s = flags.timeout_s;
  if (spec.model.empty()) {
    TRY_BIND(spec.model, first_served_model(spec.url, spec.api_key, spec.limits));
  }
  return spec;
}

std::string describe(const LoadSpec& spec, const BenchServeFlags& flags) {
  auto range = [](const LengthRange& lengths) {
    return lengths.least == lengths.most ? fmt::format("{}", lengths.least)
                                         : fmt::format("{} to {}", lengths.least, lengths.most);
  };
  return fmt::format("{} at {}, {}: {} requests, prompts of {} shared and {} own words, {} tokens out{}", spec.model,
                     spec.url.to_string(), flags.api, spec.requests, spec.shared_prefix_tokens,
                     range(spec.prompt_tokens), range(spec.output_tokens),
                     flags.rounds > 1 ? fmt::format("; median of {} rounds", flags.rounds) : "");
}

void print_spread(const char* name, const LatencySpread& spread) {
  fmt::print("    {:<6}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n", name, spread.mean_ms, spread.p50_ms, spread.p90_ms,
             spread.p99_ms);
}

void print_level(const LoadLevel& level, const LoadSpec& spec, const BenchServeFlags& flags) {
  const LoadSummary& run = level.median();
  fmt::print("\n{} {:g}: {:.1f} output tokens/s", level_name(spec.arrival), level.value, run.output_tokens_per_s);
  if (level.rounds.size() > 1) {
    const auto [least, most] = std::ranges::minmax_element(level.rounds, {}, &LoadSummary::output_tokens_per_s);
    fmt::print(" (rounds {:.1f} to {:.1f})", least->output_tokens_per_s, most->output_tokens_per_s);
  }
  fmt::print(", {:.2f} requests/s", run.requests_per_s);
  if (flags.level.ttft_ms > 0 || flags.level.tpot_ms > 0)
    fmt::print(", goodput {:.2f} requests/s", run.good_requests_per_s);
  fmt::print("\n    {} served, {} failed in {:.1f} s; {} prompt tokens ({} cached), {} output tokens\n", run.served,
             run.failed, run.seconds, run.prompt_tokens, run.cached_tokens, run.output_tokens);
  if (run.served > 0) {
    fmt::print("    {:<6}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "p50", "p90", "p99");
    print_spread("TTFT", run.ttft);
    print_spread("TPOT", run.tpot);
    print_spread("ITL", run.itl);
    print_spread("E2E", run.e2e);
  }
  for (const auto& [kind, count] : run.faults)
    fmt::print("    failed: {} x {}: {}\n", count, kind, run.examples.at(kind));
  if (run.tokens_per_event > 1.5) {
    fmt::print("    {:.1f} tokens an event: they came in bursts, so ITL is a gap between bursts\n",
               run.tokens_per_event);
  }
  if (spec.arrival != ArrivalProcess::kClosed && run.late_ms > 50) {
    fmt::print("    a request went out {:.0f} ms late: raise --max-in-flight, or this client is too slow\n",
               run.late_ms);
  }
}

ordered_json sweep_json(const std::vector<LoadLevel>& levels, const LoadSpec& spec, const BenchServeFlags& flags) {
  ordered_json all = ordered_json::array();
  for (const LoadLevel& level : levels) {
    ordered_json rounds = ordered_json::array();
    for (const LoadSummary& round : level.rounds) rounds.push_back(to_json(round));
    all.push_back({{std::string(level_name(spec.arrival)), level.value},
                   {"median", to_json(level.median())},
                   {"rounds", std::move(rounds)}});
  }
  return {{"url", spec.url.to_string()},
          {"model", spec.model},
          {"api", flags.api},
          {"arrival", spec.arrival == ArrivalProcess::kClosed    ? "closed"
                      : spec.arrival == ArrivalProcess::kPoisson ? "poisson"
                                                                 : "constant"},
          {"requests", spec.requests},
          {"warmup", spec.warmup},
          {"shared_prefix_tokens", spec.shared_prefix_tokens},
          {"prompt_tokens", {spec.prompt_tokens.least, spec.prompt_tokens.most}},
          {"output_tokens", {spec.output_tokens.least, spec.output_tokens.most}},
          {"seed", spec.seed},
          {"extra", spec.extra},
          {"slo_ttft_ms", flags.level.ttft_ms},
          {"slo_tpot_ms", flags.level.tpot_ms},
          {"levels", std::move(all)}};
}

Status write_plot(const std::string& path, const std::string& picture) {
  std::ofstream file(path, std::ios::binary);
  file << picture;
  file.close();
  if (!file) return Error{ErrorCode::kInternal, "cannot be written", path};
  return {};
}

}  // namespace

CLI::App* add_bench_serve(CLI::App& bench, BenchServeFlags& flags) {
  CLI::App* command = bench.add_subcommand("serve", "Put load on an OpenAI-compatible server and measure latencies");
  command->add_option("--url", flags.url, "Where the server listens, as in http://127.0.0.1:8080")->required();
  command->add_option("--model", flags.model, "Name sent as model (default: the first that the server lists)");
  command->add_option("--api-key", flags.api_key, "Key sent as bearer token");
  command->add_option("--api", flags.api, "completions or chat")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  command->add_option("--arrival", flags.arrival, "closed (as others end), poisson or constant (by --request-rate)")
      ->check(CLI::IsMember({"auto", "closed", "poisson", "constant"}));
  command->add_option("--concurrency", flags.concurrency, "Requests in flight; several, as in 1,4,16, are a sweep")
      ->delimiter(',');
  command->add_option("--request-rate", flags.request_rates, "Requests per second; several are a sweep")
      ->delimiter(',');
  command->add_option("--max-in-flight", flags.max_in_flight, "Most requests in flight with --request-rate")
      ->capture_default_str();
  command->add_option("--requests", flags.spec.requests, "Requests of each round")->capture_default_str();
  command->add_option("--warmup", flags.spec.warmup, "Requests before each round that are not measured")
      ->capture_default_str();
  command->add_option("--rounds", flags.rounds, "Rounds of each level; the median one is shown")->capture_default_str();
  command
      ->add_option("--shared-prefix", flags.spec.shared_prefix_tokens, "Words that all prompts of a round begin with")
      ->capture_default_str();
  command->add_flag("--same-prefix", flags.same_prefix, "One prefix for all rounds: the server may keep it");
  command->add_option("--prompt-tokens", flags.prompt_tokens, "Words of each prompt's own: N or LEAST:MOST")
      ->capture_default_str();
  command->add_option("--output-tokens", flags.output_tokens, "Tokens to generate: N or LEAST:MOST")
      ->capture_default_str();
  command->add_option("--extra", flags.extra, "JSON object merged into each request")->capture_default_str();
  command->add_option("--seed", flags.spec.seed, "Seed of prompts, lengths and arrivals")->capture_default_str();
  command->add_option("--timeout", flags.timeout_s, "Seconds for one request")->capture_default_str();
  command->add_option("--slo-ttft-ms", flags.level.ttft_ms, "Goodput counts requests whose TTFT is at most this");
  command->add_option("--slo-tpot-ms", flags.level.tpot_ms, "Goodput counts requests whose TPOT is at most this");
  command->add_option("--plot", flags.plot, "Write a picture of the sweep to this SVG file");
  return command;
}

Status run_bench_serve(const BenchServeFlags& flags) {
  if (!flags.plot.empty()) TRY_STATUS(check_writable(flags.plot));
  TRY_BIND(LoadSpec spec, spec_of(flags));
  const bool closed = spec.arrival == ArrivalProcess::kClosed;
  std::vector<LoadLevel> levels;
  if (closed) {
    for (int value : flags.concurrency) levels.push_back({static_cast<double>(value), {}});
    if (levels.empty()) levels.push_back({1, {}});
  } else {
    for (double value : flags.request_rates) levels.push_back({value, {}});
  }
  if (!global_options().json) fmt::print("{}\n", describe(spec, flags));
  int failed = 0;
  uint64_t prefix = fmix64(spec.seed);
  for (LoadLevel& level : levels) {
    LoadSpec own = spec;
    own.concurrency = closed ? static_cast<int>(level.value) : flags.max_in_flight;
    if (!closed) own.requests_per_s = level.value;
    for (int round = 0; round < flags.rounds; ++round) {
      if (!flags.same_prefix) prefix = fmix64(prefix + 1);
      level.rounds.push_back(summarize(run_load(own, prefix), flags.level));
      failed += level.rounds.back().failed;
    }
    if (!global_options().json) {
      print_level(level, spec, flags);
      std::fflush(stdout);
    }
  }
  if (global_options().json) {
    fmt::print("{}\n", sweep_json(levels, spec, flags).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  }
  if (!flags.plot.empty()) {
    TRY_STATUS(write_plot(flags.plot,
                          draw_sweep(levels, spec.model + " at " + spec.url.to_string(), level_name(spec.arrival))));
  }
  const int all = spec.requests * flags.rounds * static_cast<int>(levels.size());
  if (failed == all) return Error{ErrorCode::kUnavailable, "no request was served", {}};
  return {};
}

}  // namespace vernier
