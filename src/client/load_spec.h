#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/http_client.h"

namespace vernier {

/// How requests come: as others end (so many are in flight), or by a clock that does not wait for answers.
enum class ArrivalProcess { kClosed, kPoisson, kConstant };

/// Each request draws its length from here, both ends included.
struct LengthRange {
  int least = 0;
  int most = 0;
};

/// `128` or `64:256`.
Result<LengthRange> parse_length_range(const std::string& text);

/// What load to put on a server; the same spec and seed make the same requests at the same times.
struct LoadSpec {
  ServerUrl url;
  std::string api_key;
  std::string model;
  bool chat = false;  ///< chat completions, else completions
  ArrivalProcess arrival = ArrivalProcess::kClosed;
  double requests_per_s = 1;  ///< not for kClosed
  int concurrency = 1;        ///< kClosed: requests in flight; else the most of them
  int requests = 16;
  int warmup = 1;                     ///< requests before the clock starts, with a prefix of their own
  int shared_prefix_tokens = 0;       ///< words that begin every prompt
  LengthRange prompt_tokens{64, 64};  ///< words of each request's own, behind the shared ones
  LengthRange output_tokens{64, 64};
  nlohmann::json extra = nlohmann::json::object();  ///< merged into each body
  uint64_t seed = 1;
  ClientLimits limits;
};

/// When each request is due, from the start; zeros for kClosed. Poisson gaps are drawn from the seed.
std::vector<int64_t> arrival_times_ns(const LoadSpec& spec);

/// The body of request `number` of a stream of requests that share a prefix drawn from `prefix_seed`. Prompts are
/// common words, about one token each; the server's own count is what reports show.
nlohmann::json load_body(const LoadSpec& spec, uint64_t prefix_seed, int number);

}  // namespace vernier
