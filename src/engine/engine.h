#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/step_runner.h"

namespace vernier {

struct EngineOptions {
  int32_t context_tokens = 0;   ///< longest sequence; 0: the model's, at most 8,192
  int32_t max_sequences = 64;   ///< that run at once
  int32_t max_queue = 256;      ///< that wait; one more is refused with kOverloaded
  int32_t max_step_rows = 512;  ///< rows of one step at most
  int64_t cache_bytes = 0;      ///< of keys and values; 0: room for `context_tokens` of four sequences
  int32_t block_tokens = 32;
  bool prefix_cache = true;
  int32_t known_tokens = 0;  ///< of the tokenizer: a head's further ones are never drawn; 0: all
  /// What a running stream may wait for another's prompt: a step that carries both takes as many prompt rows as fit.
  int64_t decode_gap_ns = 150'000'000;
};

/// Counters and gauges of a running engine, all of one moment.
struct EngineStats {
  int64_t requests_submitted = 0, requests_finished = 0, requests_failed = 0, requests_cancelled = 0,
          requests_refused = 0;
  int64_t prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  int64_t steps = 0, step_rows = 0, failed_steps = 0, preemptions = 0;
  int64_t forward_ns = 0, planning_ns = 0;
  int32_t running = 0, waiting = 0;
  int64_t step_ns = 0;  ///< how long the step under way has lasted; 0: there is none
  struct CacheClassStats {
    std::optional<int32_t> window;
    int32_t blocks = 0, held_blocks = 0, cached_blocks = 0;
  };
  std::vector<CacheClassStats> cache;
  std::vector<int64_t> kv_saturated;  ///< by layer: numbers that did not fit into the cache's type
};

/// Serves many requests with one model: one engine thread drains submissions, plans, runs the step, samples and
/// commits; one delivery thread hands tokens to the sinks. `submit`, `cancel` and `stats` may be called by any thread.
///
/// A failed step fails the requests of that step and no other. Destruction cancels what still runs.
class EngineLoop;

class Engine {
 public:
  /// Refuses options that no model of this shape can run with, and a cache that does not fit in memory.
  static Result<std::unique_ptr<Engine>> start(std::unique_ptr<StepRunner> runner, const EngineOptions& options);
  ~Engine();

  const EngineOptions& options() const { return options_; }  ///< with zeros resolved
  const ModelShape& shape() const;

  /// Refuses what can never run (kInvalidArgument names the numbers), a full queue (kOverloaded) and a draining engine
  /// (kUnavailable). Once accepted, the sink gets exactly one last update.
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink);
  /// Its rows end after the step in flight; its sink gets Finished with kCancelled. Unknown and ended ids do nothing.
  void cancel(RequestId id);

  EngineStats stats() const;
  /// Forgets every cached prefix that no request holds. Returns once done.
  void flush_cache();
  /// Refuses new requests from now on.
  void drain();
  /// No request waits or runs.
  bool idle() const;

 private:
  Engine(std::unique_ptr<EngineLoop> loop, const EngineOptions& options);
  EngineOptions options_;
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace vernier
