#include "client/load_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "client/event_reader.h"

namespace vernier {
namespace {

using nlohmann::json;

int whole(const json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int>() : 0;
}

/// Text of an event's first choice: content, or what stands in for it (reasoning, a call's arguments).
bool carries_text(const json& event) {
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return false;
  auto filled = [](const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
  };
  for (const json& choice : *choices) {
    if (!choice.is_object()) continue;
    if (filled(choice, "text")) return true;
    const auto delta = choice.find("delta");
    if (delta == choice.end() || !delta->is_object()) continue;
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      if (filled(*delta, key)) return true;
    }
    if (delta->contains("tool_calls") && (*delta)["tool_calls"].is_array()) return true;
  }
  return false;
}

void take_event(const ReceivedEvent& event, LoadRecord& record, bool& done) {
  const int64_t now_ns = monotonic_ns();
  if (event.data == "[DONE]") {
    done = true;
    return;
  }
  const json data = json::parse(event.data, nullptr, /*allow_exceptions=*/false);
  if (!data.is_object()) {
    record.fault = "malformed";
    record.message = fmt::format("an event that is no JSON object: {:.80}", event.data);
  } else if (data.contains("error") && !data["error"].is_null()) {
    record.fault = "error event";
    record.message = data["error"].dump().substr(0, 200);
  } else {
    if (carries_text(data)) record.text_ns.push_back(now_ns);
    const json usage = data.value("usage", json());
    if (!usage.is_object()) return;
    record.prompt_tokens = whole(usage, "prompt_tokens");
    record.output_tokens = whole(usage, "completion_tokens");
    record.cached_tokens = whole(usage.value("prompt_tokens_details", json()), "cached_tokens");
  }
}

void wait_until(int64_t due_ns) {
  const int64_t left_ns = due_ns - monotonic_ns();
  if (left_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
}

std::vector<std::pair<std::string, std::string>> request_fields(const std::string& api_key) {
  std::vector<std::pair<std::string, std::string>> fields = {{"Content-Type", "application/json"}};
  if (!api_key.empty()) fields.emplace_back("Authorization", "Bearer " + api_key);
  return fields;
}

}  // namespace

Result<std::string> first_served_model(const ServerUrl& url, const std::string& api_key, const ClientLimits& limits) {
  HttpClient client(url, limits);
  TRY_BIND(ClientReply reply, client.ask({.path = "/v1/models", .fields = request_fields(api_key)}));
  if (reply.head.status == 401) {
    return invalid_argument("{} wants a key: give one as --api-key (found status 401)", url.to_string());
  }
  const json answer = json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const json::json_pointer where("/data/0/id");
  if (reply.head.status != 200 || !answer.is_object() || !answer.contains(where) || !answer[where].is_string()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}/v1/models names no model (status {}); name one with --model", url.to_string(),
                             reply.head.status),
                 {}};
  }
  return answer[where].get<std::string>();
}

LoadRecord measure_request(HttpClient& client, const LoadSpec& spec, const json& body) {
  LoadRecord record;
  EventReader events;
  bool done = false;
  std::string beginning;  // of the body: what a refusal says
  const ClientRequest request{.method = "POST",
                              .path = spec.chat ? "/v1/chat/completions" : "/v1/completions",
                              .body = body.dump(),
                              .fields = request_fields(spec.api_key)};
  Result<ReplyHead> head = client.exchange(
      request,
      [&](std::string_view bytes) {
        if (beginning.size() < 300) beginning += bytes.substr(0, 300);
        events.feed(bytes, [&](ReceivedEvent event) { take_event(event, record, done); });
        return true;
      },
      &record.sent_ns);
  record.end_ns = monotonic_ns();
  if (!head.ok()) {
    record.fault = head.error().where.empty() ? "failed" : head.error().where;
    record.message = head.error().message;
  } else if (head->status != 200) {
    record.fault = fmt::format("status {}", head->status);
    record.message = beginning;
  } else if (record.fault.empty() && record.text_ns.empty()) {
    record.fault = "no text";
    record.message = "the stream carried no text";
  } else if (record.fault.empty() && !done) {
    record.fault = "no [DONE]";
    record.message = "the stream ended without [DONE]";
  }
  if (record.output_tokens == 0) record.output_tokens = static_cast<int>(record.text_ns.size());
  return record;
}

LoadRun run_load(const LoadSpec& spec, uint64_t prefix_seed) {
  const auto lanes = static_cast<size_t>(std::clamp(spec.concurrency, 1, std::max(1, spec.requests)));
  LoadRun run;
  run.records.resize(static_cast<size_t>(spec.requests));
  {
    HttpClient client(spec.url, spec.limits);
    for (int i = 0; i < spec.warmup; ++i) measure_request(client, spec, load_body(spec, fmix64(prefix_seed + 77), i));
  }
  // Bodies are made before the clock starts: a large prompt would delay the requests behind it.
  std::vector<json> bodies;
  for (int i = 0; i < spec.requests; ++i) bodies.push_back(load_body(spec, prefix_seed, i));
  const std::vector<int64_t> due_ns = arrival_times_ns(spec);
  std::atomic<size_t> next{0};
  run.start_ns = monotonic_ns() + 50'000'000;  // time for every thread to be there
  std::vector<std::thread> threads;
  for (size_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&] {
      HttpClient client(spec.url, spec.limits);
      for (size_t i = next.fetch_add(1); i < bodies.size(); i = next.fetch_add(1)) {
        const int64_t due =
            std::max(run.start_ns + due_ns[i], spec.arrival == ArrivalProcess::kClosed ? monotonic_ns() : 0);
        wait_until(due);
        run.records[i] = measure_request(client, spec, bodies[i]);
        run.records[i].due_ns = due;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const LoadRecord& record : run.records) run.end_ns = std::max(run.end_ns, record.end_ns);
  return run;
}

}  // namespace vernier
