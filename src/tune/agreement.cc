#include "tune/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tune/tactic_json.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

using nlohmann::json;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<json> parse_told(std::string_view bytes) {
  json parsed = json::parse(bytes, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object()) return corrupt("what a rank told is no JSON object");
  return parsed;
}

json names_to_json(const std::vector<std::string>& names) {
  json all = json::array();
  for (const std::string& name : names) all.push_back(name);
  return all;
}

Result<std::vector<std::string>> json_names(const json& object, const char* key) {
  TRY_BIND(const json* found, json_member(object, key, json::value_t::array));
  std::vector<std::string> names;
  for (const json& name : *found) {
    if (!name.is_string()) return corrupt("'{}' holds a {}; expected a name", key, name.type_name());
    names.push_back(name.get<std::string>());
  }
  return names;
}

Result<RankProblem> read_rank_problem(const json& told) {
  RankProblem one;
  TRY_BIND(one.problem.op, json_text(told, "op"));
  TRY_BIND(one.problem.facts, json_facts(told, "facts"));
  TRY_BIND(one.ops, json_names(told, "ops"));
  if (told.contains("chosen")) {
    TRY_BIND(one.chosen, json_kernel(told["chosen"]));
  }
  return one;
}

/// The facts that two ranks do not share, of both: "isa=avx2 on rank 1 and isa=avx512 on rank 0".
std::string difference(const Facts& facts, size_t rank, const Facts& of_first) {
  const auto lacks = [](const Facts& of, const Problem::Fact& fact) {
    return std::ranges::none_of(of, [&](const auto& one) { return one.name == fact.name && one.value == fact.value; });
  };
  Facts here, there;
  for (const Problem::Fact& fact : facts) {
    if (lacks(of_first, fact)) here.push_back(fact);
  }
  for (const Problem::Fact& fact : of_first) {
    if (lacks(facts, fact)) there.push_back(fact);
  }
  if (here.empty() && there.empty()) return "";
  return fmt::format("{} on rank {}, {} on rank 0", facts_text(here), rank, facts_text(there));
}

/// A kernel by all that makes it another.
std::string identity(const NamedKernel& named) {
  return named.to_string() + " " + named.kernel_hash;
}

/// A candidate as all ranks have met it.
struct Entrant {
  NamedKernel named;
  TacticTime time;           // of the rank where it is slowest
  size_t met = 0;            // by so many ranks
  int last_met = -1;         // the last of them
  std::string verdict = {};  // of one that is refused
  std::string detail = {};

  bool can_run(size_t ranks) const { return verdict.empty() && met == ranks; }
};

void meet(std::vector<Entrant>& all, int rank, const TriedCandidate& tried) {
  auto found = std::ranges::find_if(all, [&](const Entrant& e) { return identity(e.named) == identity(tried.named); });
  if (found == all.end()) found = all.insert(all.end(), {tried.named, {}});
  if (found->last_met == rank) return;  // a list with one twice
  found->last_met = rank;
  ++found->met;
  if (tried.time.repeats == 0) {
    found->verdict = tried.verdict.empty() ? "failed" : tried.verdict;
    found->detail = fmt::format("rank {}: {}", rank, tried.detail);
  } else if (found->met == 1 || tried.time.median_ns > found->time.median_ns) {
    found->time = tried.time;
  }
}

TriedCandidate beside(const Entrant& entrant, size_t ranks, double best_ns, double most_ns) {
  if (!entrant.verdict.empty()) return {entrant.named, entrant.verdict, entrant.detail, {}};
  if (entrant.met < ranks) {
    return {entrant.named, "failed", fmt::format("{} of {} ranks have it", entrant.met, ranks), {}};
  }
  return {entrant.named, entrant.time.median_ns <= most_ns ? "tie" : "slower",
          fmt::format("{:+.1f} %", 100 * (entrant.time.median_ns / best_ns - 1)), entrant.time};
}

}  // namespace

