#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/answer.h"
#include "server/http_message.h"
#include "server/prompt.h"
#include "server/readiness.h"
#include "server/request_error.h"
#include "server/router.h"

namespace vernier {

class CompiledGrammar;

struct ApiOptions {
  bool strict_fields = false;                   ///< unknown fields are refused, not listed as ignored
  int32_t max_choices = 1024;                   ///< prompts times choices of one request
  std::string version;                          ///< of this program
  std::chrono::nanoseconds request_timeout{0};  ///< for one request, from its last byte to the end; 0: none
  /// A step under way for longer makes /health say so; 0: never.
  std::chrono::nanoseconds stalled_after{std::chrono::seconds(60)};
};

/// Answers under way by their ids, for /abort_request. Any thread.
class RunningAnswers {
 public:
  void add(const std::shared_ptr<Answer>& answer);
  /// How many it reached.
  size_t abort(const std::string& id);
  size_t abort_all();

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Answer>> answers_;
  size_t purge_at_ = 64;  // ended ones are forgotten whenever the table has doubled
};

/// What all routes share. Outlives the server that runs them.
struct ApiContext {
  std::shared_ptr<const ServedModel> model;  ///< null while it is loaded, which `readiness` tells
  ApiOptions options;
  MetricRegistry& registry;
  ServerMetrics* metrics;  ///< as the model
  RunningAnswers running = {};
  Readiness readiness = {};
};

/// A route's work: nothing where the answer was given or will be, else why the request is refused.
using RouteWork = std::function<std::optional<ApiError>(const HttpRequest&, const std::shared_ptr<ResponseStream>&)>;
/// With the refusal sent.
RouteFunction as_route(RouteWork work);

/// The JSON of a body whose content type says that it is some.
Result<Json> read_json_body(const HttpRequest& request);

/// "x-ignored-params" with those fields; empty where there are none.
HeaderList ignored_header(const std::vector<std::string>& ignored);

/// One choice's request to the engine.
Request engine_request(const ServedModel& model, const GenerationSettings& settings, const Prompt& prompt,
                       std::shared_ptr<const CompiledGrammar> grammar);

/// Requests of one key share its part of the machine.
uint64_t fair_share_key(const HttpRequest& request);

/// When a request must have ended; none without a limit.
std::optional<int64_t> request_deadline_ns(const ApiContext& context, const HttpRequest& request);

int64_t unix_seconds();

}  // namespace vernier
