#include "api/library_tactics.h"

#include <string>
#include <string_view>

#include "base/log.h"

namespace vernier {
namespace {

constexpr int64_t kTuneBudgetMs = 10'000;
constexpr int64_t kMostTuneBudgetMs = 1'000'000'000;
constexpr std::string_view kReadOnly = ":ro";

std::string text_of(const char* given) {
  return given == nullptr ? "" : given;
}

TacticStoreOptions store_options(const std::string& given) {
  TacticStoreOptions store;
  if (given.ends_with(kReadOnly)) {
    store.layers.emplace_back(given.substr(0, given.size() - kReadOnly.size()));
  } else if (!given.empty()) {
    store.folder = given;
  }
  return store;
}

}  // namespace

Result<LibraryTactics> LibraryTactics::read(const vernier_engine_options& options, const BackendOptions& backend) {
  LibraryTactics tactics;
  const std::string tune = text_of(options.tune), folder = text_of(options.tune_store);
  if (tune == "missing" || tune == "full") {
    tactics.tune.emplace();
    tactics.tune->what = tune == "full" ? TuneWhat::kAll : TuneWhat::kMissing;
    tactics.tune->version = vernier_version();
  } else if (!tune.empty() && tune != "off") {
    return invalid_argument("tune {}: expected off, missing or full", tune);
  }
  if (options.tune_budget_ms < 0 || options.tune_budget_ms > kMostTuneBudgetMs) {
    return invalid_argument("tune_budget_ms is {}, expected 0 to {}", options.tune_budget_ms, kMostTuneBudgetMs);
  }
  const int64_t budget_ms = options.tune_budget_ms == 0 ? kTuneBudgetMs : options.tune_budget_ms;
  if (tactics.tune) tactics.tune->budget_ns = budget_ms * 1'000'000;
  Result<TacticScope> scope = tactic_scope(backend);
  if (scope.ok()) {
    tactics.store = std::make_shared<TacticStore>(std::move(scope).value(), store_options(folder));
  } else if (tactics.tune || !folder.empty() || scope.error().code != ErrorCode::kUnsupported) {
    return std::move(scope).error();
  }
  return tactics;
}

Status LibraryTactics::settle(const LoadedModel& model) const {
  if (!tune) return {};
  TRY_BIND(const TuneReport report, tune_model(model.backend(), model.decoder().parts(), *store, *tune));
  using State = TunedProblem::State;
  log_info("tuned {} problems: {} were known, {} are left for another time", report.count(State::kMeasured),
           report.count(State::kKnown), report.count(State::kNotCovered));
  return {};
}

}  // namespace vernier
