#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/load_report.h"

namespace vernier {

/// Flags of `vernier bench serve`.
struct BenchServeFlags {
  std::string url;
  std::string model;
  std::string api_key;
  std::string api = "completions";
  std::string arrival = "auto";
  std::vector<int> concurrency;
  std::vector<double> request_rates;
  int max_in_flight = 256;
  std::string prompt_tokens = "64";
  std::string output_tokens = "64";
  std::string extra = R"({"ignore_eos":true})";
  int rounds = 1;
  bool same_prefix = false;
  double timeout_s = 300;
  ServiceLevel level;
  std::string plot;
  LoadSpec spec;  ///< what the other flags fill
};

/// Adds the form `serve` of the command; `flags` must outlive it.
CLI::App* add_bench_serve(CLI::App& bench, BenchServeFlags& flags);

Status run_bench_serve(const BenchServeFlags& flags);

}  // namespace vernier