std::string write_knowledge(const RankKnowledge& knowledge) {
  json problems = json::array();
  for (const RankProblem& one : knowledge.problems) {
    json told = {{"op", one.problem.op}, {"facts", facts_to_json(one.problem.facts)}, {"ops", names_to_json(one.ops)}};
    if (one.chosen) told["chosen"] = kernel_to_json(*one.chosen);
    problems.push_back(std::move(told));
  }
  return dump({{"device", facts_to_json(knowledge.device)},
               {"libraries", facts_to_json(knowledge.libraries)},
               {"settings", facts_to_json(knowledge.settings)},
               {"left_ns", knowledge.left_ns},
               {"problems", std::move(problems)}});
}

Result<RankKnowledge> read_knowledge(std::string_view bytes) {
  TRY_BIND(const json told, parse_told(bytes));
  RankKnowledge knowledge;
  TRY_BIND(knowledge.device, json_facts(told, "device"));
  TRY_BIND(knowledge.libraries, json_facts(told, "libraries"));
  TRY_BIND(knowledge.settings, json_facts(told, "settings"));
  TRY_BIND(knowledge.left_ns, json_count(told, "left_ns"));
  TRY_BIND(const json* problems, json_member(told, "problems", json::value_t::array));
  for (const json& one : *problems) {
    TRY_BIND(RankProblem problem, read_rank_problem(one));
    knowledge.problems.push_back(std::move(problem));
  }
  return knowledge;
}

Status check_alike(std::span<const RankKnowledge> by_rank) {
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    const RankKnowledge &own = by_rank[rank], &first = by_rank[0];
    for (const auto& [what, differs] :
         {std::pair("run on different devices", difference(own.device, rank, first.device)),
          std::pair("have different libraries", difference(own.libraries, rank, first.libraries)),
          std::pair("were started differently", difference(own.settings, rank, first.settings))}) {
      if (!differs.empty()) return invalid_argument("the ranks {}, so no choice holds on all: {}", what, differs);
    }
  }
  return {};
}

std::vector<SharedProblem> share_problems(std::span<const RankKnowledge> by_rank) {
  struct Place {
    SharedProblem shared;
    size_t earliest = 0;
    std::string choice;  // of the first that knows one
    bool is_one = true;  // all that know one know the same
  };
  std::map<std::string, Place> by_name;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (size_t place = 0; place < by_rank[rank].problems.size(); ++place) {
      const RankProblem& own = by_rank[rank].problems[place];
      const auto [at, is_new] = by_name.try_emplace(own.problem.to_string());
      Place& all = at->second;
      if (is_new) all.shared.problem = own.problem;
      all.earliest = is_new ? place : std::min(all.earliest, place);
      all.shared.ranks.push_back(static_cast<int>(rank));
      for (const std::string& op : own.ops) {
        if (std::ranges::find(all.shared.ops, op) == all.shared.ops.end()) all.shared.ops.push_back(op);
      }
      if (!own.chosen) continue;
      const std::string choice = identity(*own.chosen);
      if (all.shared.knowing.empty()) all.choice = choice;
      all.is_one = all.is_one && all.choice == choice;
      all.shared.knowing.push_back(static_cast<int>(rank));
    }
  }
  std::vector<Place> places;
  for (auto& [name, place] : by_name) {
    place.shared.is_known = place.is_one && place.shared.knowing == place.shared.ranks;
    places.push_back(std::move(place));
  }
  // Stable: the map is in the order of names.
  std::ranges::stable_sort(places, {}, [](const Place& place) {
    return std::pair(place.shared.is_known || place.shared.knowing.empty(), place.earliest);
  });
  std::vector<SharedProblem> shared;
  for (Place& place : places) shared.push_back(std::move(place.shared));
  return shared;
}

std::string write_finding(RankFinding finding) {
  json told = {{"fixed_ns", finding.fixed_ns}, {"why", finding.why}, {"left_ns", finding.left_ns}};
  if (finding.tactic) told["tactic"] = write_bounded_tactic(*finding.tactic);
  return dump(told);
}

Result<RankFinding> read_finding(std::string_view bytes) {
  TRY_BIND(const json told, parse_told(bytes));
  RankFinding finding;
  TRY_BIND(finding.fixed_ns, json_time(told, "fixed_ns"));
  TRY_BIND(finding.why, json_text(told, "why"));
  TRY_BIND(finding.left_ns, json_count(told, "left_ns"));
  if (told.contains("tactic")) {
    TRY_BIND(const std::string record, json_text(told, "tactic"));
    TRY_BIND(finding.tactic, read_tactic(record));
  }
  return finding;
}

