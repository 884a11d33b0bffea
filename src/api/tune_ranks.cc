#include "api/tune_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "api/met_problem.h"
#include "base/clock.h"
#include "base/log.h"
#include "tune/agreement.h"
#include "tune/stored_tactics.h"

namespace vernier {
namespace {

/// What every rank told, read.
template <class Told>
Result<std::vector<Told>> read_all(const std::vector<std::string>& bytes, Result<Told> (*read)(std::string_view)) {
  std::vector<Told> all;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    Result<Told> told = read(bytes[rank]);
    if (!told.ok()) return corrupt("what rank {} told: {}", rank, told.error().message);
    all.push_back(std::move(*told));
  }
  return all;
}

/// Whether a kernel is a rank's fixed choice, which is known by its time alone.
bool is_fixed(const RankFinding& finding, const NamedKernel& named) {
  const std::string name = named.to_string();
  if (finding.tactic->chosen.to_string() == name) return finding.tactic->time.median_ns == finding.fixed_ns;
  return std::ranges::any_of(finding.tactic->others, [&](const TriedCandidate& tried) {
    return tried.named.to_string() == name && tried.time.median_ns == finding.fixed_ns;
  });
}

/// One rank of a tuning. Whatever fails on it alone is told to the others by its caller.
class RankTuning {
 public:
  RankTuning(Communicator& ranks, Backend& backend, TacticStore& store, const TuneRequest& request)
      : ranks_(ranks), backend_(backend), store_(store), request_(request) {}

  Result<TuneReport> run(std::span<const DecoderPart> parts);

 private:
  int64_t left_ns() const { return std::max<int64_t>(0, request_.budget_ns - watch_.elapsed_ns()); }
  RankKnowledge knowledge();
  Result<std::vector<SharedProblem>> share();
  std::vector<TunedProblem> plan(const std::vector<SharedProblem>& shared) const;
  Status tune_one(TunedProblem& told, int64_t share_ns);
  RankFinding find(const TunedProblem& told, int64_t share_ns);
  Status settle(TunedProblem& told, const std::vector<RankFinding>& findings);
  Status compare();

