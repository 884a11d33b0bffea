#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/load_spec.h"

namespace vernier {

/// What one request did. Times are of `monotonic_ns`.
struct LoadRecord {
  int64_t due_ns = 0;                 ///< when it should have gone out
  int64_t sent_ns = 0;                ///< after its last byte was sent
  int64_t end_ns = 0;                 ///< after the last byte of the answer
  std::vector<int64_t> text_ns = {};  ///< each event that carried text
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int output_tokens = 0;  ///< as the server counts them; without that, events with text
  std::string fault =
      {};  ///< empty: served. Else a kind: "connect", "timeout", "hang-up", "malformed", "status 429", ...
  std::string message = {};
};

struct LoadRun {
  std::vector<LoadRecord> records;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

/// The model that a server names first.
Result<std::string> first_served_model(const ServerUrl& url, const std::string& api_key, const ClientLimits& limits);

/// One request, streamed; never fails: a fault is part of the record.
LoadRecord measure_request(HttpClient& client, const LoadSpec& spec, const nlohmann::json& body);

/// Warms up, then sends the spec's requests from as many threads as may be in flight, and waits for all.
LoadRun run_load(const LoadSpec& spec, uint64_t prefix_seed);

}  // namespace vernier
