#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "client/conformance.h"
#include "client/stream_rules.h"

namespace vernier {
namespace {

using nlohmann::json;

Result<json> answer_of(HttpClient& client, const ClientRequest& request, int status = 200) {
  TRY_BIND(ClientReply reply, client.ask(request));
  if (reply.head.status != status) {
    return make_error(ErrorCode::kInternal, "status {}, expected {}: {:.120}", reply.head.status, status, reply.body);
  }
  json answer = json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return make_error(ErrorCode::kInternal, "the answer is no JSON object: {:.120}", reply.body);
  return answer;
}

Result<StreamRecord> stream_of(HttpClient& client, const CheckTarget& target, json body) {
  body["stream"] = true;
  TRY_BIND(ClientReply reply, client.ask(posted(target, body.contains("prompt") ? "text" : "chat", body)));
  if (reply.head.status != 200) return make_error(ErrorCode::kInternal, "status {} for a stream", reply.head.status);
  return StreamRecord::of(std::move(reply.head), std::move(reply.body), std::move(body));
}

Status expect(bool holds, std::string why) {
  if (holds) return {};
  return Error{ErrorCode::kInternal, std::move(why), {}};
}

Status chunked_body(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  ClientRequest request = posted(target, "chat", small_request(target, "chat"));
  for (size_t bytes : {size_t{7}, size_t{4096}}) {
    request.chunk_bytes = bytes;
    TRY_STATUS(answer_of(client, request));
  }
  return {};
}

Status keep_alive(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  const std::pair<const char*, int> steps[] = {{"/v1/models", 200}, {"/v1/nothing", 404}, {"/v1/models", 200}};
  for (const auto& [path, status] : steps) {
    TRY_STATUS(answer_of(client, plain_request(target, "GET", path), status));
  }
  return expect(client.connected(), "the server closes the connection after each answer");
}

Status pipelined(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  TRY_STATUS(client.send_raw(client.spell(plain_request(target, "GET", "/v1/nothing")) +
                             client.spell(plain_request(target, "GET", "/v1/models"))));
  TRY_BIND(ClientReply first, client.read_raw());
  TRY_BIND(ClientReply second, client.read_raw());
  return expect(first.head.status == 404 && second.head.status == 200,
                fmt::format("statuses {} and {}, expected 404 and 200", first.head.status, second.head.status));
}

Status byte_by_byte(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  for (char byte : client.spell(plain_request(target, "GET", "/v1/models"))) {
    TRY_STATUS(client.send_raw(std::string_view(&byte, 1)));
  }
  TRY_BIND(ClientReply reply, client.read_raw());
  return expect(reply.head.status == 200, fmt::format("status {}", reply.head.status));
}

Status deep_nesting(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  std::string body = small_request(target, "chat").dump();
  body.pop_back();
  body += R"(,"metadata":)" + std::string(10'000, '[') + std::string(10'000, ']') + "}";
  ClientRequest request = posted(target, "chat", json());
  request.body = std::move(body);
  TRY_BIND(ClientReply reply, client.ask(request));
  TRY_STATUS(expect(reply.head.status == 400 || reply.head.status == 413, fmt::format("status {}", reply.head.status)));
  TRY_STATUS(answer_of(client, plain_request(target, "GET", "/v1/models")));
  return {};
}

Status invalid_utf8(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  for (const char* text : {"\xff\xfe", "\xc3", "\xed\xa0\x80", "\xc0\xaf"}) {
    json body = small_request(target, "chat");
    body["messages"][0]["content"] = "PLACE";
    ClientRequest request = posted(target, "chat", body);
    request.body.replace(request.body.find("PLACE"), 5, text);
    TRY_BIND(ClientReply reply, client.ask(request));
    TRY_STATUS(
        expect(reply.head.status == 400, fmt::format("status {} for bytes that are no UTF-8", reply.head.status)));
  }
  return {};
}

Status wrong_key(const CheckTarget& target) {
  CheckTarget other = target;
  HttpClient client(target.url, target.limits);
  for (const char* key : {"", "wrong"}) {
    other.api_key = key;
    TRY_BIND(json answer, answer_of(client, plain_request(other, "GET", "/v1/models"), 401));
    TRY_STATUS(expect(answer.contains("error"), "a 401 without an error object"));
  }
  ClientRequest request = plain_request(other, "GET", "/v1/models");
  request.fields = {{"Authorization", "bearer " + target.api_key}};
  TRY_STATUS(answer_of(client, request));
  return {};
}

/// After streams that nobody reads to their end the server still answers.
Status abandoned_streams(const CheckTarget& target) {
  for (int i = 0; i < 4; ++i) {
    HttpClient client(target.url, target.limits);
    json body = small_request(target, "chat");
    body.update({{"stream", true}, {"max_tokens", 400}});
    int events = 0;
    Result<ReplyHead> head =
        client.exchange(posted(target, "chat", body), [&](std::string_view) { return ++events < 2; });
    TRY_STATUS(expect(head.ok() || head.error().where == "cancelled", head.ok() ? "" : head.error().to_string()));
  }
  HttpClient client(target.url, target.limits);
  TRY_STATUS(answer_of(client, posted(target, "chat", small_request(target, "chat"))));
  return {};
}

Status same_seed(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  json body = small_request(target, "chat");
  body.update({{"temperature", 1.2}, {"seed", 7}, {"max_tokens", 16}});
  TRY_BIND(json first, answer_of(client, posted(target, "chat", body)));
  TRY_BIND(json second, answer_of(client, posted(target, "chat", body)));
  TRY_STATUS(expect(whole_choice(first, 0) == whole_choice(second, 0), "one seed gave two answers"));
  for (int seed = 8; seed < 13; ++seed) {
    body["seed"] = seed;
    TRY_BIND(json other, answer_of(client, posted(target, "chat", body)));
    if (whole_choice(other, 0) != whole_choice(first, 0)) return {};
  }
  return expect(false, "six seeds gave one answer at temperature 1.2");
}

Status stop_cuts(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  json body = small_request(target, "chat");
  body["max_tokens"] = 24;
  TRY_BIND(json whole, answer_of(client, posted(target, "chat", body)));
  const std::string text = whole_choice(whole, 0).text;
  TRY_STATUS(expect(text.size() >= 4, "the model said too little to stop in"));
  const std::string stop = text.substr(text.size() / 2, 3);
  body["stop"] = stop;
  const JoinedChoice wanted{text.substr(0, text.find(stop)), "stop", {}, {}};
  TRY_BIND(json cut, answer_of(client, posted(target, "chat", body)));
  TRY_STATUS(
      expect(whole_choice(cut, 0) == wanted, fmt::format("stop '{}' did not cut '{:.60}' before it", stop, text)));
  TRY_BIND(StreamRecord record, stream_of(client, target, body));
  return expect(joined_choice(record, 0) == wanted, "a stream showed text of its stop string, or lost some before it");
}

Status usage_adds_up(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  json body = small_request(target, "chat");
  TRY_BIND(json one, answer_of(client, posted(target, "chat", body)));
  body["n"] = 2;
  TRY_BIND(json two, answer_of(client, posted(target, "chat", body)));
  auto count = [](const json& answer, const char* key) {
    const json::json_pointer where(std::string("/usage/") + key);
    return answer.contains(where) && answer[where].is_number_integer() ? answer[where].get<int>() : -1;
  };
  for (const json& answer : {one, two}) {
    TRY_STATUS(
        expect(count(answer, "total_tokens") == count(answer, "prompt_tokens") + count(answer, "completion_tokens"),
               "total is not prompt + completion"));
  }
  TRY_STATUS(expect(count(two, "prompt_tokens") == count(one, "prompt_tokens"), "n = 2 counts the prompt twice"));
  return expect(count(two, "completion_tokens") == 2 * count(one, "completion_tokens"),
                "n = 2 does not count both answers");
}

Status ids_differ(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  TRY_BIND(json first, answer_of(client, posted(target, "chat", small_request(target, "chat"))));
  TRY_BIND(json second, answer_of(client, posted(target, "chat", small_request(target, "chat"))));
  return expect(first.value("id", json()) != second.value("id", json()), "two answers have one id");
}

Status stream_is_answer(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  for (const char* kind : {"chat", "text"}) {
    json body = small_request(target, kind);
    body["n"] = 2;
    TRY_BIND(json whole, answer_of(client, posted(target, kind, body)));
    TRY_BIND(StreamRecord record, stream_of(client, target, body));
    for (int i = 0; i < 2; ++i) {
      const JoinedChoice one = whole_choice(whole, i), other = joined_choice(record, i);
      TRY_STATUS(
          expect(!one.text.empty() && one == other,
                 fmt::format("{}: choice {} is '{:.60}' whole and '{:.60}' streamed", kind, i, one.text, other.text)));
    }
  }
  return {};
}

/// A stream that is held back comes all at once, long after its request.
Status event_by_event(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  json body = small_request(target, "chat");
  body.update({{"stream", true}, {"max_tokens", 40}});
  int64_t sent_ns = 0, first_ns = 0;
  std::string raw;
  TRY_BIND(ReplyHead head, client.exchange(
                               posted(target, "chat", body),
                               [&](std::string_view bytes) {
                                 raw += bytes;
                                 // The first event is the role, which some servers send before they compute.
                                 if (first_ns == 0 && raw.find("\n\n", raw.find("\n\n") + 1) != std::string::npos) {
                                   first_ns = monotonic_ns();
                                 }
                                 return true;
                               },
                               &sent_ns));
  const int64_t end_ns = monotonic_ns();
  TRY_STATUS(expect(head.status == 200 && first_ns != 0, fmt::format("status {} and no events", head.status)));
  const double spread = static_cast<double>(end_ns - first_ns) / static_cast<double>(end_ns - sent_ns);
  return expect(spread > 0.05,
                fmt::format("all events came in the last {:.1f} % of the time: the stream is buffered", 100 * spread));
}

Status slow_readers(const CheckTarget& target) {
  std::vector<std::unique_ptr<HttpClient>> slow;
  json body = small_request(target, "chat");
  body.update({{"stream", true}, {"max_tokens", 60}});
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<HttpClient>(target.url, target.limits));
    TRY_STATUS(slow.back()->send_raw(slow.back()->spell(posted(target, "chat", body))));
  }
  HttpClient client(target.url, target.limits);
  TRY_STATUS(answer_of(client, posted(target, "chat", small_request(target, "chat"))));
  TRY_BIND(ClientReply late, slow.front()->read_raw());
  return expect(late.body.ends_with("data: [DONE]\n\n"), "a stream that was read late is not whole");
}

Status one_model(const CheckTarget& target) {
  HttpClient client(target.url, target.limits);
  TRY_BIND(json model, answer_of(client, plain_request(target, "GET", "/v1/models/" + target.model)));
  return expect(model.value("id", json()) == target.model, "another id than the one asked for");
}

ConformanceCheck wire_check(std::string number, std::string what, Status (*how)(const CheckTarget&)) {
  return {std::move(number), std::move(what), true, [how](const CheckTarget& target) {
            const Status status = how(target);
            return status.ok() ? CheckResult::pass() : CheckResult::fail(status.error().to_string());
          }};
}

}  // namespace

