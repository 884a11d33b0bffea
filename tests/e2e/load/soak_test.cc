// Clients of all manners for a long time: those that ask well, that leave, that are late, that send what is no request.
// Afterwards nothing is held, memory has not grown, and the counters agree with what the clients saw.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>

#include "base/clock.h"
#include "client/event_reader.h"
#include "e2e/load/served_program.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::ServedProgram;

constexpr int kClients = 8;

/// What the clients saw, added up.
struct Tally {
  std::atomic<int64_t> requests{0};   // of any kind, sent whole
  std::atomic<int64_t> answered{0};   // generations with their whole answer
  std::atomic<int64_t> tokens{0};     // of those, by their usage
  std::atomic<int64_t> timed_out{0};  // 504, or an error event that says so
  std::atomic<int64_t> refused{0};    // generations refused with 429
  std::atomic<int64_t> left{0};       // generations whose client hung up, or that another request aborted
  std::mutex mutex;
  std::map<std::string, int> kinds;  // how often each was done
  std::vector<std::string> faults;   // what must not happen

  void fault(const std::string& what) {
    std::lock_guard lock(mutex);
    if (faults.size() < 20) faults.push_back(what);
  }
  void done(const std::string& kind) {
    std::lock_guard lock(mutex);
    ++kinds[kind];
  }
};

/// One client that does one random thing after another.
class SoakClient {
 public:
  SoakClient(const ServerUrl& url, uint64_t seed, Tally& tally)
      : url_(url), client_(url), random_(seed), tally_(tally) {}

