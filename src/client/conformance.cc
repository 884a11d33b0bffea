#include "client/conformance.h"

#include <algorithm>

#include "client/stream_rules.h"

namespace vernier {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 120);
}

bool has_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "null") return value.is_null();
  CHECK(type == "boolean", "an expectation of type {}", type);
  return value.is_boolean();
}

std::string text_unmet(const json& value, const std::string& rule, const json& wanted) {
  if (!value.is_string()) return fmt::format("is {}, expected a string", shown(value));
  const auto& text = value.get_ref<const std::string&>();
  if (rule == "prefix")
    return text.starts_with(wanted.get<std::string>())
               ? ""
               : "is " + shown(value) + ", expected " + shown(wanted) + " at its beginning";
  if (rule == "has")
    return text.find(wanted.get<std::string>()) != std::string::npos
               ? ""
               : "is " + shown(value) + ", expected " + shown(wanted) + " in it";
  return json::accept(text) ? "" : "is " + shown(value) + ", expected JSON in a string";
}

std::string rule_unmet(const json& value, const std::string& rule, const json& wanted) {
  const std::string found = "is " + shown(value) + ", expected ";
  if (rule == "is") return has_type(value, wanted.get<std::string>()) ? "" : found + shown(wanted);
  if (rule == "min") return value.is_number() && value >= wanted ? "" : found + "at least " + shown(wanted);
  if (rule == "max") return value.is_number() && value <= wanted ? "" : found + "at most " + shown(wanted);
  if (rule == "one_of")
    return std::ranges::find(wanted, value) != wanted.end() ? "" : found + "one of " + shown(wanted);
  if (rule == "size") return value.is_array() && value.size() == wanted ? "" : found + shown(wanted) + " of them";
  if (rule == "not_empty")
    return (value.is_string() || value.is_array()) && value != "" && !value.empty() ? "" : found + "something in it";
  if (rule == "keys") {
    std::vector<std::string> names;
    if (value.is_object()) {
      for (const auto& [key, unused] : value.items()) names.push_back(key);
    }
    return json(names) == wanted ? "" : "has the members " + shown(json(names)) + ", expected " + shown(wanted);
  }
  CHECK(rule == "prefix" || rule == "has" || rule == "json", "an expectation of kind {}", rule);
  return text_unmet(value, rule, wanted);
}

bool status_allowed(int status, const json& allowed) {
  if (allowed.is_array()) return std::ranges::find(allowed, json(status)) != allowed.end();
  return allowed == status;
}

std::string error_unmet(const ClientReply& reply) {
  const json answer = json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const json* error = answer.is_object() && answer.contains("error") ? &answer["error"] : nullptr;
  if (error == nullptr || !error->is_object() || !error->contains("message") || !(*error)["message"].is_string() ||
      (*error)["message"] == "") {
    return fmt::format("no error object with a message: {:.120}", reply.body);
  }
  return "";
}

std::string answer_unmet(const json& row, const ClientReply& reply) {
  if (row.value("error", false)) {
    if (std::string why = error_unmet(reply); !why.empty()) return why;
  }
  const json fields = row.value("fields", json::object());
  for (const auto& [name, expectation] : fields.items()) {
    const std::string* found = reply.head.find(name);
    const json value = found == nullptr ? json() : json(*found);
    if (std::string why = unmet(found == nullptr ? nullptr : &value, expectation); !why.empty()) {
      return fmt::format("header {} {}", name, why);
    }
  }
  if (!row.contains("expect")) return "";
  const json answer = json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) return fmt::format("the answer is no JSON: {:.120}", reply.body);
  for (const auto& [pointer, expectation] : row["expect"].items()) {
    const json::json_pointer where(pointer);
    const json* value = answer.contains(where) ? &answer[where] : nullptr;
    if (std::string why = unmet(value, expectation); !why.empty()) return fmt::format("{} {}", pointer, why);
  }
  return "";
}

/// The requests of a row, each with what tells it from its neighbours.
std::vector<std::pair<std::string, ClientRequest>> requests_of(const json& row, const CheckTarget& target) {
  std::vector<std::pair<std::string, ClientRequest>> requests;
  const std::string kind = row.at("do").get<std::string>();
  const size_t space = kind.find(' ');
  auto add = [&](const std::string& name, const std::string& body) {
    if (space != std::string::npos) {
      requests.emplace_back(name, plain_request(target, kind.substr(0, space), kind.substr(space + 1), body));
    } else {
      requests.emplace_back(name, posted(target, kind, json::object()));
      requests.back().second.body = body;
    }
    const json own = row.value("send", json::object());
    for (const auto& [field, value] : own.items()) {
      auto& fields = requests.back().second.fields;
      std::erase_if(fields, [&](const auto& entry) { return entry.first == field; });
      fields.emplace_back(field, value.get<std::string>());
    }
  };
  if (row.contains("raw")) {
    for (const json& raw : row["raw"]) {
      std::string body = raw.get<std::string>();
      if (const size_t at = body.find("$MODEL"); at != std::string::npos) body.replace(at, 6, target.model);
      add(shown(raw), body);
    }
    return requests;
  }
  if (space != std::string::npos) {
    add("", row.contains("with") ? row["with"].dump() : "");
    return requests;
  }
  for (const json& with : row.value("each", json::array({json::object()}))) {
    json body = small_request(target, kind);
    body.update(row.value("with", json::object()));
    body.update(with);
    for (const json& name : row.value("drop", json::array())) body.erase(name.get<std::string>());
    if (row.contains("stream")) body["stream"] = true;
    add(with.empty() ? "" : shown(with), body.dump());
  }
  return requests;
}

