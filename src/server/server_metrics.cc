#include "server/server_metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace vernier {
namespace {

double seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// Our name and the same series' names in other servers.
struct KnownNames {
  std::string_view ours;
  std::array<std::string_view, 3> others;
};
constexpr KnownNames kKnownNames[] = {
    {"vernier_requests_running",
     {"vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"}},
    {"vernier_requests_waiting", {"vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"}},
    {"vernier_cache_usage_ratio", {"vllm:kv_cache_usage_perc", "sglang:token_usage"}},
    {"vernier_prefix_hit_tokens_total", {"vllm:prefix_cache_hits_total", "sglang:cached_tokens_total"}},
    {"vernier_prefix_query_tokens_total", {"vllm:prefix_cache_queries_total"}},
    {"vernier_prompt_tokens_total",
     {"vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"}},
    {"vernier_generated_tokens_total",
     {"vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total"}},
    {"vernier_time_to_first_token_seconds", {"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"}},
    {"vernier_inter_token_latency_seconds", {"vllm:inter_token_latency_seconds", "sglang:inter_token_latency_seconds"}},
    {"vernier_request_seconds", {"vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"}},
    {"vernier_request_queue_seconds", {"vllm:request_queue_time_seconds", "sglang:queue_time_seconds"}},
    {"vernier_request_prefill_seconds", {"vllm:request_prefill_time_seconds"}},
    {"vernier_request_decode_seconds", {"vllm:request_decode_time_seconds"}},
    {"vernier_request_inference_seconds", {"vllm:request_inference_time_seconds"}},
    {"vernier_preemptions_total", {"vllm:num_preemptions_total"}},
    {"vernier_preemptions", {"sglang:num_retracted_reqs"}},
    {"vernier_choices_finished_total", {"vllm:request_success_total"}},
    {"vernier_requests_aborted_total", {"sglang:num_aborted_requests_total"}},
};

}  // namespace

/// Engine counters are totals; ours rise by what they rose by.
struct ServerMetrics::Mirror {
  struct Follower {
    Counter* counter;
    int64_t EngineStats::*total;
    int64_t seen = 0;
  };
  const ServedModel* model = nullptr;
  std::vector<Follower> followers;
  Gauge *running, *waiting, *cache_usage, *preemptions;
  struct ClassBlocks {
    Gauge *held, *cached, *free;
  };
  std::vector<ClassBlocks> class_blocks;
  std::vector<Counter*> saturated;  // by layer
  std::vector<int64_t> saturated_seen;

  void add_saturated(MetricRegistry& registry, const MetricLabels& labels) {
    for (size_t layer = 0; layer < model->engine->stats().kv_saturated.size(); ++layer) {
      MetricLabels with_layer = labels;
      with_layer.emplace_back("layer", std::to_string(layer));
      saturated.push_back(&registry.counter(
          "vernier_kv_saturated_total", "Numbers too large for the cache's type, stored as its largest.", with_layer));
    }
    saturated_seen.assign(saturated.size(), 0);
  }

  void refresh() {
    const EngineStats stats = model->engine->stats();
    for (size_t layer = 0; layer < std::min(saturated.size(), stats.kv_saturated.size()); ++layer) {
      saturated[layer]->add(static_cast<double>(stats.kv_saturated[layer] - saturated_seen[layer]));
      saturated_seen[layer] = stats.kv_saturated[layer];
    }
    for (Follower& follower : followers) {
      const int64_t total = stats.*follower.total;
      if (total > follower.seen) follower.counter->add(static_cast<double>(total - follower.seen));
      follower.seen = std::max(follower.seen, total);
    }
    running->set(stats.running);
    waiting->set(stats.waiting);
    preemptions->set(static_cast<double>(stats.preemptions));
    double usage = 0;
    for (size_t c = 0; c < std::min(stats.cache.size(), class_blocks.size()); ++c) {
      const EngineStats::CacheClassStats& cache = stats.cache[c];
      if (cache.blocks > 0) usage = std::max(usage, static_cast<double>(cache.held_blocks) / cache.blocks);
      class_blocks[c].held->set(cache.held_blocks);
      class_blocks[c].cached->set(cache.cached_blocks);
      class_blocks[c].free->set(cache.blocks - cache.held_blocks - cache.cached_blocks);
    }
    cache_usage->set(usage);
  }
};

