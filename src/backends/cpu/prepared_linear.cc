#include "backends/cpu/prepared_linear.h"

#include <algorithm>

#include "base/log.h"

namespace vernier {
namespace {

/// Rows of the segments of one kind.
int64_t rows_of_kind(const CpuMatrix& matrix, const MatrixSegment& kind) {
  int64_t rows = 0;
  for (const MatrixSegment& segment : matrix.segments()) rows += is_of_kind(segment, kind) ? segment.rows : 0;
  return rows;
}

/// What choosing looks at: no bytes and no scales of rows.
std::unique_ptr<CpuMatrix> without_bytes(const CpuMatrix& matrix, const MatrixSegment& kind) {
  MatrixSegment segment;
  segment.layout = kind.layout;
  segment.codec = kind.codec;
  segment.fp8_refused = kind.fp8_refused;
  segment.rows = rows_of_kind(matrix, kind);
  segment.panels = (segment.rows + kind.layout.rows - 1) / kind.layout.rows;
  const int64_t rows = segment.rows;
  std::vector<MatrixSegment> segments;
  segments.push_back(std::move(segment));
  return std::make_unique<CpuMatrix>(rows, matrix.cols(), std::move(segments), PackedBytes(), PackedInfo(),
                                     matrix.isa(), matrix.numerics());
}

}  // namespace

Status LinearTactics::use(std::shared_ptr<TacticStore> store, TacticUse use) {
  {
    const std::lock_guard guard(mutex_);
    store_ = std::move(store);
    use_ = std::move(use);
  }
  return refresh();
}

Status LinearTactics::refresh() {
  const std::lock_guard guard(mutex_);
  for (auto& [problem, known] : known_) TRY_STATUS(resolve(known));
  return {};
}

Status LinearTactics::prepare(CpuMatrix& matrix) {
  const std::lock_guard guard(mutex_);
  for (const MatrixSegment* kind : linear_kinds(matrix)) {
    const auto [at, is_new] = known_.try_emplace(linear_problem(matrix, *kind, 1).to_string());
    Known& known = at->second;
    if (is_new) {
      known.like = without_bytes(matrix, *kind);
      TRY_STATUS(resolve(known));
    }
    for (size_t i = 0; i < matrix.segments().size(); ++i) {
      if (is_of_kind(matrix.segments()[i], *kind)) matrix.set_prepared(i, known.prepared);
    }
  }
  return {};
}

/// A pin must serve; a tactic that does not is as if there were none, and a line of log says so.
Status LinearTactics::resolve(Known& known) {
  known.prepared.clear();
  known.watches = {};
  const CpuMatrix& like = *known.like;
  const MatrixSegment& segment = like.segments().front();
  for (int bucket = 0; bucket < kBatchBuckets; ++bucket) {
    const int64_t rows = bucket_rows(bucket);
    const Problem problem = linear_problem(like, segment, rows);
    if (const TacticPin* pin = use_.pin_of(problem)) {
      Result<LinearPlan> plan = read_plan({pin->kernel, "", pin->parameters}, like, segment, rows, threads_);
      if (!plan.ok()) {
        Error error = plan.error();
        error.message = fmt::format("pin '{}' for {}: {}", pin->text, problem.to_string(), error.message);
        return error;
      }
      known.prepared.set(rows, *plan);
      continue;
    }
    if (store_ == nullptr || use_.skips(problem.op)) continue;
    const Tactic* tactic = store_->find(store_->prepare(problem));
    if (tactic == nullptr) continue;
    const Result<LinearPlan> plan = read_plan(tactic->chosen, like, segment, rows, threads_);
    if (plan.ok()) {
      std::unique_ptr<TacticWatch>& watch = known.watches[static_cast<size_t>(bucket)];
      watch = watch_of(*tactic);
      known.prepared.set(rows, *plan, watch.get());
    } else {
      log_warning("the tactic for {} is not used: {}", problem.to_string(), plan.error().message);
    }
  }
  return {};
}

/// Tells once in the log, and the store for all others.
std::unique_ptr<TacticWatch> LinearTactics::watch_of(const Tactic& tactic) const {
  if (use_.watch_every == 0) return nullptr;
  const auto tell = [store = store_, problem = tactic.problem,
                     recorded_ns = tactic.time.median_ns](const SlowerInUse& seen) {
    log_warning(
        "the tactic for {} takes {:.1f} us in the median of {} launches and was measured with {:.1f} us; vernier "
        "tune --tune full measures it again",
        problem.to_string(), seen.median_ns * 1e-3, seen.launches, recorded_ns * 1e-3);
    store->note_slower(tactic_key(problem), seen);
  };
  return std::make_unique<TacticWatch>(tactic.time, use_.watch_every, tell);
}

std::vector<UntunedLaunches> LinearTactics::untuned() const {
  const std::lock_guard guard(mutex_);
  std::vector<UntunedLaunches> all;
  for (const auto& [problem, known] : known_) {
    all.push_back(
        {"linear",
         fmt::format("{}x{} {}", known.like->rows(), known.like->cols(), known.like->segments().front().codec),
         known.prepared.untuned_launches(),
         std::ranges::count_if(known.watches, [](const auto& watch) { return watch != nullptr && watch->slower(); })});
  }
  return all;
}

CpuMatrix view_of_kind(const CpuMatrix& matrix, const MatrixSegment& kind) {
  std::vector<MatrixSegment> segments;
  int64_t rows = 0;
  for (const MatrixSegment& segment : matrix.segments()) {
    if (!is_of_kind(segment, kind)) continue;
    segments.push_back(segment);
    segments.back().first_row = rows;
    segments.back().prepared = nullptr;
    rows += segment.rows;
  }
  return {rows, matrix.cols(), std::move(segments), PackedBytes(), PackedInfo(), matrix.isa(), matrix.numerics()};
}

}  // namespace vernier
