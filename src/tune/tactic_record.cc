#include "tune/tactic_record.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/json_nesting.h"

namespace vernier {
namespace {

using nlohmann::json;

constexpr size_t kMostNesting = 8;

json to_json(const Facts& facts) {
  json all = json::array();
  for (const Problem::Fact& fact : facts) all.push_back({fact.name, fact.value});
  return all;
}

json to_json(const NamedKernel& named) {
  return {{"kernel", named.kernel}, {"hash", named.kernel_hash}, {"parameters", to_json(named.parameters)}};
}

json to_json(const TacticTime& time) {
  return {{"median_ns", time.median_ns}, {"spread_ns", time.spread_ns}, {"repeats", time.repeats}};
}

Result<const json*> member(const json& object, const char* key, json::value_t type) {
  if (!object.is_object()) return corrupt("the object that should have '{}' is a {}", key, object.type_name());
  const auto found = object.find(key);
  if (found == object.end()) return corrupt("'{}' is absent", key);
  const bool fits = type == json::value_t::number_float ? found->is_number() : found->type() == type;
  if (!fits) return corrupt("'{}' is a {}; expected a {}", key, found->type_name(), json(type).type_name());
  return &*found;
}

Result<std::string> text_of(const json& object, const char* key) {
  TRY_BIND(const json* found, member(object, key, json::value_t::string));
  return found->get<std::string>();
}

Result<int64_t> count_of(const json& object, const char* key) {
  TRY_BIND(const json* found, member(object, key, json::value_t::number_float));
  if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) ||
      found->get<int64_t>() < 0) {
    return corrupt("'{}' is {}; expected a whole number from 0", key, found->dump());
  }
  return found->get<int64_t>();
}

Result<double> time_of(const json& object, const char* key) {
  TRY_BIND(const json* found, member(object, key, json::value_t::number_float));
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) return corrupt("'{}' is {}; expected a time from 0", key, found->dump());
  return value;
}

Result<Facts> facts_of(const json& object, const char* key) {
  TRY_BIND(const json* found, member(object, key, json::value_t::array));
  Facts facts;
  for (const json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return corrupt("'{}' holds {}; expected [name, value]", key,
                     pair.dump(-1, ' ', false, json::error_handler_t::replace));
    }
    facts.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
  }
  return facts;
}

Result<NamedKernel> named_of(const json& object) {
  NamedKernel named;
  TRY_BIND(named.kernel, text_of(object, "kernel"));
  TRY_BIND(named.kernel_hash, text_of(object, "hash"));
  TRY_BIND(named.parameters, facts_of(object, "parameters"));
  if (named.kernel.empty()) return corrupt("a kernel has no name");
  return named;
}

Result<TacticTime> times_of(const json& object) {
  TRY_BIND(const json* found, member(object, "time", json::value_t::object));
  TacticTime time;
  TRY_BIND(time.median_ns, time_of(*found, "median_ns"));
  TRY_BIND(time.spread_ns, time_of(*found, "spread_ns"));
  TRY_BIND(time.repeats, count_of(*found, "repeats"));
  return time;
}

Result<TriedCandidate> tried_of(const json& object) {
  TriedCandidate tried;
  TRY_BIND(tried.named, named_of(object));
  TRY_BIND(tried.verdict, text_of(object, "verdict"));
  TRY_BIND(tried.detail, text_of(object, "detail"));
  TRY_BIND(tried.time, times_of(object));
  return tried;
}

Result<Problem> problem_of(const json& record) {
  TRY_BIND(const json* found, member(record, "problem", json::value_t::object));
  Problem problem;
  TRY_BIND(problem.op, text_of(*found, "op"));
  TRY_BIND(problem.facts, facts_of(*found, "facts"));
  TRY_BIND(const std::string hash, text_of(*found, "hash"));
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
    json one = to_json(tried.named);
    one["verdict"] = tried.verdict;
    one["detail"] = tried.detail;
    one["time"] = to_json(tried.time);
    others.push_back(std::move(one));
  }
  json chosen = to_json(tactic.chosen);
  chosen["time"] = to_json(tactic.time);
  const json record = {
      {"format", kRecordFormat},
      {"problem",
       {{"op", tactic.problem.op}, {"facts", to_json(tactic.problem.facts)}, {"hash", problem_hash(tactic.problem)}}},
      {"chosen", std::move(chosen)},
      {"tie", tactic.tie},
      {"others", std::move(others)},
      {"device", to_json(tactic.device)},
      {"libraries", to_json(tactic.libraries)},
      {"clock", tactic.clock},
      {"measured_at_ms", tactic.measured_at_ms},
      {"version", tactic.version}};
  return record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Tactic> read_tactic(std::string_view bytes) {
  TRY_BIND(const json record, parse_record(bytes));
  TRY_BIND(const int64_t format, count_of(record, "format"));
  if (format > kRecordFormat) return unsupported("format {}; this version reads {}", format, kRecordFormat);
  Tactic tactic;
  TRY_BIND(tactic.problem, problem_of(record));
  TRY_BIND(const json* chosen, member(record, "chosen", json::value_t::object));
  TRY_BIND(tactic.chosen, named_of(*chosen));
  TRY_BIND(tactic.time, times_of(*chosen));
  TRY_BIND(const json* tie, member(record, "tie", json::value_t::boolean));
  tactic.tie = tie->get<bool>();
  TRY_BIND(const json* others, member(record, "others", json::value_t::array));
  for (const json& other : *others) {
    TRY_BIND(TriedCandidate tried, tried_of(other));
    tactic.others.push_back(std::move(tried));
  }
  TRY_BIND(tactic.device, facts_of(record, "device"));
  TRY_BIND(tactic.libraries, facts_of(record, "libraries"));
  TRY_BIND(tactic.clock, text_of(record, "clock"));
  TRY_BIND(tactic.measured_at_ms, count_of(record, "measured_at_ms"));
  TRY_BIND(tactic.version, text_of(record, "version"));
  return tactic;
}

}  // namespace vernier
