#include "app/tune_exchange.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include "app/commands.h"
#include "app/number_flags.h"
#include "app/output_file.h"
#include "app/tactic_sources.h"
#include "base/progress.h"
#include "base/unfinished_output.h"
#include "tune/tactic_archive.h"

namespace vernier {
namespace {

/// That wait for the disk together: a process that is killed has done all but its last few hundred.
constexpr size_t kRecordsAtOnce = 256;
constexpr int64_t kTuneHourNs = 3600LL * 1'000'000'000;

void print_tune_json(const nlohmann::json& all) {
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

struct TuneDiffFlags {
  TuneStoreFlags store;
  std::string a, b;
};

/// What two records must share to be rivals: the problem and all that it was measured under.
std::string rivalry(const Tactic& tactic) {
  return tactic.problem.to_string() + " on " + facts_text(tactic.device) + " with " + facts_text(tactic.libraries);
}

/// The latest record of each.
std::map<std::string, const StoredTactic*> latest(const StoredTactics& all) {
  std::map<std::string, const StoredTactic*> found;
  for (const StoredTactic& stored : all.records) {
    if (!stored.unreadable.empty()) continue;
    const StoredTactic*& best = found[rivalry(stored.tactic)];
    if (best == nullptr || supersedes(stored, *best)) best = &stored;
  }
  return found;
}

struct TuneDifferences {
  std::vector<std::string> only_a, only_b;
  std::vector<std::string> other_choice;
  int64_t in_both = 0;
};

TuneDifferences compare(const StoredTactics& a, const StoredTactics& b) {
  TuneDifferences found;
  const auto ours = latest(a), theirs = latest(b);
  for (const auto& [what, stored] : ours) {
    const auto other = theirs.find(what);
    const std::string kernel = kernel_text(stored->tactic.chosen);
    if (other == theirs.end()) {
      found.only_a.push_back(fmt::format("{}: {}", what, kernel));
      continue;
    }
    ++found.in_both;
    const NamedKernel& chosen = other->second->tactic.chosen;
    if (kernel_text(chosen) != kernel) {
      found.other_choice.push_back(fmt::format("{}: {} in A, {} in B", what, kernel, kernel_text(chosen)));
    } else if (chosen.kernel_hash != stored->tactic.chosen.kernel_hash) {
      found.other_choice.push_back(fmt::format("{}: {} of another build", what, kernel));
    }
  }
  for (const auto& [what, stored] : theirs) {
    if (!ours.contains(what)) found.only_b.push_back(fmt::format("{}: {}", what, kernel_text(stored->tactic.chosen)));
  }
  return found;
}

Status run_tune_diff(const TuneDiffFlags& flags) {
  TRY_BIND(const StoredTactics a, read_tactic_source(flags.a));
  std::string name = flags.b;
  if (name.empty()) {
    TRY_BIND(const TunePlaces places, tune_places(flags.store));
    name = places.user.string();
    std::error_code ignored;
    if (!std::filesystem::exists(name, ignored)) {
      return not_found(
          "this machine's store {} is not there: nothing was measured or imported yet; name two stores, or "
          "fill it with vernier tune MODEL",
          name);
    }
  }
  TRY_BIND(const StoredTactics b, read_tactic_source(name));
  const TuneDifferences found = compare(a, b);
  if (global_options().json) {
    print_tune_json({{"a", flags.a},
                     {"b", name},
                     {"only_a", found.only_a},
                     {"only_b", found.only_b},
                     {"other_choice", found.other_choice},
                     {"in_both", found.in_both}});
    return {};
  }
  for (const std::string& one : found.only_a) fmt::print("only in A: {}\n", one);
  for (const std::string& one : found.only_b) fmt::print("only in B: {}\n", one);
  for (const std::string& one : found.other_choice) fmt::print("differs: {}\n", one);
  fmt::print("A is {}, B is {}: {} problems only in A, {} only in B, {} in both, {} of them chosen otherwise\n",
             flags.a, name, found.only_a.size(), found.only_b.size(), found.in_both, found.other_choice.size());
  return {};
}

struct TuneMergeFlags {
  TuneStoreFlags store;
  std::vector<std::string> sources;
};

/// Adds every record of the sources, for whatever device. Damaged ones stay where they are and end in an error.
Status add_sources(const TuneMergeFlags& flags) {
  TRY_BIND(const TunePlaces places, tune_places(flags.store));
  const TacticFolder folder(places.user);
  TRY_BIND(const TacticFolder::Contents there, folder.read());
  std::set<std::string> known;
  for (const TacticFolder::Entry& entry : there.entries) known.insert(entry.id);
  std::vector<StoredTactics> sources;
  for (const std::string& path : flags.sources) {
    TRY_BIND(StoredTactics source, read_tactic_source(path));
    sources.push_back(std::move(source));
  }
  int64_t already = 0;
  std::vector<std::string_view> fresh;
  std::vector<TacticFolder::Damage> damaged;
  for (const StoredTactics& source : sources) {
    for (const StoredTactic& stored : source.records) {
      const bool is_new = known.insert(stored.entry.id).second;
      if (is_new) fresh.emplace_back(stored.entry.bytes);
      already += is_new ? 0 : 1;
    }
    damaged.insert(damaged.end(), source.damaged.begin(), source.damaged.end());
  }
  const auto added = std::ssize(fresh);
  {
    Progress bar("adding tactics", added, ProgressUnit::kCount);
    for (size_t at = 0; at < fresh.size(); at += kRecordsAtOnce) {
      bar.set(static_cast<int64_t>(at));
      TRY_STATUS(folder.add_all(std::span(fresh).subspan(at, std::min(kRecordsAtOnce, fresh.size() - at))));
    }
  }
  if (global_options().json) {
    nlohmann::json names = nlohmann::json::array();
    for (const TacticFolder::Damage& damage : damaged) names.push_back({{"path", damage.name}, {"what", damage.what}});
    print_tune_json({{"store", places.user.string()}, {"added", added}, {"already", already}, {"damaged", names}});
  } else {
    for (const TacticFolder::Damage& damage : damaged)
      fmt::print("damaged: {}: {}\n", without_controls(damage.name), without_controls(damage.what));
    fmt::print("{}: {} records added, {} were there already\n", places.user.string(), added, already);
  }
  if (damaged.empty()) return {};
  return corrupt("{} damaged records were not taken: {}", damaged.size(), damaged.front().name);
}

Status run_tune_import(const TuneMergeFlags& flags) {
  std::error_code ignored;
  for (const std::string& path : flags.sources) {
    if (std::filesystem::is_directory(path, ignored)) {
      return invalid_argument("{} is a folder; vernier tune merge takes folders", path);
    }
  }
  return add_sources(flags);
}

struct TuneExportFlags {
  TuneStoreFlags store;
  std::string out;
  std::vector<std::string> words;
  bool used = false;
};

Status run_tune_export(const TuneExportFlags& flags) {
  TRY_BIND(const TunePlaces places, tune_places(flags.store));
  TRY_BIND(const TacticScope scope, scope_of_flags());
  TRY_BIND(const StoredTactics all, read_places(places));
  const auto taken = taken_tactics(all.records, scope);
  const std::vector<std::string> words = cut_words(flags.words);
  std::vector<TacticFolder::Entry> entries;
  for (const StoredTactic& stored : all.records) {
    if (!matches(stored, words)) continue;
    if (flags.used && (!misfit(stored, scope).empty() || taken.at(tactic_key(stored.tactic.problem)) != &stored))
      continue;
    entries.push_back(stored.entry);
  }
  if (entries.empty()) return not_found("nothing to export: no such tactics in {}", places.user.string());
  TRY_STATUS(check_writable(flags.out));
  const std::string archive = write_archive(entries);
  TRY_STATUS(write_whole(flags.out, [&](std::ostream& out) { out << archive; }));
  if (global_options().json) {
    print_tune_json({{"out", flags.out}, {"records", entries.size()}});
  } else {
    fmt::print("{}: {} records\n", flags.out, entries.size());
  }
  return {};
}

struct TunePruneFlags {
  TuneStoreFlags store;
  bool misfits = false, superseded = false, damaged = false, dry_run = false;
  std::optional<double> unused_days;
  std::optional<int64_t> most_bytes;
};

Result<PruneRules> rules_of(const TunePruneFlags& flags) {
  PruneRules rules;
  rules.misfits = flags.misfits;
  rules.superseded = flags.superseded;
  if (flags.unused_days) {
    rules.unused_for_ns = static_cast<int64_t>(*flags.unused_days * 24 * static_cast<double>(kTuneHourNs));
  }
  rules.most_bytes = flags.most_bytes;
  const bool any = flags.misfits || flags.superseded || flags.damaged || flags.unused_days || flags.most_bytes;
  if (any) return rules;
  return invalid_argument(
      "nothing to prune by; expected --misfits, --superseded, --unused-days, --max-bytes or --damaged");
}

Status run_tune_prune(const TunePruneFlags& flags) {
  TRY_BIND(const PruneRules rules, rules_of(flags));
  TRY_BIND(const TunePlaces places, tune_places(flags.store));
  TRY_BIND(const TacticScope scope, scope_of_flags());
  const TacticFolder folder(places.user);
  TRY_BIND(const StoredTactics all, read_stored(folder));
  const std::vector<Prunable> chosen = choose_prunable(all.records, scope, rules, calendar_ns());
  std::vector<TacticFolder::Entry> entries;
  int64_t bytes = 0;
  for (const Prunable& one : chosen) {
    entries.push_back(one.stored->entry);
    bytes += static_cast<int64_t>(one.stored->entry.bytes.size());
  }
  int64_t removed = 0, damaged = 0;
  if (!flags.dry_run) {
    TRY_BIND(removed, folder.remove(entries));
    folder.sweep_temporaries(kTuneHourNs);
  }
  if (flags.damaged) {
    for (const TacticFolder::Damage& damage : all.damaged) {
      if (!damage.unread && (flags.dry_run ? ++damaged > 0 : set_aside(folder, damage))) continue;
      log_warning("{}/{} stays: {}", places.user.string(), without_controls(damage.name), damage.what);
    }
    damaged += flags.dry_run ? folder.damaged_files() : folder.sweep_damaged(0);
  }
  if (global_options().json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Prunable& one : chosen) {
      list.push_back({{"id", one.stored->entry.id}, {"problem", problem_text(*one.stored)}, {"why", one.why}});
    }
    print_tune_json({{"store", places.user.string()},
                     {"chosen", list},
                     {"removed", removed},
                     {"bytes", bytes},
                     {"damaged", damaged}});
    return {};
  }
  for (const Prunable& one : chosen) {
    fmt::print("{:.12}  {}: {}\n", one.stored->entry.id, problem_text(*one.stored), one.why);
  }
  if (flags.dry_run) {
    fmt::print("{} of {} records, {}, would go\n", chosen.size(), all.records.size(), format_bytes(bytes));
  } else {
    fmt::print("{} of {} records removed\n", removed, all.records.size());
  }
  if (flags.damaged) fmt::print("{} damaged ones {}\n", damaged, flags.dry_run ? "would go" : "removed");
  return {};
}

void add_merge_forms(CLI::App& command) {
  auto merge = std::make_shared<TuneMergeFlags>();
  CLI::App* merge_form =
      command.add_subcommand("merge", "Add the tactics of other folders, for whatever device they are");
  merge->store.add_to(*merge_form);
  merge_form->add_option("FROM", merge->sources, "Folders of tactics, or files that export wrote")->required();
  set_work(*merge_form, [merge] { return add_sources(*merge); });

  auto import = std::make_shared<TuneMergeFlags>();
  CLI::App* import_form = command.add_subcommand("import", "Add the tactics of files that export wrote");
  import->store.add_to(*import_form);
  import_form->add_option("FILE", import->sources, "Files that export wrote")->required();
  set_work(*import_form, [import] { return run_tune_import(*import); });
}

void add_prune_form(CLI::App& command) {
  auto prune = std::make_shared<TunePruneFlags>();
  CLI::App* form =
      command.add_subcommand("prune", "Remove tactics by the rules that are given; loading never removes one");
  prune->store.add_to(*form);
  form->add_flag("--misfits", prune->misfits, "Those that do not fit this device, these flags and this build");
  form->add_flag("--superseded", prune->superseded, "Those that fit and were measured again later");
  form->add_option("--unused-days", prune->unused_days, "Those that nobody wanted for so many days")
      ->check(CLI::Range(0.0, 100'000.0));
  form->add_option("--max-bytes", prune->most_bytes, "The oldest unused, until no more bytes are left (10MB)")
      ->transform(byte_size());
  form->add_flag("--damaged", prune->damaged, "What was set aside because it was damaged");
  form->add_flag("--dry-run", prune->dry_run, "Only say what would go");
  set_work(*form, [prune] { return run_tune_prune(*prune); });
}

}  // namespace

void add_tune_exchange(CLI::App& command) {
  auto diff = std::make_shared<TuneDiffFlags>();
  CLI::App* diff_form =
      command.add_subcommand("diff", "What two stores know of each other's problems, and choose otherwise");
  diff->store.add_to(*diff_form);
  diff_form->add_option("A", diff->a, "A folder of tactics, or a file that export wrote")->required();
  diff_form->add_option("B", diff->b, "Another (default: this machine's store)");
  set_work(*diff_form, [diff] { return run_tune_diff(*diff); });
  add_merge_forms(command);

  auto out = std::make_shared<TuneExportFlags>();
  CLI::App* export_form =
      command.add_subcommand("export", "Write tactics into one file, to take them to other machines");
  out->store.add_to(*export_form);
  export_form->add_option("--out", out->out, "The file")->required();
  export_form->add_flag("--used", out->used, "Only those that this machine would use");
  export_form->add_option("WORD", out->words, "Only problems with these words, as in list");
  set_work(*export_form, [out] { return run_tune_export(*out); });
  add_prune_form(command);
}

}  // namespace vernier
