#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/linear_plan.h"
#include "tune/batch_bucket.h"
#include "tune/tactic_store.h"
#include "tune/tactic_use.h"
#include "tune/tactic_watch.h"
#include "tune/untuned.h"

namespace vernier {

/// What is resolved of products alike when the first of them is packed: of each number of rows the plan of its tactic.
/// A step looks it up by an index: no hash, no lock, no memory. Changes only while no step runs.
class PreparedLinear {
 public:
  /// Null: no tactic is known, and the fixed plan runs.
  const LinearPlan* find(int64_t rows) const noexcept {
    const Bucket& bucket = buckets_[static_cast<size_t>(batch_bucket(rows))];
    return bucket.tuned ? &bucket.plan : nullptr;
  }
  /// Null: launches of so many rows are not watched. One thread launches.
  TacticWatch* watch(int64_t rows) const noexcept { return buckets_[static_cast<size_t>(batch_bucket(rows))].watch; }
  /// Of a step that is launched. One thread counts; any may read.
  void count(int64_t rows) const noexcept {
    if (find(rows) != nullptr) return;
    untuned_.store(untuned_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  int64_t untuned_launches() const { return untuned_.load(std::memory_order_relaxed); }

  /// The watch outlives this, or the next `set`.
  void set(int64_t rows, const LinearPlan& plan, TacticWatch* watch = nullptr) {
    buckets_[static_cast<size_t>(batch_bucket(rows))] = {true, plan, watch};
  }
  void clear() { buckets_ = {}; }

 private:
  struct Bucket {
    bool tuned = false;
    LinearPlan plan;
    TacticWatch* watch = nullptr;
  };
  std::array<Bucket, kBatchBuckets> buckets_;
  mutable std::atomic<int64_t> untuned_{0};
};

/// Resolves tactics for the products of a backend, which are prepared once each and live as long as this. Any thread,
/// while no step runs; `untuned` always.
class LinearTactics {
 public:
  explicit LinearTactics(int threads) : threads_(threads) {}

  /// From now on, for what was prepared before, too. Refuses a pin that a problem which it finds cannot have.
  Status use(std::shared_ptr<TacticStore> store, TacticUse use);
  /// Looks again at all that was prepared: the store has learnt.
  Status refresh();
  /// Has each segment know its plans.
  Status prepare(CpuMatrix& matrix);

  std::vector<UntunedLaunches> untuned() const;

 private:
  struct Known {
    std::unique_ptr<CpuMatrix> like;  ///< one segment of these products, without their bytes
    PreparedLinear prepared;
    std::array<std::unique_ptr<TacticWatch>, kBatchBuckets> watches;
  };
  Status resolve(Known& known);
  std::unique_ptr<TacticWatch> watch_of(const Tactic& tactic) const;

  const int threads_;
  mutable std::mutex mutex_;            ///< of what follows; no step takes it
  std::shared_ptr<TacticStore> store_;  ///< null: none
  TacticUse use_;
  std::map<std::string, Known> known_;  ///< by problem, whatever the rows of a step
};

/// The segments of one kind as a matrix, over the same bytes: what a problem is measured with. `kind` of
/// linear_kinds(). The matrix outlives it.
CpuMatrix view_of_kind(const CpuMatrix& matrix, const MatrixSegment& kind);

}  // namespace vernier
