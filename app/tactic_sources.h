#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tune/stored_tactics.h"

namespace vernier {

/// --tune-store, of every form of `vernier tune`.
struct TuneStoreFlags {
  std::vector<std::string> stores;

  void add_to(CLI::App& command);
  /// This folder in place of the one that was written; those that are only read stay.
  void write_to(const std::string& folder);
};

/// Where tactics lie: the user's folder, and those beneath it that are only read.
struct TunePlaces {
  std::filesystem::path user;
  std::vector<std::filesystem::path> layers;
};
/// The first --tune-store without `:ro` is the user's, else home/tactics. Refuses a second one.
Result<TunePlaces> tune_places(const TuneStoreFlags& flags);

/// Every record of the places, each with its layer. Changes nothing; what is damaged is named by the folder, too.
Result<StoredTactics> read_places(const TunePlaces& places);
/// The records of a folder or of an archive that `export` wrote.
Result<StoredTactics> read_tactic_source(const std::string& path);

/// What this run's --isa and --threads are to tactics.
Result<TacticScope> scope_of_flags();

/// "linear(codec=q4_1, ...)", or why there is none to tell.
std::string problem_text(const StoredTactic& stored);
/// What a stranger's file says, without what a terminal obeys.
std::string without_controls(std::string text);
/// "int8_tile_avx2 (rows_at_once=4)"
std::string kernel_text(const NamedKernel& named);
/// "12.3 us"
std::string time_text(double ns);
/// "2026-11-30 17:55" in UTC
std::string calendar_text(int64_t since_1970_ms);

/// By how much it is ahead: "; 3.1 % before tile_b", "; a tie with tile_b, and the first by name"
std::string lead_text(const Tactic& tactic);
/// "20.1 us in the median of 32 launches, seen 2026-12-01 03:00 UTC"
std::string slower_text(const SlowerInUse& seen);

/// Whether each word is the op, a fact ("cols=576") or a fact's value ("q4_1"), or the beginning of the record's id;
/// "2048x576" is rows and columns. What a list shows of a problem finds it.
bool matches(const StoredTactic& stored, std::span<const std::string> words);
/// Words as typed, at blanks, commas and brackets cut apart.
std::vector<std::string> cut_words(std::span<const std::string> typed);

}  // namespace vernier