std::vector<ConformanceCheck> wire_checks() {
  std::vector<ConformanceCheck> checks = {
      wire_check("T04", "a chunked request body is taken", chunked_body),
      wire_check("T04", "a request that comes byte by byte is answered", byte_by_byte),
      wire_check("T05", "a connection stays open after answers and errors", keep_alive),
      wire_check("T05", "pipelined requests are answered in order", pipelined),
      wire_check("T07", "10,000 levels of nesting are refused, and the server lives", deep_nesting),
      wire_check("T07", "bytes that are no UTF-8 are 400", invalid_utf8),
      wire_check("T20", "streams that nobody reads to their end stop nothing", abandoned_streams),
      wire_check("Q15", "a stop string cuts the answer before it", stop_cuts),
      wire_check("Q16", "a seed repeats an answer, another seed does not", same_seed),
      wire_check("R01", "two answers have two ids", ids_differ),
      wire_check("R07", "usage adds up, and n = 2 counts its prompt once", usage_adds_up),
      wire_check("S01", "events are sent as they come", event_by_event),
      wire_check("S11", "joined pieces are the whole answer", stream_is_answer),
      wire_check("S16", "readers that are slow hold nobody up", slow_readers),
      wire_check("M02", "a model is found by its id", one_model)};
  const ConformanceCheck keyed =
      wire_check("T11", "no key and a wrong key are 401, 'bearer' in any case is a key", wrong_key);
  checks.push_back(keyed);
  checks.back().how = [how = keyed.how](const CheckTarget& target) {
    return target.api_key.empty() ? CheckResult::skip("no --api-key was given") : how(target);
  };
  return checks;
}

}  // namespace vernier
