#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "grammar/grammar_matcher.h"
#include "sched/step_plan.h"

namespace vernier {

/// One request inside the engine: what the planner's integers do not know of it. Engine thread only.
struct Sequence {
  /// Where its time goes until the next mark.
  enum class Spends { kQueue, kWaiting, kPreempted };

  Sequence(RequestId request_id, Request r, std::shared_ptr<RequestSink> s, int64_t now_ns)
      : id(request_id),
        request(std::move(r)),
        sink(std::move(s)),
        history(request.prompt),
        submitted_ns(now_ns),
        marked_ns(now_ns) {}

  /// Books the time since the last mark.
  void mark(int64_t now_ns) {
    const int64_t spent = now_ns - marked_ns;
    marked_ns = now_ns;
    switch (spends) {
      case Spends::kQueue:
        ledger.queue_ns += spent;
        break;
      case Spends::kWaiting:
        ledger.waiting_ns += spent;
        break;
      case Spends::kPreempted:
        ledger.preempted_ns += spent;
        break;
    }
  }
  /// Books a step that computed rows of it up to `end_position`, and spent `padding_ns` on rows of nobody.
  void mark_step(int64_t launched_ns, int64_t now_ns, int64_t padding_ns, int32_t end_position) {
    mark(launched_ns);
    marked_ns = now_ns;
    ledger.padding_ns += padding_ns;
    const int64_t spent = now_ns - launched_ns - padding_ns;
    if (end_position <= furthest_position) {
      ledger.recompute_ns += spent;
    } else if (generated == 0) {
      ledger.prefill_ns += spent;
    } else {
      ledger.decode_ns += spent;
    }
    furthest_position = std::max(furthest_position, end_position);
  }

  int32_t prompt_tokens() const { return static_cast<int32_t>(request.prompt.size()); }

  RequestId id;
  SequenceId sequence{};
  Request request;
  std::shared_ptr<RequestSink> sink;
  TokenHistory history;
  std::optional<GrammarMatcher> matcher;
  std::vector<uint32_t> mask;  ///< of the next token, while a step runs
  Status mask_filled;          ///< a failure ends the request
  int32_t generated = 0;
  int32_t furthest_position = 0;  ///< positions computed at least once
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;
  int32_t prompt_scored = 1;  ///< prompt tokens below this have their log probability
  std::vector<SampledToken> prompt_scores;
  std::vector<float> hidden;  ///< [hidden] sum or last, of an embedding request
  int32_t pooled_tokens = 0;  ///< prompt tokens in `hidden`, of a mean

  int64_t submitted_ns;
  int64_t marked_ns;
  Spends spends = Spends::kQueue;
  RequestLedger ledger;
};

}  // namespace vernier
