#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/mask_filler.h"
#include "engine/sequence.h"
#include "sched/planner.h"
#include "sched/sched_state.h"

namespace vernier {

/// The engine thread and all it owns: the planner's state, the sequences, the step's arrays. Everything below `drain`
/// and `inbox_` belongs to that thread.
class EngineLoop {
 public:
  EngineLoop(std::unique_ptr<StepRunner> runner, std::unique_ptr<SchedState> state, const EngineOptions& options);
  ~EngineLoop();

  const ModelShape& shape() const { return runner_->shape(); }
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink);
  void cancel(RequestId id);
  void flush_cache();
  void drain() { draining_.store(true); }
  bool idle() const { return in_system_.load() == 0; }
  EngineStats stats() const;

 private:
  struct Submission {
    RequestId id;
    Request request;
    std::shared_ptr<RequestSink> sink;
    int64_t submitted_ns;
  };
  struct Inbox {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancels;
    bool flush = false;
    bool stop = false;
    bool empty() const { return submissions.empty() && cancels.empty() && !flush && !stop; }
  };

  void run();
  /// Takes what came in; false once the engine is to stop.
  bool take_inbox();
  void add(Submission submission);
  /// One step: plan, launch, forward, commit. False where nothing can run now.
  bool step();
  Result<StepOutput> forward();
  void expire_waiting(int64_t now_ns);
  /// Fails what runs, or was preempted, past its deadline; no step is under way.
  void expire_admitted(int64_t now_ns);
  void mark_admissions(int64_t now_ns);
  void fill_step();
  void fill_tables();
  void add_rows(const PlannedRows& rows, Sequence& member);
  static int32_t prompt_rows_to_score(const PlannedRows& rows, const Sequence& member);
  void commit_step(StepOutput output, int64_t launched_ns, int64_t now_ns);
  void fail_step(const Error& error, int64_t now_ns);
  /// What the step computed for one sequence, as news; `next` indexes its first sampled row.
  RequestUpdate accept(const PlannedRows& rows, Sequence& member, StepOutput& output, size_t& next);
  void accept_token(Sequence& member, SampledToken token, RequestUpdate& update);
  void accept_hidden(const PlannedRows& rows, Sequence& member, const StepOutput& output);

  Sequence& sequence(SequenceId id) { return *sequences_.at(static_cast<uint64_t>(id)); }
  void end(Sequence& member, FinishReason reason, int64_t now_ns);
  void fail(Sequence& member, Error error, int64_t now_ns);
  /// Delivers the last update and forgets the sequence.
  void finish_with(Sequence& member, RequestUpdate update, int64_t now_ns);
  void adapt_prefill(int64_t step_ns);
  void publish_stats();

  const EngineOptions options_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<SchedState> state_;
  std::vector<std::optional<int32_t>> class_windows_;
  MaskFiller masks_;

  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;  // by SequenceId
  std::unordered_map<RequestId, SequenceId> ids_;

  StepPlan plan_;
  std::vector<int32_t> tokens_, positions_, sampled_rows_, generated_, sampled_;
  std::vector<SequenceRows> rows_;
  std::vector<SampleSpec> specs_;
  std::vector<const Request*> requests_;
  std::vector<std::span<const int32_t>> histories_;
  struct TableArrays {
    std::vector<int32_t> blocks, begin, first_position;
  };
  std::vector<TableArrays> table_arrays_;
  std::vector<CacheTable> tables_;
  std::vector<MaskFiller::Job> mask_jobs_;
  bool hidden_wanted_ = false;
  double prefill_row_ns_ = 0;
  int64_t next_deadline_ns_ = std::numeric_limits<int64_t>::max();  // no request's is earlier

  EngineStats counts_;

  std::atomic<RequestId> next_id_{1};
  std::atomic<int32_t> in_system_{0};
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> step_began_ns_{0};  // of the step under way; 0: there is none
  mutable std::mutex stats_mutex_;
  EngineStats published_;

  std::mutex inbox_mutex_;
  std::condition_variable inbox_filled_;
  std::condition_variable flushed_;
  uint64_t flushes_ = 0;
  Inbox inbox_;
  Delivery delivery_;  // ends before the inbox: a sink may submit and cancel
  std::thread thread_;
};

}  // namespace vernier
