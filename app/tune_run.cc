#include "app/tune_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/tune_model.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/output_file.h"
#include "app/tune_flags.h"
#include "app/tune_ranks_run.h"
#include "comm/communicator.h"

namespace vernier {
namespace {

using State = TunedProblem::State;

constexpr const char* kTuneModelBudget = "60s";

struct NamedState {
  State state;
  std::string_view name;
};
constexpr NamedState kStates[] = {{State::kMeasured, "measured"},
                                  {State::kKnown, "known"},
                                  {State::kNotCovered, "not-covered"},
                                  {State::kSkipped, "skipped"},
                                  {State::kFailed, "failed"}};

std::string_view state_text(State state) {
  return std::ranges::find(kStates, state, &NamedState::state)->name;
}

/// How many times as fast as the fixed choice.
double gain_of(const TunedProblem& one) {
  return one.fixed_ns > 0 && one.tactic.time.median_ns > 0 ? one.fixed_ns / one.tactic.time.median_ns : 1;
}

nlohmann::json tuned_json(const TunedProblem& one) {
  nlohmann::json told = {{"problem", one.problem.to_string()}, {"ops", one.ops}, {"state", state_text(one.state)}};
  if (!one.ranks.empty()) told["ranks"] = one.ranks;
  if (one.state == State::kFailed) told["why"] = one.why;
  if (one.state != State::kMeasured) return told;
  told["kernel"] = one.tactic.chosen.kernel;
  for (const Problem::Fact& fact : one.tactic.chosen.parameters) told["parameters"][fact.name] = fact.value;
  told["median_ns"] = one.tactic.time.median_ns;
  told["spread_ns"] = one.tactic.time.spread_ns;
  told["repeats"] = one.tactic.time.repeats;
  told["fixed_ns"] = one.fixed_ns;
  told["fixed"] = one.fixed;
  told["tie"] = one.tactic.tie;
  told["candidates"] = one.tactic.others.size() + 1;
  return told;
}

/// "qkv, output"; of several ranks "qkv on rank 1", where not all have it.
std::string ops_text(const TunedProblem& one, int ranks) {
  std::string text = fmt::format("{}", fmt::join(one.ops, ", "));
  if (one.ranks.empty() || static_cast<int>(one.ranks.size()) == ranks) return text;
  return text + " on " + ranks_text(one.ranks);
}

void print_measured(const TuneReport& report, int ranks) {
  fmt::print("{:<38} {:<22} {:>10} {:>10} {:>9} {:>8}  choice\n", "problem", "ops", "fixed", "tuned", "spread", "gain");
  for (const TunedProblem& one : report.problems) {
    if (one.state != State::kMeasured) continue;
    fmt::print("{:<38} {:<22} {:>10} {:>10} {:>9} {:>+6.1f} %  {}{} of {}\n", short_problem_text(one.problem),
               ops_text(one, ranks), time_text(one.fixed_ns), time_text(one.tactic.time.median_ns),
               time_text(one.tactic.time.spread_ns), 100 * (gain_of(one) - 1),
               one.fixed ? "the fixed one" : kernel_text(one.tactic.chosen), one.tactic.tie ? ", a tie" : "",
               one.tactic.others.size() + 1);
  }
}

/// What there is nothing in the table of.
void print_rest(const TuneReport& report, int ranks) {
  for (const auto& [state, why] :
       {std::pair(State::kNotCovered, "not covered, as time was up"), std::pair(State::kSkipped, "skipped as asked"),
        std::pair(State::kFailed, "failed")}) {
    for (const TunedProblem& one : report.problems) {
      if (one.state != state) continue;
      fmt::print("{}: {} ({}){}{}\n", why, short_problem_text(one.problem), ops_text(one, ranks),
                 one.why.empty() ? "" : ": ", one.why);
    }
  }
}

void print_summary(const TuneReport& report, const std::string& store, int ranks) {
  int64_t ties = 0, fixed = 0, candidates = 0;
  for (const TunedProblem& one : report.problems) {
    if (one.state != State::kMeasured) continue;
    ties += one.tactic.tie ? 1 : 0;
    fixed += one.fixed ? 1 : 0;
    candidates += static_cast<int64_t>(one.tactic.others.size()) + 1;
  }
  fmt::print(
      "{} problems: {} measured among {} candidates ({} ties, {} keep their fixed choice), {} known before, {} not "
      "covered, {} skipped, {} failed\n",
      report.problems.size(), report.count(State::kMeasured), candidates, ties, fixed, report.count(State::kKnown),
      report.count(State::kNotCovered), report.count(State::kSkipped), report.count(State::kFailed));
  fmt::print("{:+.1f} % in the geometric mean; {} in all; kept in {}\n", 100 * (report.mean_gain() - 1),
             format_duration(report.elapsed_ns), store);
  if (ranks > 0) fmt::print("all {} ranks agree on {} problems\n", ranks, report.problems.size());
  fmt::print("not measured: attention and what is done row by row, which have no candidates to choose among\n");
}

/// What was found of one model.
struct TunedModel {
  std::string model;
  std::string store;
  TuneReport report;
  int ranks = 0;  ///< that tuned it together; 0: it was tuned whole
};

nlohmann::json tuned_json(const TunedModel& tuned) {
  nlohmann::json problems = nlohmann::json::array();
  for (const TunedProblem& one : tuned.report.problems) problems.push_back(tuned_json(one));
  nlohmann::json told = {{"model", tuned.model},
                         {"store", tuned.store},
                         {"elapsed_ns", tuned.report.elapsed_ns},
                         {"mean_gain", tuned.report.mean_gain()},
                         {"problems", std::move(problems)}};
  if (tuned.ranks > 0) told["ranks"] = tuned.ranks;
  return told;
}

void print_tuned(const TunedModel& tuned) {
  if (tuned.report.count(State::kMeasured) > 0) print_measured(tuned.report, tuned.ranks);
  print_rest(tuned.report, tuned.ranks);
  print_summary(tuned.report, tuned.store, tuned.ranks);
}

template <class Model>
Result<TuneReport> tune_loaded(const ModelFlags& flags, const Model& model, std::vector<DecoderPart> parts) {
  if (model.tactics() == nullptr) {
    return unsupported("the {} backend measures no tactics; cpu does", model.backend().name());
  }
  TRY_BIND(TuneRequest request, flags.tune.request());
  return tune_with_progress(model.backend(), parts, *model.tactics(), std::move(request));
}

Result<TunedModel> tune_one_model(const ModelFlags& flags) {
  TRY_BIND(const TunePlaces places, tune_places(flags.tune.store));
  TunedModel tuned{flags.model, places.user.string(), {}};
  ModelFlags loading = flags;
  loading.tune.tune = "off";
  loading.tune.budget = TuneFlags().budget;
  loading.tune.most_bytes = TuneFlags().most_bytes;
  TRY_BIND(const bool encoder, names_encoder(loading));
  if (encoder) {
    TRY_BIND(std::unique_ptr<LoadedEncoder> model, load_encoder_for(loading));
    TRY_BIND(tuned.report, tune_loaded(flags, *model, model->encoder().parts()));
  } else {
    TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(loading));
    TRY_BIND(tuned.report, tune_loaded(flags, *model, model->decoder().parts()));
  }
  return tuned;
}

/// Asked before anything is measured: whether what is measured will be kept.
Status check_kept(const TunePlaces& places) {
  std::error_code failed;
  std::filesystem::create_directories(places.user, failed);
  const Status written = failed ? Status(make_error(ErrorCode::kInternal, "{}", failed.message()))
                                : check_writable((places.user / "probe").string());
  if (written.ok()) return {};
  return make_error(ErrorCode::kInternal, "tactics cannot be kept in {}: {}; --tune-store FOLDER names another place",
                    places.user.string(), written.error().message);
}

/// What the words typed may have meant.
Error no_such_model(const Error& error, const std::string& typed, const std::vector<std::string>& forms) {
  Error told = error;
  if (const auto close = nearest(typed, forms))
    told.message += fmt::format("; or did you mean vernier tune {}?", *close);
  return told;
}

}  // namespace

