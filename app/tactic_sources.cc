#include "app/tactic_sources.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "api/backend_choice.h"
#include "app/commands.h"
#include "tune/tactic_archive.h"
#include "tune/tactic_use.h"

namespace vernier {
namespace {

constexpr std::string_view kReadOnly = ":ro";
constexpr std::uintmax_t kMostArchiveBytes = 1'000'000'000;

}  // namespace

void TuneStoreFlags::add_to(CLI::App& command) {
  command
      .add_option("--tune-store", stores,
                  "Folder of tactics (default: tactics in --home); FOLDER:ro lies beneath it and is only read; may be "
                  "given often")
      ->allow_extra_args(false);
}

void TuneStoreFlags::write_to(const std::string& folder) {
  std::erase_if(stores, [](const std::string& store) { return !store.ends_with(kReadOnly); });
  stores.push_back(folder);
}

Result<TunePlaces> tune_places(const TuneStoreFlags& flags) {
  TunePlaces places;
  for (const std::string& given : flags.stores) {
    const bool read_only = given.ends_with(kReadOnly);
    const std::string folder = read_only ? given.substr(0, given.size() - kReadOnly.size()) : given;
    if (folder.empty()) return invalid_argument("--tune-store '{}': expected a folder", given);
    if (read_only) {
      places.layers.emplace_back(folder);
    } else if (!places.user.empty()) {
      return invalid_argument("--tune-store {} and {}: one is written to; {}:ro is only read", places.user.string(),
                              folder, folder);
    } else {
      places.user = folder;
    }
  }
  if (places.user.empty()) places.user = global_options().home / "tactics";
  return places;
}

Result<StoredTactics> read_places(const TunePlaces& places) {
  TRY_BIND(StoredTactics all, read_stored(TacticFolder(places.user)));
  for (TacticFolder::Damage& damage : all.damaged) damage.name = (places.user / "records" / damage.name).string();
  for (size_t i = 0; i < places.layers.size(); ++i) {
    TRY_BIND(StoredTactics beneath, read_tactic_source(places.layers[i].string()));
    for (StoredTactic& stored : beneath.records) {
      stored.layer = i + 1;
      all.records.push_back(std::move(stored));
    }
    std::ranges::move(beneath.damaged, std::back_inserter(all.damaged));
  }
  return all;
}

std::string without_controls(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }, '?');
  return text;
}

Result<StoredTactics> read_tactic_source(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (!std::filesystem::is_directory(std::filesystem::path(path) / "records", error)) {
      return not_found("{} holds no tactics: it has no folder 'records'", path);
    }
    TRY_BIND(StoredTactics all, read_stored(TacticFolder(path)));
    for (TacticFolder::Damage& damage : all.damaged) damage.name = path + "/records/" + damage.name;
    return all;
  }
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return invalid_argument("{} is no folder and no regular file; expected a store or an archive of tactics", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("{}: no such folder or file of tactics", path);
  if (const std::uintmax_t bytes = std::filesystem::file_size(path, error); !error && bytes > kMostArchiveBytes) {
    return corrupt("{}: {} bytes; an archive of tactics has at most {}", path, bytes, kMostArchiveBytes);
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Result<TacticFolder::Contents> contents = read_archive(bytes);
  if (!contents.ok()) {
    Error failed = contents.error();
    failed.where = path;
    return failed;
  }
  return read_contents(std::move(*contents));
}

Result<TacticScope> scope_of_flags() {
  BackendOptions options;
  options.threads = global_options().threads;
  options.isa = global_options().isa;
  return tactic_scope(options);
}

std::string problem_text(const StoredTactic& stored) {
  return without_controls(stored.unreadable.empty() ? stored.tactic.problem.to_string() : stored.unreadable);
}

std::string kernel_text(const NamedKernel& named) {
  return without_controls(named.to_string());
}

std::string time_text(double ns) {
  return ns < 1e3   ? fmt::format("{:.0f} ns", ns)
         : ns < 1e6 ? fmt::format("{:.1f} us", ns * 1e-3)
                    : fmt::format("{:.2f} ms", ns * 1e-6);
}

std::string calendar_text(int64_t since_1970_ms) {
  constexpr int64_t kMostSeconds = 253'402'300'799;  // the year 9999
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(std::min(since_1970_ms / 1000, kMostSeconds)));
}

std::string lead_text(const Tactic& tactic) {
  const auto next = std::ranges::find_if(tactic.others, [&](const TriedCandidate& tried) {
    return tried.time.repeats > 0 && (!tactic.tie || tried.verdict == "tie");
  });
  if (next == tactic.others.end()) return "; nothing else was timed";
  if (tactic.tie) return fmt::format("; a tie with {}, and the first by name", kernel_text(next->named));
  if (tactic.time.median_ns <= 0) return "";
  return fmt::format("; {:.1f} % before {}{}", 100 * (next->time.median_ns / tactic.time.median_ns - 1),
                     kernel_text(next->named), next->verdict == "unclear" ? ", which time did not make clear" : "");
}

std::string slower_text(const SlowerInUse& seen) {
  return fmt::format("{} in the median of {} launches, seen {} UTC", time_text(seen.median_ns), seen.launches,
                     calendar_text(seen.seen_at_ms));
}

bool matches(const StoredTactic& stored, std::span<const std::string> words) {
  return std::ranges::all_of(words, [&](const std::string& word) {
    return (word.size() >= 4 && stored.entry.id.starts_with(word)) ||
           matches_problem(stored.tactic.problem, {&word, 1});
  });
}

std::vector<std::string> cut_words(std::span<const std::string> typed) {
  std::vector<std::string> words;
  for (const std::string& text : typed) {
    for (std::string& word : cut_problem_words(text)) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace vernier