ServerMetrics::ServerMetrics(MetricRegistry& registry, const ServedModel& model, bool compat)
    : mirror_(std::make_shared<Mirror>()) {
  const MetricLabels labels = {{"model_name", model.name()}};
  auto counter = [&](std::string_view name, std::string_view help) { return &registry.counter(name, help, labels); };
  auto gauge = [&](std::string_view name, std::string_view help) { return &registry.gauge(name, help, labels); };
  auto histogram = [&](std::string_view name, std::string_view help) {
    return &registry.histogram(name, help, latency_bounds(), labels);
  };
  prompt_tokens_ = counter("vernier_prompt_tokens_total", "Prompt tokens of requests that began to be answered.");
  generated_tokens_ = counter("vernier_generated_tokens_total", "Generated tokens, as they are delivered.");
  failed_ = counter("vernier_requests_failed_total", "Requests that ended with an error.");
  aborted_ = counter("vernier_requests_aborted_total", "Requests whose client went away or that were aborted.");
  for (AnswerEnd end : {AnswerEnd::kStop, AnswerEnd::kLength, AnswerEnd::kToolCalls}) {
    MetricLabels with_reason = labels;
    with_reason.emplace_back("finished_reason", answer_end_name(end));
    finished_[static_cast<size_t>(end)] = &registry.counter(
        "vernier_choices_finished_total", "Choices that came to their end, by the reason.", with_reason);
  }
  first_token_ = histogram("vernier_time_to_first_token_seconds", "From a request's submission to its first token.");
  token_gap_ = histogram("vernier_inter_token_latency_seconds", "Between two tokens of a choice.");
  whole_ = histogram("vernier_request_seconds", "From a request's submission to the end of its answer.");
  queue_ = histogram("vernier_request_queue_seconds", "A choice's time in the queue.");
  prefill_ = histogram("vernier_request_prefill_seconds", "A choice's time in steps that computed its prompt.");
  decode_ = histogram("vernier_request_decode_seconds", "A choice's time in steps that computed its answer.");
  inference_ = histogram("vernier_request_inference_seconds", "A choice's time from its admission to its end.");

  Mirror& mirror = *mirror_;
  mirror.model = &model;
  mirror.running = gauge("vernier_requests_running", "Choices that run.");
  mirror.waiting = gauge("vernier_requests_waiting", "Choices that wait to run.");
  mirror.cache_usage = gauge("vernier_cache_usage_ratio", "Blocks held by requests, of all, in the fullest class.");
  mirror.preemptions = gauge("vernier_preemptions", "Preemptions so far.");
  for (const EngineStats::CacheClassStats& cache : model.engine->stats().cache) {
    auto blocks = [&](const char* state) {
      MetricLabels with_state = labels;
      with_state.emplace_back("window", cache.window ? std::to_string(*cache.window) : "none");
      with_state.emplace_back("state", state);
      return &registry.gauge("vernier_cache_blocks", "Blocks of keys and values of one class of layers.", with_state);
    };
    mirror.class_blocks.push_back({blocks("held"), blocks("cached"), blocks("free")});
  }
  mirror.add_saturated(registry, labels);
  auto follow = [&](std::string_view name, std::string_view help, int64_t EngineStats::*total) {
    mirror.followers.push_back({counter(name, help), total});
  };
  follow("vernier_prefix_hit_tokens_total", "Prompt tokens found in the cache.", &EngineStats::cached_prompt_tokens);
  follow("vernier_prefix_query_tokens_total", "Prompt tokens looked up in the cache.", &EngineStats::prompt_tokens);
  follow("vernier_preemptions_total", "Requests whose blocks were taken away for a time.", &EngineStats::preemptions);
  follow("vernier_steps_total", "Steps that the engine ran.", &EngineStats::steps);
  follow("vernier_step_rows_total", "Rows of all steps.", &EngineStats::step_rows);
  follow("vernier_steps_failed_total", "Steps that failed.", &EngineStats::failed_steps);
  follow("vernier_requests_refused_total", "Requests refused for a full queue.", &EngineStats::requests_refused);
  registry.before_exposition([kept = mirror_] { kept->refresh(); });
  if (!compat) return;
  for (const KnownNames& names : kKnownNames) {
    for (std::string_view other : names.others) {
      if (!other.empty()) registry.alias(names.ours, other);
    }
  }
}

void ServerMetrics::observe_first_token(int64_t ns) {
  first_token_->observe(seconds(ns));
}

void ServerMetrics::observe_token_gap(int64_t ns) {
  token_gap_->observe(seconds(ns));
}

void ServerMetrics::count_finished(const ChoiceResult& result) {
  finished_[static_cast<size_t>(result.end)]->add();
  const RequestLedger& ledger = result.ledger;
  queue_->observe(seconds(ledger.queue_ns));
  prefill_->observe(seconds(ledger.prefill_ns));
  decode_->observe(seconds(ledger.decode_ns));
  inference_->observe(seconds(ledger.total_ns() - ledger.queue_ns - ledger.client_ns));
}

void ServerMetrics::count_answer(int64_t total_ns) {
  whole_->observe(seconds(total_ns));
}

void ServerMetrics::count_prompt(int64_t tokens) {
  prompt_tokens_->add(static_cast<double>(tokens));
}

}  // namespace vernier