Status tell_tuned(TuneReport report, const TuneRunFlags& flags) {
  TRY_BIND(const TunePlaces places, tune_places(flags.model.tune.store));
  const TunedModel tuned{flags.model.model, places.user.string(), std::move(report), flags.ranks.tp};
  if (global_options().json) {
    fmt::print("{}\n", tuned_json(tuned).dump(2));
  } else {
    print_tuned(tuned);
  }
  return {};
}

Status check_tunable(const TuneRunFlags& flags, const std::vector<std::string>& forms) {
  if (const Result<std::string> found = find_model(flags.model.model); !found.ok()) {
    return no_such_model(found.error(), flags.model.model, forms);
  }
  TRY_BIND(const TunePlaces places, tune_places(flags.model.tune.store));
  return check_kept(places);
}

void TuneRunFlags::add_to(CLI::App& command) {
  model.add_to(command);
  model.tune.tune = "missing";
  model.tune.budget = kTuneModelBudget;
  model.tune.add_to(command);
  ranks.add_to(command);
  command.get_option("MODEL")->required(false);  // a form takes its place
  command.add_option("--budget", model.tune.budget, "The same as --tune-budget");
  command.add_option("--draft", draft,
                     "A second model, which drafts for the first: tuned after it, with the same flags and a budget of "
                     "its own");
  command.add_option("--draft-store", draft_store,
                     "With --draft: where its tactics are kept (default: with the first's)");
}

