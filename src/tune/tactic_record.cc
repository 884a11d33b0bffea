#include "tune/tactic_record.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/json_nesting.h"
#include "tune/tactic_json.h"

namespace vernier {
namespace {

using nlohmann::json;

constexpr size_t kMostNesting = 8;

json to_json(const TacticTime& time) {
  return {{"median_ns", time.median_ns}, {"spread_ns", time.spread_ns}, {"repeats", time.repeats}};
}

Result<TacticTime> times_of(const json& object) {
  TRY_BIND(const json* found, json_member(object, "time", json::value_t::object));
  TacticTime time;
  TRY_BIND(time.median_ns, json_time(*found, "median_ns"));
  TRY_BIND(time.spread_ns, json_time(*found, "spread_ns"));
  TRY_BIND(time.repeats, json_count(*found, "repeats"));
  return time;
}

Result<TriedCandidate> tried_of(const json& object) {
  TriedCandidate tried;
  TRY_BIND(tried.named, json_kernel(object));
  TRY_BIND(tried.verdict, json_text(object, "verdict"));
  TRY_BIND(tried.detail, json_text(object, "detail"));
  TRY_BIND(tried.time, times_of(object));
  return tried;
}

Result<Problem> problem_of(const json& record) {
  TRY_BIND(const json* found, json_member(record, "problem", json::value_t::object));
  Problem problem;
  TRY_BIND(problem.op, json_text(*found, "op"));
  TRY_BIND(problem.facts, json_facts(*found, "facts"));
  TRY_BIND(const std::string hash, json_text(*found, "hash"));
  if (hash != problem_hash(problem)) return corrupt("the problem's hash is that of another problem");
  return problem;
}

Result<json> parse_record(std::string_view bytes) {
  if (bytes.size() > kMostRecordBytes) {
    return corrupt("{} bytes; a record has at most {}", bytes.size(), kMostRecordBytes);
  }
  if (bytes.find('\n') + 1 != bytes.size() || bytes.empty()) return corrupt("not one line");
  JsonNesting nesting;
  for (char c : bytes) {
    nesting.push(c);
    if (nesting.depth() > kMostNesting) return corrupt("nested more than {} deep", kMostNesting);
  }
  std::vector<std::set<std::string>> names;  // of each open object
  std::string twice;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  json record = json::parse(bytes, watch, false);
  if (!twice.empty()) return corrupt("'{}' is there twice", twice);
  if (record.is_discarded()) return corrupt("no JSON");
  if (!record.is_object()) return corrupt("a {}; expected an object", record.type_name());
  return record;
}

}  // namespace

std::string write_tactic(const Tactic& tactic) {
  json others = json::array();
  for (const TriedCandidate& tried : tactic.others) {
    json one = kernel_to_json(tried.named);
    one["verdict"] = tried.verdict;
    one["detail"] = tried.detail;
    one["time"] = to_json(tried.time);
    others.push_back(std::move(one));
  }
  json chosen = kernel_to_json(tactic.chosen);
  chosen["time"] = to_json(tactic.time);
  const json record = {{"format", kRecordFormat},
                       {"problem",
                        {{"op", tactic.problem.op},
                         {"facts", facts_to_json(tactic.problem.facts)},
                         {"hash", problem_hash(tactic.problem)}}},
                       {"chosen", std::move(chosen)},
                       {"tie", tactic.tie},
                       {"others", std::move(others)},
                       {"device", facts_to_json(tactic.device)},
                       {"libraries", facts_to_json(tactic.libraries)},
                       {"clock", tactic.clock},
                       {"measured_at_ms", tactic.measured_at_ms},
                       {"version", tactic.version}};
  return record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string write_bounded_tactic(Tactic& tactic) {
  std::string bytes = write_tactic(tactic);
  while (bytes.size() > kMostRecordBytes && !tactic.others.empty()) {
    tactic.others.resize((tactic.others.size() - 1) * kMostRecordBytes / bytes.size());
    bytes = write_tactic(tactic);
  }
  return bytes;
}

Result<Tactic> read_tactic(std::string_view bytes) {
  TRY_BIND(const json record, parse_record(bytes));
  TRY_BIND(const int64_t format, json_count(record, "format"));
  if (format > kRecordFormat) return unsupported("format {}; this version reads {}", format, kRecordFormat);
  Tactic tactic;
  TRY_BIND(tactic.problem, problem_of(record));
  TRY_BIND(const json* chosen, json_member(record, "chosen", json::value_t::object));
  TRY_BIND(tactic.chosen, json_kernel(*chosen));
  TRY_BIND(tactic.time, times_of(*chosen));
  TRY_BIND(const json* tie, json_member(record, "tie", json::value_t::boolean));
  tactic.tie = tie->get<bool>();
  TRY_BIND(const json* others, json_member(record, "others", json::value_t::array));
  for (const json& other : *others) {
    TRY_BIND(TriedCandidate tried, tried_of(other));
    tactic.others.push_back(std::move(tried));
  }
  TRY_BIND(tactic.device, json_facts(record, "device"));
  TRY_BIND(tactic.libraries, json_facts(record, "libraries"));
  TRY_BIND(tactic.clock, json_text(record, "clock"));
  TRY_BIND(tactic.measured_at_ms, json_count(record, "measured_at_ms"));
  TRY_BIND(tactic.version, json_text(record, "version"));
  return tactic;
}

}  // namespace vernier
