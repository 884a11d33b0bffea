#include "app/tune_ranks_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "api/loaded_shard.h"
#include "api/tune_ranks.h"
#include "app/commands.h"
#include "app/exit_code.h"
#include "app/number_flags.h"
#include "base/thread_pool.h"
#include "comm/thread_ranks.h"

namespace vernier {
namespace {

/// What all ranks of this process are started with.
struct RankRun {
  TuneRunFlags flags;
  RankFlags::Plan plan;
  std::vector<std::string> forms;
};

/// Its share of the model, in a backend with its share of this machine's processors.
Result<std::unique_ptr<LoadedShard>> load_rank(const RankRun& run, int rank) {
  const auto& [flags, plan, forms] = run;
  TRY_STATUS(check_tunable(flags, forms));
  TRY_BIND(const bool encoder, names_encoder(flags.model));
  if (encoder) return unsupported("--tp shards decoders; {} is an encoder", flags.model.model);
  LoadOptions options;
  TRY_BIND(options.backend, flags.model.backend_options());
  if (options.backend.threads == 0) options.backend.threads = std::max(1, usable_cpus() / plan.ranks_here);
  TRY_BIND(options.quantise, flags.model.quantise_request(options.backend.threads));
  TRY_BIND(options.tactics, flags.model.tune.open_store(options.backend));
  if (options.tactics == nullptr) {
    return unsupported("the {} backend measures no tactics; cpu does", flags.model.backend);
  }
  TRY_BIND(options.tactic_use, flags.model.tune.use());
  TRY_BIND(const std::string path, find_model(flags.model.model));
  return LoadedShard::load(path, options, flags.ranks.tp, rank);
}

Result<TuneReport> tune_rank(const RankRun& run, Communicator& ranks) {
  Result<std::unique_ptr<LoadedShard>> shard = load_rank(run, ranks.rank());
  if (!shard.ok()) return ranks.give_up(std::move(shard).error());
  TRY_BIND(TuneRequest request, run.flags.model.tune.request());
  const TuneWork work = [&](const TuneRequest& with_bar) {
    return tune_ranks(ranks, (*shard)->backend(), (*shard)->parts(), *(*shard)->tactics(), with_bar);
  };
  return ranks.rank() == 0 ? with_progress(work, std::move(request)) : work(request);
}

/// A rank's error that it had from another says so.
bool is_first_hand(const Status& status) {
  return !status.ok() && !(status.error().message.starts_with("rank ") &&
                           status.error().message.find(" gave up: ") != std::string::npos);
}

/// What went wrong, each rank's own error once.
Error join_errors(const std::vector<Status>& ended) {
  std::vector<std::pair<std::string, std::vector<int>>> told;
  ErrorCode code = ErrorCode::kInternal;
  for (const bool first_hand : {true, false}) {
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      if (ended[rank].ok() || is_first_hand(ended[rank]) != first_hand) continue;
      const std::string text = ended[rank].error().to_string();
      if (told.empty()) code = ended[rank].error().code;
      auto at = std::ranges::find(told, text, &std::pair<std::string, std::vector<int>>::first);
      if (at == told.end()) at = told.insert(told.end(), {text, {}});
      at->second.push_back(static_cast<int>(rank));
    }
    if (!told.empty()) break;
  }
  if (told.size() == 1 && told[0].second.size() == ended.size()) return {code, told[0].first, {}};
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : told) parts.push_back(fmt::format("{}: {}", ranks_text(ranks), text));
  return {code, fmt::format("{}", fmt::join(parts, "; ")), {}};
}

Status run_as_threads(const RankRun& run) {
  const auto report = std::make_shared<TuneReport>();
  const ThreadRanks ranks =
      run_on_threads(run.flags.ranks.tp, run.plan.timeout_ns, [run, report](Communicator& own) -> Status {
        TRY_BIND(TuneReport found, tune_rank(run, own));
        if (own.rank() == 0) *report = std::move(found);
        return {};
      });
  if (std::ranges::all_of(ranks.ended, &Status::ok)) return tell_tuned(std::move(*report), run.flags);
  Error error = join_errors(ranks.ended);
  if (ranks.left_behind.empty()) return error;
  // A thread that hangs would be in the way of an orderly end.
  fmt::print(stderr, "error: {}\n", error.to_string());
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(exit_code(error.code)));
}

Status run_as_process(const RankRun& run) {
  TRY_BIND(const std::unique_ptr<Communicator> ranks, run.flags.ranks.join(run.plan));
  Result<TuneReport> report = tune_rank(run, *ranks);
  if (report.ok()) return ranks->rank() == 0 ? tell_tuned(*std::move(report), run.flags) : Status();
  Error error = std::move(report).error();
  error.message = fmt::format("rank {}: {}", ranks->rank(), error.to_string());
  error.where.clear();
  return error;
}

}  // namespace

Status run_tune_ranks(const TuneRunFlags& flags, const RankFlags::Plan& plan, const std::vector<std::string>& forms) {
  const RankRun run{flags, plan, forms};
  return plan.by == RankFlags::By::kThreads ? run_as_threads(run) : run_as_process(run);
}

}  // namespace vernier
