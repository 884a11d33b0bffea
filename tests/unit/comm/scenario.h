#pragma once

#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "comm/communicator.h"

namespace vernier::testing {

/// Of the scene in which a rank is silent; of the others, in which nobody should wait for it.
inline constexpr int64_t kSilentNs = 1'000'000'000;
inline constexpr int64_t kPatientNs = 60'000'000'000;
/// Much less than that, for a busy machine.
inline constexpr int64_t kSoonNs = 30'000'000'000;

/// What a rank does, and what it has to tell of it.
using Scene = std::function<Result<std::string>(Communicator&)>;

inline Result<std::string> play_collectives(Communicator& ranks) {
  const int rank = ranks.rank();
  TRY_STATUS(ranks.barrier("begin"));
  TRY_BIND(const std::vector<std::string> all,
           ranks.all_gather("letters", std::string(static_cast<size_t>(rank), 'x')));
  // Larger than what a socket takes at once.
  TRY_BIND(const std::vector<std::string> large,
           ranks.all_gather("large", std::string(3'000'001, static_cast<char>('a' + rank))));
  std::string ends;
  for (const std::string& one : large) ends += one.size() == 3'000'001 ? one.back() : '?';
  const std::vector<double> own = {0.1 * (rank + 1), rank == 1 ? std::nan("") : 1.0, -1.0 * rank};
  TRY_BIND(const std::vector<double> sum, ranks.all_reduce("sum", own, Reduction::kSum));
  TRY_BIND(const std::vector<double> most, ranks.all_reduce("max", own, Reduction::kMax));
  TRY_BIND(const std::vector<double> none, ranks.all_reduce("nothing", {}, Reduction::kMax));
  TRY_BIND(const std::string word, ranks.broadcast("word", 1, fmt::format("of {}", rank)));
  return fmt::format("{} {} {:a} {} {} {} {}", fmt::join(all, ","), ends, sum[0], fmt::join(std::span(most), ","),
                     std::isnan(sum[1]), none.size(), word);
}
/// What `play_collectives` tells on each rank of three.
inline std::string three_played() {
  return fmt::format(",x,xx abc {:a} {},nan,-0 true 0 of 1", 0.1 + 0.1 * 2 + 0.1 * 3, 0.1 * 3);
}

/// Comes too late by far.
inline Result<std::string> play_silent(Communicator& ranks) {
  TRY_STATUS(ranks.barrier("begin"));
  if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::nanoseconds(5 * kSilentNs / 2));
  TRY_STATUS(ranks.barrier("roll call"));
  // The late one learns of the others' failure in the next exchange, if not in this.
  TRY_STATUS(ranks.barrier("another"));
  return std::string("all came");
}

inline Result<std::string> play_gives_up(Communicator& ranks) {
  TRY_STATUS(ranks.barrier("begin"));
  if (ranks.rank() == 2) return ranks.give_up(not_found("no such file"));
  TRY_STATUS(ranks.barrier("roll call"));
  return std::string("all came");
}

/// Rank 1 leaves out an exchange.
inline Result<std::string> play_other_exchange(Communicator& ranks) {
  if (ranks.rank() != 1) TRY_STATUS(ranks.barrier("first"));
  TRY_STATUS(ranks.barrier("second"));
  return std::string("all came");
}

inline Result<std::string> play_other_counts(Communicator& ranks) {
  const std::vector<double> own(ranks.rank() == 2 ? 2 : 3, 1.0);
  TRY_STATUS(ranks.all_reduce("sum", own, Reduction::kSum));
  return std::string("all came");
}

/// Rank 1 leaves without a word, where a process ends at once.
inline Result<std::string> play_leaves(Communicator& ranks) {
  TRY_STATUS(ranks.barrier("begin"));
  if (ranks.rank() == 1) return std::string("left");
  TRY_STATUS(ranks.barrier("roll call"));
  return std::string("all came");
}

inline const std::map<std::string, Scene>& scenes() {
  static const std::map<std::string, Scene> all = {
      {"collectives", play_collectives},   {"silent", play_silent},
      {"gives-up", play_gives_up},         {"other-exchange", play_other_exchange},
      {"other-counts", play_other_counts}, {"leaves", play_leaves}};
  return all;
}

/// What a rank tells, or "error CODE: ...".
inline std::string tell(const Result<std::string>& told) {
  if (told.ok()) return *told;
  return fmt::format("error {}: {}", static_cast<int>(told.error().code), told.error().to_string());
}

}  // namespace vernier::testing
