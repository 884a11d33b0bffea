#include "app/bench_kernels.h"

#include <cstdio>
#include <ostream>

#include "api/kernel_bench.h"
#include "app/output_file.h"
#include "base/clock.h"
#include "base/unfinished_output.h"

namespace vernier {
namespace {

void print_row(const KernelResult& result, const std::vector<KernelResult>& all, const KernelLimits& limits) {
  const KernelTime& time = result.time;
  std::string line = fmt::format("{:<46}{:>10.2f} us", result.row.name, time.seconds * 1e6);
  if (time.bytes > 0) {
    line += fmt::format("{:>9.1f} MB{:>6.0f} GB/s, {:.2f} of copy", time.bytes * 1e-6, time.bytes / time.seconds * 1e-9,
                        time.bytes / time.seconds / limits.copy_bytes_per_s);
  }
  if (time.operations > 0) line += fmt::format("{:>8.1f} TFLOP/s", time.operations / time.seconds * 1e-12);
  fmt::print("{}\n", line);
  for (const GoalOutcome& outcome : judge_goals(result, all, limits)) fmt::print("    {}\n", to_string(outcome));
  std::fflush(stdout);
}

}  // namespace

CLI::App* add_bench_kernels(CLI::App& bench, BenchKernelsFlags& flags) {
  CLI::App* command =
      bench.add_subcommand("kernels", "Measure a GPU's kernels beside its rates of copying and of large products");
  flags.device.backend = "cuda";
  flags.device.add_backend_to(*command);
  command->add_option("--numerics", flags.device.numerics, "fast: products round activations to bf16; exact: float32")
      ->capture_default_str();
  command->add_option("--only", flags.only, "Rows whose names have this in them, as in \"experts\"");
  command->add_option("--rounds", flags.rounds, "Times that a row is measured; the best counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", flags.json, "Write every row and limit to this file, too");
  return command;
}

nlohmann::ordered_json kernels_json(const Features& device, const KernelLimits& limits,
                                    const std::vector<KernelResult>& results) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const KernelResult& result : results) {
    const KernelTime& time = result.time;
    nlohmann::ordered_json row = {{"name", result.row.name}, {"microseconds", time.seconds * 1e6}};
    if (time.bytes > 0) {
      row["bytes"] = time.bytes;
      row["bytes_per_s"] = time.bytes / time.seconds;
      row["of_copy"] = time.bytes / time.seconds / limits.copy_bytes_per_s;
    }
    if (time.operations > 0) {
      row["operations"] = time.operations;
      row["operations_per_s"] = time.operations / time.seconds;
      if (limits.product_ops_per_s) row["of_cublas"] = time.operations / time.seconds / *limits.product_ops_per_s;
    }
    row["goals"] = nlohmann::ordered_json::array();
    for (const GoalOutcome& outcome : judge_goals(result, results, limits)) {
      nlohmann::ordered_json goal = {{"text", to_string(outcome)}, {"goal", outcome.goal.number}, {"met", outcome.met}};
      goal["reached"] = outcome.reached ? nlohmann::ordered_json(*outcome.reached) : nlohmann::ordered_json();
      row["goals"].push_back(std::move(goal));
    }
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json json = {{"device", device.device},
                                 {"numerics", device.numerics == Numerics::kFast ? "fast" : "exact"},
                                 {"copy_bytes_per_s", limits.copy_bytes_per_s}};
  if (limits.product_ops_per_s) {
    json["cublas_bf16_ops_per_s"] = *limits.product_ops_per_s;
  } else {
    json["cublas_missing"] = limits.no_products;
  }
  json["rows"] = std::move(rows);
  return json;
}

Status run_bench_kernels(const BenchKernelsFlags& flags) {
  if (flags.device.backend != "cuda") {
    return invalid_argument("bench kernels measures the kernels of a GPU; --backend {} has none (expected cuda)",
                            flags.device.backend);
  }
  const std::vector<KernelRow> rows = kernel_rows(flags.only);
  if (rows.empty()) return invalid_argument("--only '{}': no row has that in its name", flags.only);
  if (!flags.json.empty()) TRY_STATUS(check_writable(flags.json));
  TRY_BIND(const BackendOptions options, flags.device.backend_options());
  TRY_BIND(const std::unique_ptr<Backend> backend, make_backend(options));
  fmt::print(stderr, "measuring the limits of {}\n", backend->features().device);
  TRY_BIND(const KernelLimits limits, measure_kernel_limits(*backend));
  fmt::print("{}; copy {:.2f} TB/s; {}\n", backend->features().device, limits.copy_bytes_per_s * 1e-12,
             limits.product_ops_per_s ? fmt::format("cuBLAS bf16 {:.0f} TFLOP/s", *limits.product_ops_per_s * 1e-12)
                                      : limits.no_products);
  BenchEffort effort;
  effort.rounds = flags.rounds;
  std::vector<KernelResult> results;
  Stopwatch watch;
  for (const KernelRow& row : rows) {
    fmt::print(stderr, "{} of {}, {:.0f} s: {}\n", results.size() + 1, rows.size(), watch.elapsed_seconds(), row.name);
    TRY_BIND(const KernelTime time, measure_row(*backend, row, effort));
    results.push_back({row, time});
    print_row(results.back(), results, limits);
  }
  if (flags.json.empty()) return {};
  return write_whole(flags.json, [&](std::ostream& out) {
    out << kernels_json(backend->features(), limits, results).dump(2) << '\n';
  });
}

}  // namespace vernier