  void act() {
    const int what = pick(0, 99);
    if (what < 30) {
      whole_answer();
    } else if (what < 55) {
      stream(0);
    } else if (what < 65) {
      stream(pick(1, 4));
    } else if (what < 72) {
      hang_up_unread();
    } else if (what < 78) {
      abort_by_id();
    } else if (what < 90) {
      malformed();
    } else {
      other_routes();
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  json generation(std::string& path) {
    const bool chat = pick(0, 1) == 1;
    path = chat ? "/v1/chat/completions" : "/v1/completions";
    std::string prompt;
    for (int i = pick(1, 40); i > 0; --i) prompt += static_cast<char>(pick('a', 'z'));
    // Some share a prefix, so that blocks are held by several and evicted.
    if (pick(0, 2) == 0) prompt = std::string(60, static_cast<char>(pick('a', 'd'))) + prompt;
    json body = {{"model", "m"}, {"max_tokens", pick(1, 24)}, {"seed", pick(0, 1000)}};
    if (chat) {
      body["messages"] = {{{"role", "user"}, {"content", prompt}}};
    } else {
      body["prompt"] = prompt;
    }
    // Too many to be ready in time.
    if (pick(0, 19) == 0) body.update({{"max_tokens", 100}, {"ignore_eos", true}, {"n", 12}});
    if (pick(0, 9) == 0) body["n"] = pick(2, 4);
    if (pick(0, 9) == 0) body["temperature"] = 0;
    if (pick(0, 9) == 0) body["stop"] = {std::string(1, static_cast<char>(pick('a', 'z')))};
    if (pick(0, 9) == 0) body["logprobs"] = chat ? json(true) : json(2);
    if (pick(0, 14) == 0) body["cache_salt"] = std::string(1, static_cast<char>(pick('a', 'c')));
    if (pick(0, 14) == 0) body["prompt_logprobs"] = 1;
    if (VERNIER_HAS_XGRAMMAR && pick(0, 14) == 0) body["regex"] = "[a-z]{2,6}";
    if (pick(0, 9) == 0) body["priority"] = pick(-2, 2);
    return body;
  }
  ClientRequest post(const std::string& path, const json& body) const {
    return {.method = "POST", .path = path, .body = body.dump(), .fields = {{"Content-Type", "application/json"}}};
  }

  void count_status(int status, const std::string& body) {
    if (status == 504) {
      ++tally_.timed_out;
    } else if (status == 429) {
      ++tally_.refused;
    } else {
      tally_.fault("a generation got " + std::to_string(status) + ": " + body.substr(0, 200));
    }
  }

  void whole_answer() {
    std::string path;
    const json body = generation(path);
    auto reply = client_.ask(post(path, body));
    ++tally_.requests;
    tally_.done("whole");
    if (!reply.ok()) return tally_.fault("whole answer: " + reply.error().to_string());
    if (reply->head.status != 200) return count_status(reply->head.status, reply->body);
    ++tally_.answered;
    tally_.tokens += json::parse(reply->body)["usage"]["completion_tokens"].get<int64_t>();
  }

  /// Reads to the end, or leaves after so many events.
  void stream(int leave_after) {
    std::string path;
    json body = generation(path);
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    EventReader reader;
    int events = 0;
    int64_t tokens = -1;
    std::string error, last;
    auto head = client_.exchange(post(path, body), [&](std::string_view bytes) {
      reader.feed(bytes, [&](const ReceivedEvent& event) {
        ++events;
        last = event.data;
        const json chunk = json::parse(event.data, nullptr, false);
        if (chunk.is_discarded()) return;
        if (chunk.contains("error")) error = chunk["error"]["code"];
        if (chunk.contains("usage") && chunk["usage"].is_object()) tokens = chunk["usage"]["completion_tokens"];
      });
      return leave_after == 0 || events < leave_after;
    });
    ++tally_.requests;
    tally_.done(leave_after > 0 ? "left a stream" : "stream");
    if (leave_after > 0) {
      client_.close();
      ++tally_.left;
      return;
    }
    if (!head.ok()) return tally_.fault("stream: " + head.error().to_string());
    if (head->status != 200) return count_status(head->status, last);
    if (last != "[DONE]") return tally_.fault("a stream ended with " + last);
    if (error == "timeout") {
      ++tally_.timed_out;
    } else if (!error.empty()) {
      tally_.fault("a stream said " + error);
    } else if (tokens < 0) {
      tally_.fault("a stream without usage");
    } else {
      ++tally_.answered;
      tally_.tokens += tokens;
    }
  }

  void hang_up_unread() {
    std::string path;
    json body = generation(path);
    if (pick(0, 1) == 1) body["stream"] = true;
    HttpClient one(url_);
    const Status sent = one.send_raw(one.spell(post(path, body)));
    if (pick(0, 1) == 1) std::this_thread::sleep_for(std::chrono::milliseconds(pick(0, 5)));
    one.close();
    ++tally_.left;
    tally_.done("hung up");
  }

  void abort_by_id() {
    std::string path;
    json body = generation(path);
    const std::string id = "soak-" + std::to_string(random_());
    body["request_id"] = id;
    body["ignore_eos"] = true;
    std::thread other([&] {
      HttpClient one(url_);
      std::this_thread::sleep_for(std::chrono::milliseconds(pick_delay_));
      auto reply = one.ask(post("/abort_request", {{"rid", id}}));
      ++tally_.requests;
      if (!reply.ok() || reply->head.status != 200) tally_.fault("abort_request");
    });
    auto reply = client_.ask(post(path, body));
    other.join();
    pick_delay_ = pick(0, 20);
    ++tally_.requests;
    tally_.done("aborted");
    if (!reply.ok()) return tally_.fault("aborted: " + reply.error().to_string());
    if (reply->head.status == 499) {
      ++tally_.left;
    } else if (reply->head.status == 200) {
      ++tally_.answered;
      tally_.tokens += json::parse(reply->body)["usage"]["completion_tokens"].get<int64_t>();
    } else {
      count_status(reply->head.status, reply->body);
    }
  }

  /// Bytes that are no request, JSON that is none, and fields of wrong types: 4xx or a closed connection, never 5xx.
  void malformed() {
    std::string path;
    std::string text = generation(path).dump();
    HttpClient one(url_);
    std::string bytes;
    switch (pick(0, 4)) {
      case 0:
        for (int i = pick(1, 3000); i > 0; --i) bytes += static_cast<char>(pick(0, 255));
        bytes += "\r\n\r\n";
        break;
      case 1:
        text.resize(text.size() - static_cast<size_t>(pick(1, static_cast<int>(text.size()) - 1)));
        break;
      case 2:
        for (int i = pick(1, 6); i > 0; --i)
          text[static_cast<size_t>(pick(0, static_cast<int>(text.size()) - 1))] = static_cast<char>(pick(0, 255));
        break;
      case 3:
        text = R"({"model":"m","prompt":)" + std::string(static_cast<size_t>(pick(1, 20000)), '[');
        break;
      default:
        bytes = "POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n";
        break;
    }
    if (bytes.empty()) {
      bytes =
          one.spell({.method = "POST", .path = path, .body = text, .fields = {{"Content-Type", "application/json"}}});
    }
    ++tally_.requests;
    tally_.done("malformed");
    if (!one.send_raw(bytes).ok()) return;
    auto reply = one.read_raw();
    // A changed letter may leave a good request behind.
    if (reply.ok() && reply->head.status == 200) {
      ++tally_.left;
    } else if (reply.ok() && reply->head.status >= 500 && reply->head.status != 504) {
      tally_.fault("malformed got " + std::to_string(reply->head.status) + ": " + reply->body);
    } else if (reply.ok() && (reply->head.status == 504 || reply->head.status == 429)) {
      count_status(reply->head.status, reply->body);
    }
  }

  void other_routes() {
    const int what = pick(0, 5);
    ClientRequest request;
    if (what == 0) request = post("/tokenize", {{"model", "m"}, {"prompt", "some text"}});
    if (what == 1) request = {.path = "/metrics"};
    if (what == 2) request = {.path = "/health"};
    if (what == 3) request = {.path = "/v1/models"};
    if (what == 4) request = post("/v1/embeddings", {{"model", "m"}, {"input", {"some text", "another"}}});
    if (what == 5) request = post("/flush_cache", json::object());
    auto reply = client_.ask(request);
    ++tally_.requests;
    tally_.done(request.path);
    if (!reply.ok()) return tally_.fault(request.path + ": " + reply.error().to_string());
    const int status = reply->head.status;
    // An embedding may be late or find the queue full, and is no generation.
    if (status != 200 && !(what == 4 && (status == 504 || status == 429))) {
      tally_.fault(request.path + " got " + std::to_string(status) + ": " + reply->body);
    }
    if (status == 504) ++tally_.timed_out;
  }

  ServerUrl url_;
  HttpClient client_;
  std::mt19937_64 random_;
  Tally& tally_;
  int pick_delay_ = 3;
};

int soak_seconds() {
  const char* given = std::getenv("VERNIER_SOAK_SECONDS");
  return given != nullptr ? std::max(1, std::atoi(given)) : 20;
}

TEST(ServeSoak, LeavesNothingBehind) {
  const int seconds = soak_seconds();
  ServedProgram program(nullptr, {"--max-num-seqs", "16", "--max-queue", "64", "--request-timeout", "0.4", "--kv-bytes",
                                  "200K", "--block-tokens", "8", "--threads", "2"});
  Tally tally;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      SoakClient client(program.url(), static_cast<uint64_t>(i) + 1, tally);
      while (!stop) client.act();
    });
  }
  // Flat: what the first third came to is what the rest stays at. Allocators and the grammars' cache settle before.
  std::vector<double> memory_mb;
  const int64_t begin_ns = monotonic_ns();
  while (monotonic_ns() - begin_ns < int64_t{seconds} * 1'000'000'000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::max(200, seconds * 10)));
    memory_mb.push_back(program.resident_mb());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : tally.faults) ADD_FAILURE() << fault;

  EXPECT_TRUE(program.comes_to_rest());
  EXPECT_EQ(program.metric("vernier_cache_blocks", "state=\"held\""), 0);
  const double settled_mb =
      *std::max_element(memory_mb.begin(), memory_mb.begin() + static_cast<std::ptrdiff_t>(memory_mb.size() / 3 + 1));
  const double end_mb = program.resident_mb();
  const double answered = program.metric("vernier_request_seconds_count"),
               failed = program.metric("vernier_requests_failed_total"),
               aborted = program.metric("vernier_requests_aborted_total"),
               generated = program.metric("vernier_generated_tokens_total");
  std::printf(
      "[          ] %d s, %lld requests: answered %lld, late %lld, refused %lld, left %lld; %.0f tokens, %.0f "
      "preemptions; "
      "memory %.1f MB after a third, %.1f at the end\n",
      seconds, static_cast<long long>(tally.requests), static_cast<long long>(tally.answered),
      static_cast<long long>(tally.timed_out), static_cast<long long>(tally.refused),
      static_cast<long long>(tally.left), generated, program.metric("vernier_preemptions_total"), settled_mb, end_mb);
  for (const auto& [kind, count] : tally.kinds) std::printf("[          ]   %s: %d\n", kind.c_str(), count);
  EXPECT_LE(end_mb, settled_mb * 1.05 + 8);
  EXPECT_TRUE(seconds < 600 || tally.requests >= 20'000) << tally.requests;

  // Whoever left may have been answered before, been counted as gone, or never been seen.
  EXPECT_GE(answered, static_cast<double>(tally.answered));
  EXPECT_LE(answered, static_cast<double>(tally.answered + tally.left));
  EXPECT_GE(failed, static_cast<double>(tally.timed_out + tally.refused));
  EXPECT_LE(failed, static_cast<double>(tally.timed_out + tally.refused + tally.left));
  EXPECT_GT(aborted, 0);
  EXPECT_LE(answered + failed + aborted,
            static_cast<double>(tally.answered + tally.timed_out + tally.refused + tally.left));
  EXPECT_GE(generated, static_cast<double>(tally.tokens));
  EXPECT_GT(tally.timed_out, 0);
  EXPECT_EQ(program.stop(), 0);
}

}  // namespace
}  // namespace vernier
