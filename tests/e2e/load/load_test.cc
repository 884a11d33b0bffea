// Many clients at once: slow readers beside fast ones, and connections that do nothing.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "client/event_reader.h"
#include "client/reply_parser.h"
#include "e2e/load/served_program.h"
#include "testing/sanitized.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::ServedProgram;

/// A connection to the server under test; -1 where there is none to have.
int connect_to(const ServerUrl& url, int receive_buffer_bytes = 0) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(url.port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket >= 0 && ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return socket;
  if (socket >= 0) ::close(socket);
  return -1;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// The client's end of one event stream.
class StreamClient {
 public:
  StreamClient(const ServerUrl& url, const std::string& prompt, int receive_buffer_bytes = 0)
      : socket_(connect_to(url, receive_buffer_bytes)) {
    const json body = {{"model", "m"}, {"prompt", prompt}, {"stream", true}, {"max_tokens", 150}};
    const std::string text = body.dump();
    send_all(socket_, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
                          std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  ~StreamClient() { ::close(socket_); }
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  /// Reads what has come, at most so much. False at the end.
  bool read_some(size_t most) {
    std::string buffer(most, '\0');
    const ssize_t got = ::recv(socket_, buffer.data(), most, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    const auto to_events = [this](std::string_view bytes) {
      reader_.feed(bytes, [this](const ReceivedEvent& event) { take(event); });
      return true;
    };
    broken_ = broken_ || !parser_.feed(std::string_view(buffer).substr(0, static_cast<size_t>(got)), to_events).ok();
    return !broken_ && !done_;
  }
  int socket() const { return socket_; }
  bool done() const { return done_; }
  const std::string& error() const { return error_; }
  int tokens() const { return tokens_; }
  bool gapless() const { return !broken_ && !out_of_order_; }
  int64_t longest_wait_ns() const { return longest_wait_ns_; }

 private:
  void take(const ReceivedEvent& event) {
    if (event.data == "[DONE]") {
      done_ = true;
      return;
    }
    const json chunk = json::parse(event.data);
    if (chunk.contains("error")) {
      error_ = chunk["error"]["code"];
      return;
    }
    const std::string text = chunk["choices"][0].value("text", "");
    if (text.empty()) return;
    // A chunk may hold several tokens' text; each begins with its number.
    for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
      out_of_order_ = out_of_order_ || std::stoi(text.substr(at + 1)) != tokens_;
      ++tokens_;
    }
    const int64_t now_ns = monotonic_ns();
    if (last_ns_ > 0) longest_wait_ns_ = std::max(longest_wait_ns_, now_ns - last_ns_);
    last_ns_ = now_ns;
  }

  int socket_;
  EventReader reader_;
  ReplyParser parser_;
  int tokens_ = 0;
  bool done_ = false, broken_ = false, out_of_order_ = false;
  std::string error_;
  int64_t last_ns_ = 0, longest_wait_ns_ = 0;
};

constexpr int kTokens = 60;
constexpr int kStepMs = 200;

/// Tokens that tell their number, five a second; [big] with 160 KiB each.
json numbered_script() {
  json small = json::array(), big = json::array();
  for (int i = 0; i < kTokens; ++i) {
    small.push_back("<" + std::to_string(i) + ">");
    big.push_back("<" + std::to_string(i) + ">" + std::string(160 << 10, 'x'));
  }
  return {{"format", "plain"},
          {"replies",
           {{{"match", "[big]"}, {"pieces", big}, {"delay_ms", kStepMs}},
            {{"match", ""}, {"pieces", small}, {"delay_ms", kStepMs}}}}};
}

using Streams = std::vector<std::unique_ptr<StreamClient>>;

/// Reads `fast` as it comes, and a little of `slow` now and then, until every fast one has ended. Seconds.
double read_streams(const Streams& fast, const Streams& slow) {
  const int64_t begin_ns = monotonic_ns();
  std::vector<pollfd> waiting;
  for (const auto& stream : fast) waiting.push_back({stream->socket(), POLLIN, 0});
  size_t open = fast.size();
  int64_t slow_next_ns = 0;
  while (open > 0 && monotonic_ns() - begin_ns < 90'000'000'000) {
    ::poll(waiting.data(), waiting.size(), 50);
    for (size_t i = 0; i < fast.size(); ++i) {
      if (waiting[i].revents == 0 || fast[i]->read_some(1 << 16)) continue;
      waiting[i].fd = -1;
      --open;
    }
    if (monotonic_ns() < slow_next_ns) continue;
    slow_next_ns = monotonic_ns() + 300'000'000;
    for (const auto& stream : slow) stream->read_some(256);
  }
  return static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
}

/// 1,000 streams, 50 of them read slowly. The others get every token on time. A slow one gets every token late, or, if
/// more waits than one client may hold, an error event after those that it got, and a counter: never a gap.
TEST(ServeLoad, SlowReadersHoldUpNobody) {
  if (testing::raise_file_limit() < 1100) GTEST_SKIP() << "1,000 streams need 1,100 open files";
  ServedProgram program(numbered_script(),
                        {"--max-num-seqs", "1000", "--max-num-batched-tokens", "4096", "--kv-bytes", "8M"});
  constexpr int kFast = 950, kSlow = 45, kStuck = 5, kSmallBuffer = 4096;
  Streams fast, slow, stuck;
  for (int i = 0; i < kStuck; ++i)
    stuck.push_back(std::make_unique<StreamClient>(program.url(), "[big]", kSmallBuffer));
  for (int i = 0; i < kSlow; ++i) slow.push_back(std::make_unique<StreamClient>(program.url(), "s", kSmallBuffer));
  for (int i = 0; i < kFast; ++i) fast.push_back(std::make_unique<StreamClient>(program.url(), "s"));
  const double seconds = read_streams(fast, slow);
  int64_t longest_wait_ns = 0;
  for (const auto& stream : fast) {
    ASSERT_TRUE(stream->done() && stream->gapless() && stream->error().empty()) << stream->error();
    ASSERT_EQ(stream->tokens(), kTokens);
    longest_wait_ns = std::max(longest_wait_ns, stream->longest_wait_ns());
  }
  std::printf("[          ] 950 streams of %d tokens, one each %d ms: %.2f s, longest wait for a token %.0f ms\n",
              kTokens, kStepMs, seconds, static_cast<double>(longest_wait_ns) * 1e-6);
  EXPECT_LT(longest_wait_ns, 3'000'000'000);
  EXPECT_LT(seconds, kTokens * kStepMs * 1e-3 * 1.5 + 5);

  int late = 0, cut = 0;
  for (const auto& stream : slow) {
    late += stream->tokens() < kTokens ? 1 : 0;
    while (stream->read_some(1 << 16)) ::usleep(100);
    EXPECT_TRUE(stream->done() && stream->gapless() && stream->error().empty());
    EXPECT_EQ(stream->tokens(), kTokens);
  }
  EXPECT_EQ(late, kSlow) << "they read slowly";
  for (const auto& stream : stuck) {
    while (stream->read_some(1 << 20)) ::usleep(100);
    EXPECT_TRUE(stream->done() && stream->gapless());
    EXPECT_EQ(stream->error(), "slow_client") << stream->tokens();
    cut += stream->error().empty() ? 0 : 1;
  }
  EXPECT_TRUE(program.comes_to_rest());
  EXPECT_EQ(program.metric("vernier_http_clients_lagged_total"), cut);
  EXPECT_EQ(program.stop(), 0);
}

// SERVER-10: 10,000 connections that have been used once and do nothing cost at most 200 MB.
TEST(ServeLoad, IdleConnectionsCostLittle) {
  constexpr size_t kIdle = 10'000;
  const size_t files = testing::raise_file_limit();
  if (files < kIdle + 100) GTEST_SKIP() << files << " files may be open here; " << kIdle << " connections need more";
  // What is inherited is small: the program raises its own limit.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit small{256, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &small);
  ServedProgram program(numbered_script(), {});
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const double before_mb = program.resident_mb();
  std::vector<int> sockets;
  std::string answer(4096, '\0');
  for (size_t i = 0; i < kIdle; ++i) {
    const int socket = connect_to(program.url());
    ASSERT_GE(socket, 0) << "connection " << i;
    sockets.push_back(socket);
    ASSERT_TRUE(send_all(socket, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_GT(::recv(socket, answer.data(), answer.size(), 0), 0) << "connection " << i;
    ASSERT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  }
  const double with_mb = program.resident_mb();
  std::printf("[          ] %zu idle connections: from %.1f to %.1f MB\n", kIdle, before_mb, with_mb);
  EXPECT_LE(with_mb - before_mb, testing::kSanitized ? 1000 : 200);  // a sanitiser keeps what is freed
  EXPECT_EQ(program.metric("vernier_http_connections"), kIdle + 1);
  for (int socket : sockets) ::close(socket);
  EXPECT_TRUE(program.comes_to_rest());
  EXPECT_EQ(program.stop(), 0);
}

}  // namespace
}  // namespace vernier