Result<Tactic> agree_on_tactic(std::span<const int> ranks, std::span<const RankFinding> by_rank) {
  std::vector<Entrant> entrants;
  Tactic agreed;
  for (const int rank : ranks) {
    const RankFinding& own = by_rank[static_cast<size_t>(rank)];
    if (!own.tactic) return make_error(ErrorCode::kInternal, "rank {}: {}", rank, own.why);
    if (rank == ranks.front()) {
      agreed = *own.tactic;
    } else if (own.tactic->problem.to_string() != agreed.problem.to_string()) {
      return make_error(ErrorCode::kInternal, "rank {} measured {}, and rank {} {}", rank,
                        own.tactic->problem.to_string(), ranks.front(), agreed.problem.to_string());
    }
    agreed.measured_at_ms = std::max(agreed.measured_at_ms, own.tactic->measured_at_ms);
    meet(entrants, rank, {own.tactic->chosen, "", "", own.tactic->time});
    for (const TriedCandidate& tried : own.tactic->others) meet(entrants, rank, tried);
  }
  const Entrant* best = nullptr;
  for (const Entrant& entrant : entrants) {
    if (!entrant.can_run(ranks.size())) continue;
    if (best == nullptr || entrant.time.median_ns < best->time.median_ns) best = &entrant;
  }
  if (best == nullptr) {
    return make_error(ErrorCode::kInternal, "none of {} candidates can be used on each of its {} ranks",
                      entrants.size(), ranks.size());
  }
  const double most_ns = best->time.median_ns * (1 + kAgreedTie);
  const Entrant* taken = best;
  int64_t tied = 0;
  for (const Entrant& entrant : entrants) {
    if (!entrant.can_run(ranks.size()) || entrant.time.median_ns > most_ns) continue;
    ++tied;
    if (identity(entrant.named) < identity(taken->named)) taken = &entrant;
  }
  agreed.chosen = taken->named;
  agreed.time = taken->time;
  agreed.tie = tied > 1;
  agreed.others.clear();
  for (const Entrant& entrant : entrants) {
    if (&entrant == taken) continue;
    agreed.others.push_back(beside(entrant, ranks.size(), taken->time.median_ns, most_ns));
  }
  std::ranges::sort(agreed.others, {}, [](const TriedCandidate& tried) {
    return std::tuple(tried.time.repeats == 0, tried.time.median_ns, identity(tried.named));
  });
  return agreed;
}

std::string write_choices(const RankChoices& choices) {
  return dump({{"problems", names_to_json(choices.problems)}, {"kernels", names_to_json(choices.kernels)}});
}

Result<RankChoices> read_choices(std::string_view bytes) {
  TRY_BIND(const json told, parse_told(bytes));
  RankChoices choices;
  TRY_BIND(choices.problems, json_names(told, "problems"));
  TRY_BIND(choices.kernels, json_names(told, "kernels"));
  if (choices.problems.size() != choices.kernels.size()) {
    return corrupt("{} problems and {} choices", choices.problems.size(), choices.kernels.size());
  }
  return choices;
}

Status check_same_choices(std::span<const RankChoices> by_rank) {
  struct Seen {
    size_t rank;
    std::string kernel;
  };
  const auto text = [](const std::string& kernel) { return kernel.empty() ? "its fixed choice" : kernel; };
  std::map<std::string, Seen> seen;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (size_t i = 0; i < by_rank[rank].problems.size(); ++i) {
      const std::string &problem = by_rank[rank].problems[i], &kernel = by_rank[rank].kernels[i];
      const auto [at, is_new] = seen.try_emplace(problem, Seen{rank, kernel});
      if (is_new || at->second.kernel == kernel) continue;
      return make_error(ErrorCode::kInternal, "for {} rank {} would take {} and rank {} {}", problem, at->second.rank,
                        text(at->second.kernel), rank, text(kernel));
    }
  }
  return {};
}

}  // namespace vernier
