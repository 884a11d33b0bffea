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

void print_measured(const TuneReport& report) {
  fmt::print("{:<38} {:<22} {:>10} {:>10} {:>9} {:>8}  choice\n", "problem", "ops", "fixed", "tuned", "spread", "gain");
  for (const TunedProblem& one : report.problems) {
    if (one.state != State::kMeasured) continue;
    fmt::print("{:<38} {:<22} {:>10} {:>10} {:>9} {:>+6.1f} %  {}{} of {}\n", short_problem_text(one.problem),
               fmt::format("{}", fmt::join(one.ops, ", ")), time_text(one.fixed_ns),
               time_text(one.tactic.time.median_ns), time_text(one.tactic.time.spread_ns), 100 * (gain_of(one) - 1),
               one.fixed ? "the fixed one" : kernel_text(one.tactic.chosen), one.tactic.tie ? ", a tie" : "",
               one.tactic.others.size() + 1);
  }
}

/// What there is nothing in the table of.
void print_rest(const TuneReport& report) {
  for (const auto& [state, why] :
       {std::pair(State::kNotCovered, "not covered, as time was up"), std::pair(State::kSkipped, "skipped as asked"),
        std::pair(State::kFailed, "failed")}) {
    for (const TunedProblem& one : report.problems) {
      if (one.state != state) continue;
      fmt::print("{}: {} ({}){}{}\n", why, short_problem_text(one.problem), fmt::join(one.ops, ", "),
                 one.why.empty() ? "" : ": ", one.why);
    }
  }
}

void print_summary(const TuneReport& report, const std::string& store) {
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
  fmt::print("not measured: attention and what is done row by row, which have no candidates to choose among\n");
}

/// What was found of one model.
struct TunedModel {
  std::string model;
  std::string store;
  TuneReport report;
};

nlohmann::json tuned_json(const TunedModel& tuned) {
  nlohmann::json problems = nlohmann::json::array();
  for (const TunedProblem& one : tuned.report.problems) problems.push_back(tuned_json(one));
  return {{"model", tuned.model},
          {"store", tuned.store},
          {"elapsed_ns", tuned.report.elapsed_ns},
          {"mean_gain", tuned.report.mean_gain()},
          {"problems", std::move(problems)}};
}

void print_tuned(const TunedModel& tuned) {
  if (tuned.report.count(State::kMeasured) > 0) print_measured(tuned.report);
  print_rest(tuned.report);
  print_summary(tuned.report, tuned.store);
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

void TuneRunFlags::add_to(CLI::App& command) {
  model.add_to(command);
  model.tune.tune = "missing";
  model.tune.budget = kTuneModelBudget;
  model.tune.add_to(command);
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
  if (const Result<std::string> found = find_model(flags.model.model); !found.ok()) {
    return no_such_model(found.error(), flags.model.model, forms);
  }
  std::vector<ModelFlags> models = {flags.model};
  if (!flags.draft.empty()) {
    TRY_STATUS(find_model(flags.draft));
    models.push_back(flags.model);
    models.back().model = flags.draft;
    if (!flags.draft_store.empty()) models.back().tune.store.write_to(flags.draft_store);
  } else if (!flags.draft_store.empty()) {
    return invalid_argument("--draft-store {} needs --draft MODEL", flags.draft_store);
  }
  for (const ModelFlags& one : models) {
    TRY_STATUS(one.tune.request());
    TRY_BIND(const TunePlaces places, tune_places(one.tune.store));
    TRY_STATUS(check_kept(places));
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
