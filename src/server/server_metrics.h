#pragma once

#include <cstdint>
#include <memory>

#include "server/metrics.h"
#include "server/reply_writer.h"
#include "server/served_model.h"

namespace vernier {

/// What is counted of the requests that one served model answers, and its engine's state at each exposition. Under the
/// names of Vernier and, with `compat`, also under those that dashboards for vLLM, SGLang and llama.cpp know. The
/// registry outlives it; it outlives the model's engine, which delivers to the end, and the model outlives expositions.
class ServerMetrics {
 public:
  ServerMetrics(MetricRegistry& registry, const ServedModel& model, bool compat);

  void observe_first_token(int64_t ns);
  void observe_token_gap(int64_t ns);
  /// One choice that came to its end.
  void count_finished(const ChoiceResult& result);
  /// One API request that was answered.
  void count_answer(int64_t total_ns);
  /// A token on its way to a client, the end token included.
  void count_generated() { generated_tokens_->add(); }
  void count_failed() { failed_->add(); }
  void count_aborted() { aborted_->add(); }
  /// Once its first token, or its embedding, is there.
  void count_prompt(int64_t tokens);

 private:
  struct Mirror;  // gauges and counters that follow the engine's

  Counter *prompt_tokens_, *generated_tokens_, *failed_, *aborted_;
  Counter* finished_[3];  // [AnswerEnd]
  Histogram *first_token_, *token_gap_, *whole_, *queue_, *prefill_, *decode_, *inference_;
  std::shared_ptr<Mirror> mirror_;
};

}  // namespace vernier