  Communicator& ranks_;
  Backend& backend_;
  TacticStore& store_;
  const TuneRequest& request_;
  const Stopwatch watch_;
  int64_t least_left_ns_ = 0;  // on any rank
  std::vector<MetProblem> own_;
  std::map<std::string, MetProblem*> own_by_name_;
};

RankKnowledge RankTuning::knowledge() {
  RankKnowledge told;
  told.device = store_.scope().device;
  told.libraries = store_.scope().libraries;
  told.settings = {{"version", request_.version},
                   {"tune", request_.what == TuneWhat::kAll ? "full" : "missing"},
                   {"skip", fmt::format("{}", fmt::join(request_.skip, ","))}};
  told.left_ns = left_ns();
  for (const MetProblem& met : own_) {
    RankProblem& one = told.problems.emplace_back(RankProblem{met.told.problem, met.told.ops, {}});
    const Tactic* known = store_.find(store_.prepare(met.told.problem));
    if (known != nullptr) one.chosen = known->chosen;
  }
  return told;
}

Result<std::vector<SharedProblem>> RankTuning::share() {
  store_.refresh();
  TRY_BIND(const std::vector<std::string> bytes,
           ranks_.all_gather("what each rank knows", write_knowledge(knowledge())));
  TRY_BIND(const std::vector<RankKnowledge> by_rank, read_all(bytes, read_knowledge));
  TRY_STATUS(check_alike(by_rank));
  least_left_ns_ = std::ranges::min(by_rank, {}, &RankKnowledge::left_ns).left_ns;
  return share_problems(by_rank);
}

std::vector<TunedProblem> RankTuning::plan(const std::vector<SharedProblem>& shared) const {
  std::vector<TunedProblem> all;
  for (const SharedProblem& one : shared) {
    TunedProblem& told = all.emplace_back();
    told.problem = one.problem;
    told.ops = one.ops;
    told.ranks = one.ranks;
    if (is_skipped(one.problem, one.ops, request_.skip)) {
      told.state = TunedProblem::State::kSkipped;
    } else if (one.is_known && request_.what == TuneWhat::kMissing) {
      told.state = TunedProblem::State::kKnown;
    }
  }
  return all;
}

/// What this rank finds of a problem; nothing where it does not have it.
RankFinding RankTuning::find(const TunedProblem& told, int64_t share_ns) {
  RankFinding finding;
  const auto own = own_by_name_.find(told.problem.to_string());
  if (own != own_by_name_.end()) {
    MeasureRules rules;
    rules.budget_ns = share_ns;
    rules.most_bytes = request_.most_bytes;
    const MetProblem& met = *own->second;
    Result<MeasuredTactic> found = backend_.measure_linear(*met.matrix, met.told.problem, met.rows, rules);
    if (found.ok()) {
      finding.tactic = std::move(found->tactic);
      finding.tactic->device = store_.scope().device;
      finding.tactic->libraries = store_.scope().libraries;
      finding.tactic->measured_at_ms = calendar_ns() / 1'000'000;
      finding.tactic->version = request_.version;
      finding.fixed_ns = found->fixed_ns;
    } else {
      finding.why = found.error().message;
    }
  }
  finding.left_ns = left_ns();
  return finding;
}

/// Each rank comes to the same end and commits the same record, if the problem is its own.
Status RankTuning::settle(TunedProblem& told, const std::vector<RankFinding>& findings) {
  Result<Tactic> agreed = agree_on_tactic(told.ranks, findings);
  if (!agreed.ok()) {
    told.state = TunedProblem::State::kFailed;
    told.why = agreed.error().message;
    return {};
  }
  told.state = TunedProblem::State::kMeasured;
  for (const int rank : told.ranks) {
    told.fixed_ns = std::max(told.fixed_ns, findings[static_cast<size_t>(rank)].fixed_ns);
  }
  told.fixed = is_fixed(findings[static_cast<size_t>(told.ranks.front())], agreed->chosen);
  told.tactic = *agreed;
  if (!own_by_name_.contains(told.problem.to_string())) return {};
  TRY_STATUS(store_.commit(*std::move(agreed)));
  return {};
}

Status RankTuning::tune_one(TunedProblem& told, int64_t share_ns) {
  const RankFinding own = find(told, share_ns);
  TRY_BIND(const std::vector<std::string> bytes, ranks_.all_gather(told.problem.to_string(), write_finding(own)));
  TRY_BIND(const std::vector<RankFinding> findings, read_all(bytes, read_finding));
  least_left_ns_ = std::ranges::min(findings, {}, &RankFinding::left_ns).left_ns;
  TRY_STATUS(settle(told, findings));
  if (told.state == TunedProblem::State::kFailed && ranks_.rank() == 0) {
    log_warning("{} keeps its fixed choice: {}", told.problem.to_string(), told.why);
  }
  return {};
}

/// Whether all would choose alike now.
Status RankTuning::compare() {
  RankChoices own;
  for (const MetProblem& met : own_) {
    const Tactic* found = store_.find(tactic_key(met.told.problem));
    own.problems.push_back(met.told.problem.to_string());
    own.kernels.push_back(
        found == nullptr ? "" : fmt::format("{} of {:.12}", found->chosen.to_string(), found->chosen.kernel_hash));
  }
  TRY_BIND(const std::vector<std::string> bytes, ranks_.all_gather("what each rank will use", write_choices(own)));
  TRY_BIND(const std::vector<RankChoices> by_rank, read_all(bytes, read_choices));
  const Status same = check_same_choices(by_rank);
  if (same.ok()) return {};
  return make_error(ErrorCode::kInternal, "the ranks do not agree: {}; measure it with more time, or all anew",
                    same.error().message);
}

Result<TuneReport> RankTuning::run(std::span<const DecoderPart> parts) {
  own_ = meet_problems(backend_, parts);
  for (MetProblem& met : own_) own_by_name_.emplace(met.told.problem.to_string(), &met);
  TRY_BIND(const std::vector<SharedProblem> shared, share());
  TuneReport report;
  report.problems = plan(shared);
  TRY_STATUS(check_skipped_ops(report.problems, request_.skip));
  std::vector<TunedProblem*> wanted;
  for (TunedProblem& told : report.problems) {
    if (told.state == TunedProblem::State::kNotCovered) wanted.push_back(&told);
  }
  const auto total = static_cast<int64_t>(wanted.size());
  for (int64_t done = 0; done < total && least_left_ns_ > 0; ++done) {
    if (request_.on_progress) request_.on_progress(done, total);
    TRY_STATUS(tune_one(*wanted[static_cast<size_t>(done)], share_of_budget(least_left_ns_, total - done)));
  }
  if (request_.on_progress) request_.on_progress(total, total);
  TRY_STATUS(backend_.refresh_tactics());
  TRY_STATUS(compare());
  report.elapsed_ns = watch_.elapsed_ns();
  return report;
}

}  // namespace

Result<TuneReport> tune_ranks(Communicator& ranks, Backend& backend, std::span<const DecoderPart> parts,
                              TacticStore& store, const TuneRequest& request) {
  Result<TuneReport> report = RankTuning(ranks, backend, store, request).run(parts);
  if (!report.ok()) return ranks.give_up(std::move(report).error());
  return report;
}

}  // namespace vernier