Status run_tune_model(const TuneRunFlags& flags, const std::vector<std::string>& forms) {
  if (flags.model.model.empty()) {
    return invalid_argument("expected MODEL, whose products are measured, or one of {}", fmt::join(forms, ", "));
  }
  if (flags.ranks.tp > 0 && !flags.draft.empty()) {
    return unsupported("--tp takes one model at a time; run it for {} and then for {}", flags.model.model, flags.draft);
  }
  TRY_STATUS(flags.model.tune.request());
  TRY_BIND(const RankFlags::Plan plan, flags.ranks.plan());
  // What a rank finds wrong the others are to know, so all that is looked at is looked at by ranks.
  if (flags.ranks.tp > 0) return run_tune_ranks(flags, plan, forms);
  TRY_STATUS(check_tunable(flags, forms));
  std::vector<ModelFlags> models = {flags.model};
  if (!flags.draft.empty()) {
    TRY_STATUS(find_model(flags.draft));
    models.push_back(flags.model);
    models.back().model = flags.draft;
    if (!flags.draft_store.empty()) models.back().tune.store.write_to(flags.draft_store);
    TRY_BIND(const TunePlaces places, tune_places(models.back().tune.store));
    TRY_STATUS(check_kept(places));
  } else if (!flags.draft_store.empty()) {
    return invalid_argument("--draft-store {} needs --draft MODEL", flags.draft_store);
  }
  nlohmann::json told = nlohmann::json::array();
  for (const ModelFlags& one : models) {
    // One after the other: the first is gone from memory before the second comes.
    TRY_BIND(const TunedModel tuned, tune_one_model(one));
    told.push_back(tuned_json(tuned));
    if (global_options().json) continue;
    if (models.size() > 1) fmt::print("{} {}\n", &one == &models.front() ? "model" : "draft", one.model);
    print_tuned(tuned);
  }
  if (global_options().json) fmt::print("{}\n", (models.size() > 1 ? told : told.front()).dump(2));
  return {};
}

Result<std::vector<Problem>> problems_of_model(const std::string& model) {
  ModelFlags flags;
  flags.model = model;
  std::vector<TunedProblem> told;
  TRY_BIND(const bool encoder, names_encoder(flags));
  if (encoder) {
    TRY_BIND(std::unique_ptr<LoadedEncoder> loaded, load_encoder_for(flags));
    told = list_problems(loaded->backend(), loaded->encoder().parts());
  } else {
    TRY_BIND(std::unique_ptr<LoadedModel> loaded, load_for(flags));
    told = list_problems(loaded->backend(), loaded->decoder().parts());
  }
  std::vector<Problem> problems;
  for (TunedProblem& one : told) problems.push_back(std::move(one.problem));
  return problems;
}

}  // namespace vernier
