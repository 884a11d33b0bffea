#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/http_client.h"

namespace vernier {

/// Which server to check, and as whom.
struct CheckTarget {
  ServerUrl url;
  std::string api_key;
  std::string model;
  ClientLimits limits;
};

enum class CheckOutcome { kPassed, kFailed, kSkipped };

struct CheckResult {
  CheckOutcome outcome = CheckOutcome::kPassed;
  std::string reason;  ///< why it failed or was skipped

  static CheckResult pass() { return {}; }
  static CheckResult fail(std::string why) { return {CheckOutcome::kFailed, std::move(why)}; }
  static CheckResult skip(std::string why) { return {CheckOutcome::kSkipped, std::move(why)}; }
};

/// One rule of the API. `number` is a letter for the group (T transport, Q request, R answer, S stream, C completions,
/// E embeddings, M models, P responses) and two digits. How it is checked is a row of data (request_rows.cc,
/// answer_rows.cc) or a function (conformance_wire.cc).
struct ConformanceCheck {
  std::string number;
  std::string what;
  bool standard = true;  ///< false: our own choice, which other servers need not share
  std::function<CheckResult(const CheckTarget&)> how;
};

/// All checks, by number.
std::vector<ConformanceCheck> conformance_checks();

/// A row of data as a check. Its members:
///   n, what, ours          number, sentence, true for our own choice
///   do                     chat, text, embed, respond: POST of a small greedy request; or "METHOD /path"
///   with, drop             members merged into that request; names taken out of it
///   each                   several "with", each a request of its own
///   raw                    bodies as they are, instead; $MODEL stands for the model's name
///   send                   header fields of the request
///   status                 a number or a list of those allowed (200)
///   skip                   a status that says "this server has no such route": the check is skipped
///   error                  true: the answer must be an error object with a message
///   expect, fields         JSON pointers of the answer, names of header fields: an expectation each (see below)
///   stream                 names of stream rules (stream_rules.h); the request is sent with "stream": true
/// An expectation is a plain value (equal), or an object of: is (type), prefix, has (substring), min, max, absent,
/// one_of, size, not_empty, keys (exactly these members), json (a string that parses as JSON).
ConformanceCheck check_of_row(const nlohmann::json& row);

/// Empty where the value keeps the expectation, else what is wrong. `value` null: there is none.
std::string unmet(const nlohmann::json* value, const nlohmann::json& expectation);

/// The rows of all data-driven checks: of requests (T, Q) and of answers (R, S, C, E, M, P).
nlohmann::json request_rows();
nlohmann::json answer_rows();
/// The checks that need more than one request or bytes of their own.
std::vector<ConformanceCheck> wire_checks();

/// A small greedy request: kind is chat, text, embed or respond.
nlohmann::json small_request(const CheckTarget& target, std::string_view kind);
ClientRequest posted(const CheckTarget& target, std::string_view kind, const nlohmann::json& body);
ClientRequest plain_request(const CheckTarget& target, std::string method, std::string path, std::string body = "");

}  // namespace vernier
