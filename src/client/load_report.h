#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/load_run.h"

namespace vernier {

/// Percentiles by nearest rank: the p-th is the smallest value that at least p % of all do not exceed.
struct LatencySpread {
  double mean_ms = 0, p50_ms = 0, p90_ms = 0, p99_ms = 0;
};
LatencySpread spread_of(std::vector<double> values_ms);

/// Limits that a request must keep to count as good; 0: none.
struct ServiceLevel {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

/// One run as people compare them.
///   TTFT  request's last byte sent to the first event with text
///   TPOT  (last text - first text) / (output tokens - 1), for each request with two or more
///   ITL   each gap between two events with text, of all requests
///   E2E   request's last byte sent to the end of the answer
struct LoadSummary {
  int served = 0;
  int failed = 0;
  std::map<std::string, int> faults;            ///< by kind
  std::map<std::string, std::string> examples;  ///< a message for each kind
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double output_tokens_per_s = 0, requests_per_s = 0, good_requests_per_s = 0;
  LatencySpread ttft, tpot, itl, e2e;
  double tokens_per_event = 0;  ///< above 1 tokens came in bursts, and ITL is a gap between bursts
  double late_ms = 0;           ///< the most that a request went out after it was due: the client's own fault
};
LoadSummary summarize(const LoadRun& run, const ServiceLevel& level);

/// A level of a sweep: what was varied, and the rounds that were run with it.
struct LoadLevel {
  double value = 0;  ///< requests in flight, or requests per second
  std::vector<LoadSummary> rounds;

  /// The round with the median output rate.
  const LoadSummary& median() const;
};

nlohmann::ordered_json to_json(const LoadSummary& summary);

/// What the values of a sweep are: "concurrency" or "requests/s".
std::string_view level_name(ArrivalProcess arrival);

/// An SVG picture of a sweep: throughput above, percentiles of TTFT and TPOT below, over the levels.
std::string draw_sweep(std::span<const LoadLevel> levels, std::string_view title, std::string_view level_name);

}  // namespace vernier
