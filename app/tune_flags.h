#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/backend_choice.h"
#include "api/tune_model.h"
#include "app/tactic_sources.h"
#include "base/result.h"

namespace vernier {

/// How a run of a model uses tactics.
struct TuneFlags {
  std::string tune = "off";
  std::string budget = "10s";
  int64_t most_bytes = 1'000'000'000;
  std::vector<std::string> skip;
  std::vector<std::string> pins;
  int64_t watch = 0;
  std::string on_untuned = "allow";
  TuneStoreFlags store;

  /// --tune, --tune-budget, --tune-memory, --tune-skip, --tune-pin, --tune-store, --on-untuned.
  void add_to(CLI::App& command);
  Result<TacticUse> use() const;
  /// Null where the backend has no tactics; an error where that is asked for all the same.
  Result<std::shared_ptr<TacticStore>> open_store(const BackendOptions& backend) const;
  Result<TuneRequest> request() const;

  /// Measures what --tune asks for, and answers what is untuned as --on-untuned says. `store` may be null.
  Status settle(Backend& backend, std::span<const DecoderPart> parts, TacticStore* store) const;

 private:
  Status check_untuned(const Backend& backend, std::span<const DecoderPart> parts, TacticStore& store) const;
};

/// Work that calls the request's on_progress, with a bar that shows how far it is.
using TuneWork = std::function<Result<TuneReport>(const TuneRequest& request)>;
Result<TuneReport> with_progress(const TuneWork& work, TuneRequest request);
Result<TuneReport> tune_with_progress(Backend& backend, std::span<const DecoderPart> parts, TacticStore& store,
                                      TuneRequest request);

/// "linear 3072x576 q4_1, steps of 512 rows"
std::string short_problem_text(const Problem& problem);

/// "60s", "500ms", "2min", or seconds without a unit.
Result<int64_t> parse_budget_ns(std::string_view flag, std::string_view text);

}  // namespace vernier
