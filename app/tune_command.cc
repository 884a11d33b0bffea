#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/tactic_sources.h"
#include "app/tune_exchange.h"
#include "app/tune_flags.h"
#include "app/tune_run.h"
#include "tune/tactic_use.h"

namespace vernier {
namespace {

struct TuneListFlags {
  TuneStoreFlags store;
  std::vector<std::string> words;
};

/// All that the places hold, and what of it this run would take.
struct TuneView {
  TunePlaces places;
  TacticScope scope;
  StoredTactics all;
  std::map<TacticKey, const StoredTactic*> taken;
  std::map<std::string, SlowerInUse> slower;  ///< by id: what proves slower in use

  const SlowerInUse* slower_of(const StoredTactic& stored) const {
    const auto found = slower.find(stored.entry.id);
    return found == slower.end() ? nullptr : &found->second;
  }

  /// "used", "superseded", or why it is kept and not used.
  std::string state(const StoredTactic& stored) const {
    const std::string why = misfit(stored, scope);
    if (!why.empty()) return why;
    return taken.at(tactic_key(stored.tactic.problem)) == &stored ? "used" : "superseded";
  }
};

Status look_at(const TuneStoreFlags& flags, TuneView& view) {
  TRY_BIND(view.places, tune_places(flags));
  TRY_BIND(view.scope, scope_of_flags());
  TRY_BIND(view.all, read_places(view.places));
  view.taken = taken_tactics(view.all.records, view.scope);
  view.slower = read_slower(TacticFolder(view.places.user));
  return {};
}

nlohmann::json tactic_json(const Facts& facts) {
  nlohmann::json all = nlohmann::json::object();
  for (const Problem::Fact& fact : facts) all[fact.name] = fact.value;
  return all;
}

nlohmann::json tactic_json(const TacticTime& time) {
  return {{"median_ns", time.median_ns}, {"spread_ns", time.spread_ns}, {"repeats", time.repeats}};
}

nlohmann::json tactic_json(const StoredTactic& stored, const TuneView& view) {
  const SlowerInUse* slower = view.slower_of(stored);
  const Tactic& tactic = stored.tactic;
  nlohmann::json others = nlohmann::json::array();
  for (const TriedCandidate& tried : tactic.others) {
    others.push_back({{"kernel", tried.named.kernel},
                      {"parameters", tactic_json(tried.named.parameters)},
                      {"verdict", tried.verdict},
                      {"detail", tried.detail},
                      {"time", tactic_json(tried.time)}});
  }
  return {{"id", stored.entry.id},
          {"state", view.state(stored)},
          {"slower_in_use_ns", slower == nullptr ? nlohmann::json(nullptr) : nlohmann::json(slower->median_ns)},
          {"layer", stored.layer},
          {"used_ms", stored.entry.used_ns / 1'000'000},
          {"problem", problem_text(stored)},
          {"kernel", tactic.chosen.kernel},
          {"kernel_hash", tactic.chosen.kernel_hash},
          {"parameters", tactic_json(tactic.chosen.parameters)},
          {"time", tactic_json(tactic.time)},
          {"tie", tactic.tie},
          {"others", std::move(others)},
          {"device", tactic_json(tactic.device)},
          {"libraries", tactic_json(tactic.libraries)},
          {"clock", tactic.clock},
          {"measured_at_ms", tactic.measured_at_ms},
          {"version", tactic.version}};
}

nlohmann::json damage_json(std::span<const TacticFolder::Damage> damaged) {
  nlohmann::json all = nlohmann::json::array();
  for (const TacticFolder::Damage& damage : damaged) all.push_back({{"path", damage.name}, {"what", damage.what}});
  return all;
}

void print_tactic_table(const TuneView& view, std::span<const StoredTactic* const> shown) {
  fmt::print("{:<12}  {:<16}  {:>9}  {:>8}  {:<34}  {:<11} problem\n", "id", "measured (UTC)", "time", "spread",
             "kernel", "state");
  int64_t used = 0, superseded = 0;
  for (const StoredTactic* stored : shown) {
    const std::string state = view.state(*stored);
    used += state == "used";
    superseded += state == "superseded";
    const Tactic& tactic = stored->tactic;
    fmt::print("{:.12}  {:<16}  {:>9}  {:>8}  {:<34}  {:<11} {}\n", stored->entry.id,
               calendar_text(tactic.measured_at_ms), time_text(tactic.time.median_ns), time_text(tactic.time.spread_ns),
               kernel_text(tactic.chosen), state == "used" || state == "superseded" ? state : "not here",
               problem_text(*stored));
  }
  fmt::print("{} records of {}: {} used with these flags, {} superseded, {} kept for others\n", shown.size(),
             view.places.user.string(), used, superseded, static_cast<int64_t>(shown.size()) - used - superseded);
}

Status run_tune_list(const TuneListFlags& flags) {
  TuneView view;
  TRY_STATUS(look_at(flags.store, view));
  const std::vector<std::string> words = cut_words(flags.words);
  std::vector<const StoredTactic*> shown;
  for (const StoredTactic& stored : view.all.records) {
    if (matches(stored, words)) shown.push_back(&stored);
  }
  std::ranges::stable_sort(shown, {}, [](const StoredTactic* stored) { return problem_text(*stored); });
  if (global_options().json) {
    nlohmann::json records = nlohmann::json::array();
    for (const StoredTactic* stored : shown) records.push_back(tactic_json(*stored, view));
    const nlohmann::json all = {{"store", view.places.user.string()},
                                {"records", std::move(records)},
                                {"damaged", damage_json(view.all.damaged)}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  if (shown.empty()) {
    fmt::print("no tactics{} in {}\n", words.empty() ? "" : " of these words", view.places.user.string());
  } else {
    print_tactic_table(view, shown);
  }
  for (const StoredTactic* stored : shown) {
    const SlowerInUse* slower = view.slower_of(*stored);
    if (slower == nullptr) continue;
    fmt::print("slower in use: {:.12}, {}: {}\n", stored->entry.id, problem_text(*stored), slower_text(*slower));
  }
  for (const TacticFolder::Damage& damage : view.all.damaged)
    fmt::print("damaged: {}: {}\n", without_controls(damage.name), without_controls(damage.what));
  return {};
}

void print_taken(const StoredTactic& stored, const SlowerInUse* slower) {
  const Tactic& tactic = stored.tactic;
  fmt::print("  taken: {}, {} +- {} over {} repeats{}\n", kernel_text(tactic.chosen), time_text(tactic.time.median_ns),
             time_text(tactic.time.spread_ns), tactic.time.repeats, lead_text(tactic));
  if (slower != nullptr) fmt::print("    slower in use: {}\n", slower_text(*slower));
  for (const TriedCandidate& tried : tactic.others) {
    fmt::print("    beside {}: {}{}{}\n", kernel_text(tried.named),
               tried.time.repeats > 0 ? time_text(tried.time.median_ns) + ", " : "", tried.verdict,
               tried.detail.empty() ? "" : ", " + tried.detail);
  }
  fmt::print("    record {:.12}, measured {} UTC by {}, clock: {}\n    on {}; libraries: {}\n", stored.entry.id,
             calendar_text(tactic.measured_at_ms), tactic.version, tactic.clock, facts_text(tactic.device),
             facts_text(tactic.libraries));
}

/// "960x576 q4_1, 576x576 q4_1"
std::string shapes_text(const std::vector<Problem>& problems) {
  std::vector<std::string> shapes;
  for (const Problem& problem : problems) {
    const std::string text = short_problem_text(problem);
    std::string shape = text.substr(0, text.rfind(','));
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(std::move(shape));
  }
  return fmt::format("{}", fmt::join(shapes, ", "));
}

struct WhyProblem {
  Problem problem;
  std::vector<const StoredTactic*> records;
};

/// Those that the words find: of the model that the first of them names, else of all records.
Result<std::vector<WhyProblem>> find_why(const TuneView& view, std::vector<std::string> typed) {
  std::vector<WhyProblem> found;
  std::vector<Problem> of_model;
  const Result<std::string> model = find_model(typed.front());
  if (model.ok()) {
    TRY_BIND(of_model, problems_of_model(typed.front()));
    typed.erase(typed.begin());
  }
  const std::vector<std::string> words = cut_words(typed);
  for (const Problem& problem : of_model) {
    if (matches_problem(problem, words)) found.push_back({problem, {}});
  }
  for (const StoredTactic& stored : view.all.records) {
    if (!stored.unreadable.empty()) continue;
    const std::string text = problem_text(stored);
    auto at = std::ranges::find_if(found, [&](const WhyProblem& one) { return one.problem.to_string() == text; });
    if (at == found.end()) {
      if (model.ok() || !matches(stored, words)) continue;
      at = found.insert(found.end(), {stored.tactic.problem, {}});
    }
    at->records.push_back(&stored);
  }
  if (!found.empty()) return found;
  if (model.ok()) {
    return not_found("no product of the model is '{}'; there are {}", fmt::join(words, " "), shapes_text(of_model));
  }
  return not_found("no tactic in {} is for '{}'; vernier tune list shows what there is", view.places.user.string(),
                   fmt::join(words, " "));
}

Status run_tune_why(const TuneListFlags& flags) {
  TuneView view;
  TRY_STATUS(look_at(flags.store, view));
  TRY_BIND(const std::vector<WhyProblem> problems, find_why(view, flags.words));
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [problem, records] : problems) {
    if (global_options().json) {
      nlohmann::json list = nlohmann::json::array();
      for (const StoredTactic* stored : records) list.push_back(tactic_json(*stored, view));
      all.push_back({{"problem", without_controls(problem.to_string())}, {"records", std::move(list)}});
      continue;
    }
    fmt::print("{}\n", without_controls(problem.to_string()));
    const auto taken = view.taken.find(tactic_key(problem));
    if (records.empty()) {
      fmt::print("  taken: the fixed choice; it was never measured here\n");
    } else if (taken == view.taken.end()) {
      fmt::print("  taken: none; no record of it fits this device and build\n");
    } else {
      print_taken(*taken->second, view.slower_of(*taken->second));
    }
    for (const StoredTactic* stored : records) {
      const std::string state = view.state(*stored);
      if (state == "used") continue;
      fmt::print("  not taken: {}, record {:.12}: {}\n", kernel_text(stored->tactic.chosen), stored->entry.id,
                 state == "superseded" ? "measured again later, or of a lower layer" : state);
    }
  }
  if (global_options().json) fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto run = std::make_shared<TuneRunFlags>();
  CLI::App* command = app.add_subcommand(
      "tune", "Measure which kernels serve a model best, or list, compare, merge and prune what was measured");
  run->add_to(*command);
  command->require_subcommand(0, 1);
  auto list = std::make_shared<TuneListFlags>();
  CLI::App* list_form = command->add_subcommand("list", "What is known, and what of it this machine would use");
  list->store.add_to(*list_form);
  list_form->add_option("WORD", list->words,
                        "Only problems with these: an op, a fact (cols=576) or its value, 2048x576");
  set_work(*list_form, [list] { return run_tune_list(*list); });

  auto why = std::make_shared<TuneListFlags>();
  CLI::App* why_form =
      command->add_subcommand("why", "Why a problem's kernel was chosen, and why records are not used");
  why->store.add_to(*why_form);
  why_form
      ->add_option("PROBLEM", why->words,
                   "'linear[3072x576] q4_1', or a problem as list shows it; a MODEL before it: of that model's")
      ->required();
  set_work(*why_form, [why] { return run_tune_why(*why); });
  add_tune_exchange(*command);
  std::vector<std::string> names;
  for (const CLI::App* form : command->get_subcommands({})) names.push_back(form->get_name());
  set_work(*command, [run, command, names]() -> Status {
    return command->get_subcommands().empty() ? run_tune_model(*run, names) : Status();
  });
}

}  // namespace vernier
