#include "api/tune_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "api/met_problem.h"
#include "base/clock.h"
#include "base/log.h"
#include "tune/stored_tactics.h"

namespace vernier {
namespace {

/// Measures one and commits it.
Status tune_one(Backend& backend, TacticStore& store, const TuneRequest& request, int64_t budget_ns, MetProblem& met) {
  MeasureRules rules;
  rules.budget_ns = budget_ns;
  rules.most_bytes = request.most_bytes;
  Result<MeasuredTactic> found = backend.measure_linear(*met.matrix, met.told.problem, met.rows, rules);
  if (!found.ok()) {
    met.told.state = TunedProblem::State::kFailed;
    met.told.why = found.error().message;
    log_warning("{} keeps its fixed choice: {}", met.told.problem.to_string(), met.told.why);
    return {};
  }
  Tactic& tactic = found->tactic;
  tactic.device = store.scope().device;
  tactic.libraries = store.scope().libraries;
  tactic.measured_at_ms = calendar_ns() / 1'000'000;
  tactic.version = request.version;
  met.told.state = TunedProblem::State::kMeasured;
  met.told.fixed_ns = found->fixed_ns;
  met.told.fixed = found->fixed_is_chosen;
  met.told.tactic = tactic;
  TRY_STATUS(store.commit(std::move(tactic)));
  return {};
}

}  // namespace

int64_t TuneReport::count(TunedProblem::State state) const {
  return std::ranges::count(problems, state, &TunedProblem::state);
}

double TuneReport::mean_gain() const {
  double sum = 0;
  int64_t count = 0;
  for (const TunedProblem& one : problems) {
    if (one.state != TunedProblem::State::kMeasured || one.fixed_ns <= 0 || one.tactic.time.median_ns <= 0) continue;
    sum += std::log(one.fixed_ns / one.tactic.time.median_ns);
    ++count;
  }
  return count == 0 ? 1 : std::exp(sum / static_cast<double>(count));
}

std::vector<TunedProblem> list_problems(const Backend& backend, std::span<const DecoderPart> parts) {
  std::vector<TunedProblem> told;
  for (MetProblem& met : meet_problems(backend, parts)) told.push_back(std::move(met.told));
  return told;
}

Status check_skipped_ops(std::span<const TunedProblem> problems, std::span<const std::string> skip) {
  std::set<std::string> known;
  for (const TunedProblem& one : problems) {
    known.insert(one.problem.op);
    known.insert(one.ops.begin(), one.ops.end());
  }
  for (const std::string& op : skip) {
    if (!known.contains(op)) return invalid_argument("'{}' is no op to skip; there are {}", op, fmt::join(known, ", "));
  }
  return {};
}

Result<TuneReport> tune_model(Backend& backend, std::span<const DecoderPart> parts, TacticStore& store,
                              const TuneRequest& request) {
  const Stopwatch watch;
  std::vector<MetProblem> met = meet_problems(backend, parts);
  TRY_STATUS(check_skipped_ops(list_problems(backend, parts), request.skip));
  store.refresh();
  std::vector<MetProblem*> wanted;
  for (MetProblem& one : met) {
    if (is_skipped(one.told.problem, one.told.ops, request.skip)) {
      one.told.state = TunedProblem::State::kSkipped;
    } else if (request.what == TuneWhat::kMissing && store.find(store.prepare(one.told.problem)) != nullptr) {
      one.told.state = TunedProblem::State::kKnown;
    } else {
      wanted.push_back(&one);
    }
  }
  const auto total = static_cast<int64_t>(wanted.size());
  for (int64_t done = 0; done < total; ++done) {
    if (request.on_progress) request.on_progress(done, total);
    const int64_t left_ns = request.budget_ns - watch.elapsed_ns();
    if (left_ns <= 0) break;
    const int64_t share_ns = share_of_budget(left_ns, total - done);
    TRY_STATUS(tune_one(backend, store, request, share_ns, *wanted[static_cast<size_t>(done)]));
  }
  if (request.on_progress) request.on_progress(total, total);
  TRY_STATUS(backend.refresh_tactics());
  TuneReport report;
  for (MetProblem& one : met) report.problems.push_back(std::move(one.told));
  report.elapsed_ns = watch.elapsed_ns();
  return report;
}

}  // namespace vernier