CheckResult run_request(const json& row, const ClientRequest& request, const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  Result<ClientReply> reply = client.ask(request);
  if (!reply.ok()) return CheckResult::fail(reply.error().to_string());
  const int status = reply->head.status;
  if (row.contains("skip") && row["skip"] == status) {
    return CheckResult::skip(fmt::format("this server answers {} with {}", request.path, status));
  }
  if (!status_allowed(status, row.value("status", json(200)))) {
    return CheckResult::fail(
        fmt::format("status {}, expected {}: {:.120}", status, shown(row.value("status", json(200))), reply->body));
  }
  if (std::string why = answer_unmet(row, *reply); !why.empty()) return CheckResult::fail(why);
  if (!row.contains("stream")) return CheckResult::pass();
  const StreamRecord record = StreamRecord::of(reply->head, reply->body, json::parse(request.body, nullptr, false));
  for (const json& rule : row["stream"]) {
    if (std::string why = broken_rule(rule.get<std::string>(), record); !why.empty()) return CheckResult::fail(why);
  }
  return CheckResult::pass();
}

}  // namespace

std::string unmet(const json* value, const json& expectation) {
  if (!expectation.is_object()) {
    if (value == nullptr) return "is missing, expected " + shown(expectation);
    return *value == expectation ? "" : "is " + shown(*value) + ", expected " + shown(expectation);
  }
  if (expectation.value("absent", false)) return value == nullptr ? "" : "is there, expected it absent";
  if (value == nullptr) return "is missing";
  for (const auto& [rule, wanted] : expectation.items()) {
    if (std::string why = rule_unmet(*value, rule, wanted); !why.empty()) return why;
  }
  return "";
}

json small_request(const CheckTarget& target, std::string_view kind) {
  const char* ask = "Count from one to ten in words.";
  if (kind == "embed") return {{"model", target.model}, {"input", "a fox"}};
  if (kind == "respond")
    return {{"model", target.model}, {"temperature", 0}, {"input", ask}, {"max_output_tokens", 16}};
  json body = {{"model", target.model}, {"temperature", 0}, {"max_tokens", 8}};
  if (kind == "text") {
    body["prompt"] = ask;
  } else {
    CHECK(kind == "chat", "a request of kind {}", kind);
    body["messages"] = json::array({{{"role", "user"}, {"content", ask}}});
  }
  return body;
}

ClientRequest plain_request(const CheckTarget& target, std::string method, std::string path, std::string body) {
  ClientRequest request{.method = std::move(method), .path = std::move(path), .body = std::move(body)};
  if (!request.body.empty() || request.method == "POST")
    request.fields.emplace_back("Content-Type", "application/json");
  if (!target.api_key.empty()) request.fields.emplace_back("Authorization", "Bearer " + target.api_key);
  return request;
}

ClientRequest posted(const CheckTarget& target, std::string_view kind, const json& body) {
  const char* path = kind == "chat"    ? "/v1/chat/completions"
                     : kind == "text"  ? "/v1/completions"
                     : kind == "embed" ? "/v1/embeddings"
                                       : "/v1/responses";
  return plain_request(target, "POST", path, body.dump());
}

ConformanceCheck check_of_row(const json& row) {
  ConformanceCheck check{
      row.at("n").get<std::string>(), row.at("what").get<std::string>(), !row.value("ours", false), {}};
  check.how = [row](const CheckTarget& target) {
    for (const auto& [name, request] : requests_of(row, target)) {
      CheckResult result = run_request(row, request, target);
      if (result.outcome == CheckOutcome::kPassed) continue;
      if (!name.empty()) result.reason = name + ": " + result.reason;
      return result;
    }
    return CheckResult::pass();
  };
  return check;
}

std::vector<ConformanceCheck> conformance_checks() {
  std::vector<ConformanceCheck> checks = wire_checks();
  for (const json& rows : {request_rows(), answer_rows()}) {
    for (const json& row : rows) checks.push_back(check_of_row(row));
  }
  auto place = [](const ConformanceCheck& check) {
    return std::pair(std::string_view("TQRSCEMP").find(check.number[0]), std::string_view(check.number).substr(1));
  };
  std::ranges::stable_sort(checks, {}, place);
  return checks;
}

}  // namespace vernier
