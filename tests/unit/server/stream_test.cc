#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <string_view>

#include "base/clock.h"
#include "server/event_stream.h"
#include "unit/server/raw_client.h"

namespace vernier {
namespace {

using std::chrono::milliseconds;
using testing::comes_true;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::post;
using testing::RawAnswer;
using testing::RawClient;
using ::testing::StartsWith;

/// A server whose one route hands its response to the test.
class Streams : public ::testing::Test {
 protected:
  void serve(HttpServer::Options options = testing::test_options()) {
    options.metrics = &metrics_;
    Router router;
    router.post("/stream", [this](HttpRequest, std::shared_ptr<ResponseStream> response) {
      response->on_gone([this] { ++gone_; });
      std::lock_guard lock(mutex_);
      response_ = std::move(response);
      arrived_.notify_all();
    });
    server_ = testing::started(std::move(options), std::move(router));
  }
  std::shared_ptr<ResponseStream> response() {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::seconds(10), [this] { return response_ != nullptr; });
    return std::move(response_);
  }
  double counted(std::string_view name) { return metrics_.counter(name, "").value(); }
  bool settled() {
    return comes_true([this] { return server_->requests_under_way() == 0; });
  }

  MetricRegistry metrics_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::shared_ptr<ResponseStream> response_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Streams, CarryEventsInChunks) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  {
    EventStream events(response());
    EXPECT_TRUE(events.begin({{"X-Ignored-Params", "a"}}));
    events.add("1");
    events.add_named("named", "2");
    EXPECT_EQ(events.flush(), WriteState::kTaken);
    ASSERT_TRUE(client.fill_until("data: 2\n\n"));
    events.add("3");
    events.done();
  }
  RawAnswer answer = client.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.get("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(answer.headers.get("Cache-Control"), "no-cache");
  EXPECT_EQ(answer.headers.get("X-Accel-Buffering"), "no");
  EXPECT_EQ(answer.headers.get("X-Ignored-Params"), "a");
  EXPECT_EQ(answer.headers.find("Content-Length"), nullptr);
  EXPECT_EQ(answer.body, "data: 1\n\nevent: named\ndata: 2\n\ndata: 3\n\ndata: [DONE]\n\n");
  EXPECT_EQ(answer.chunks, 2) << "the events of one flush belong into one write";
  client.send(post("/stream", ""));
  EventStream(response()).begin();
  EXPECT_EQ(client.answer().status, 500) << "the connection goes on after a stream";
  EXPECT_EQ(gone_, 0);
}

// SERVER-6: a stream that fails before its first byte has a real status, whether or not it was announced.
TEST_F(Streams, SERVER_6_FailWithAStatusBeforeTheFirstByte) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  EventStream events(response());
  events.begin();
  events.add("lost");
  events.fail(ApiError::make(429, "full", "rate_limit_exceeded"));
  RawAnswer answer = client.answer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.get("Content-Type"), "application/json");
  EXPECT_EQ(answer.body, ApiError::make(429, "full", "rate_limit_exceeded").body());
}

TEST_F(Streams, FailWithAnEventAfterIt) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  EventStream events(response());
  events.begin();
  events.add("1");
  events.flush();
  ASSERT_TRUE(client.fill_until("data: 1\n\n"));
  events.add("2");
  ApiError error = ApiError::make(500, "broken");
  events.fail(error);
  EXPECT_EQ(client.answer().body, "data: 1\n\ndata: 2\n\ndata: " + error.body() + "\n\ndata: [DONE]\n\n");
}

// SERVER-5: a stream that its route drops ends with an error, never as if it were whole.
TEST_F(Streams, SERVER_5_EndWithAnErrorWhenDropped) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  {
    EventStream events(response());
    events.begin();
    events.add("1");
    events.flush();
    ASSERT_TRUE(client.fill_until("data: 1\n\n"));
  }
  RawAnswer answer = client.answer();
  EXPECT_THAT(answer.body, StartsWith("data: 1\n\ndata: {\"error\":{"));
  EXPECT_THAT(answer.body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(Streams, AreKeptAliveWithComments) {
  HttpServer::Options options = testing::test_options();
  options.keep_alive_after = milliseconds(100);
  serve(options);
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  EventStream events(response());
  events.begin();
  ASSERT_TRUE(client.fill_until(": keep-alive\n\n")) << "also before the first event";
  EXPECT_THAT(client.buffer(), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(events.response().send(HttpResponse::text("late")));
  events.add("1");
  events.done();
  EXPECT_THAT(client.answer().body, HasSubstr(": keep-alive\n\ndata: 1\n\ndata: [DONE]\n\n"));
}

// Who closes its sending side after a whole request still reads, and gets its answer; a question on the way is one that
// HTTP allows.
TEST_F(Streams, ServeAClientThatClosedItsSendingSide) {
  serve();
  for (bool events : {false, true}) {
    for (int ms : {0, 900}) {
      RawClient client(server_->port());
      client.send(post("/stream", "") + post("/stream", ""));
      client.shutdown_send();
      std::string wanted;
      for (int i = 0; i < 2; ++i) {
        auto held = response();
        ASSERT_NE(held, nullptr);
        std::this_thread::sleep_for(milliseconds(ms));
        EXPECT_FALSE(held->gone());
        if (events) {
          EXPECT_TRUE(held->begin(200, {{"Content-Type", "text/event-stream"}}));
          EXPECT_EQ(held->write("data: 1\n\n"), WriteState::kTaken);
          std::this_thread::sleep_for(milliseconds(ms));
          held->finish();
        } else {
          EXPECT_TRUE(held->send(HttpResponse::text("whole")));
        }
        RawAnswer answer = client.answer();
        if (ms > 0 && answer.status == 100) answer = client.answer();
        EXPECT_EQ(answer.status, 200);
        EXPECT_THAT(answer.body, HasSubstr(events ? "data: 1\n\n" : "whole"));
      }
      EXPECT_TRUE(client.closed());
    }
  }
  EXPECT_TRUE(settled());
  EXPECT_EQ(gone_, 0);
  EXPECT_EQ(counted("vernier_http_clients_gone_total"), 0);
}

// HTTP/1.0 has nothing to ask with before an answer: who closes there has gone, and no error is made up for it.
TEST_F(Streams, TakeAnOldClientThatClosesForGone) {
  serve();
  RawClient client(server_->port());
  client.send("POST /stream HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
  client.shutdown_send();
  auto held = response();
  EXPECT_EQ(client.rest(), "");
  EXPECT_TRUE(comes_true([this] { return gone_ == 1; }));
  EXPECT_FALSE(held->send(HttpResponse::text("late")));
  EXPECT_TRUE(settled());
  EXPECT_EQ(counted("vernier_http_clients_gone_total"), 1);
}

// SERVER-7: a hang-up is noticed while nothing is written, and told once.
TEST_F(Streams, SERVER_7_NoticeAHangUp) {
  serve();
  for (bool begun : {false, true}) {
    gone_ = 0;
    RawClient client(server_->port());
    client.send(post("/stream", ""));
    auto held = response();
    if (begun) {
      held->begin(200, {{"Content-Type", "text/event-stream"}});
      held->write("data: 1\n\n");
      ASSERT_TRUE(client.fill_until("data: 1\n\n"));
    }
    Stopwatch watch;
    client.close();
    ASSERT_TRUE(comes_true([this] { return gone_ == 1; }));
    EXPECT_LT(watch.elapsed_seconds(), 5.0);
    EXPECT_TRUE(held->gone());
    EXPECT_EQ(held->write("data: 2\n\n"), WriteState::kClosed);
    int late = 0;
    held->on_gone([&late] { ++late; });
    EXPECT_EQ(late, 1) << "one that comes late is called at once";
    held->finish();
    EXPECT_TRUE(settled());
    EXPECT_EQ(gone_, 1);
  }
  EXPECT_EQ(counted("vernier_http_clients_gone_total"), 2);
}

// SERVER-7: an answer that has ended calls nothing, whatever the client does then.
TEST_F(Streams, SERVER_7_TellNoHangUpAfterTheEnd) {
  serve();
  for (int i = 0; i < 200; ++i) {
    RawClient client(server_->port());
    client.send(post("/stream", ""));
    auto held = response();
    ASSERT_NE(held, nullptr);
    held->send(HttpResponse::text("x"));
    if (i % 2 == 0) {
      EXPECT_EQ(client.answer().body, "x");
    }
  }
  EXPECT_TRUE(settled());
  EXPECT_EQ(gone_, 0);
  EXPECT_EQ(counted("vernier_http_clients_gone_total"), 0);
}

// SERVER-1: a slow reader gets every byte.
TEST_F(Streams, SERVER_1_GiveASlowReaderEveryByte) {
  HttpServer::Options options = testing::test_options();
  options.stream_buffer_bytes = 1 << 20;
  options.socket_send_buffer_bytes = 4096;
  serve(options);
  RawClient client(server_->port(), 4096);
  client.send(post("/stream", ""));
  std::string wanted;
  EventStream events(response());
  events.begin();
  for (int i = 0; i < 20'000; ++i) {
    events.add(std::to_string(i));
    wanted += fmt::format("data: {}\n\n", i);
    if (i % 10 == 0) {
      EXPECT_EQ(events.flush(), WriteState::kTaken);
    }
  }
  events.done();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(client.answer().body, wanted + "data: [DONE]\n\n");
}

// SERVER-1: one that lags too long gets the beginning without a gap, then an error event, then the end.
TEST_F(Streams, SERVER_1_EndOneThatLagsTooLong) {
  HttpServer::Options options = testing::test_options();
  options.stream_buffer_bytes = 10'000;
  options.lag_timeout = milliseconds(200);
  options.socket_send_buffer_bytes = 4096;
  serve(options);
  for (bool flood : {false, true}) {
    gone_ = 0;
    RawClient client(server_->port(), 4096);
    client.send(post("/stream", ""));
    auto held = response();
    held->begin(200, {{"Content-Type", "text/event-stream"}});
    bool full = false;
    std::string event(flood ? 1000 : 100, 'x');
    for (int i = 0; i < 100'000 && gone_ == 0; ++i) {
      WriteState state = held->write(fmt::format("data: {} {}\n\n", i, event));
      full |= state == WriteState::kFull;
      if (!flood) std::this_thread::sleep_for(std::chrono::microseconds(state == WriteState::kFull ? 10'000 : 100));
    }
    EXPECT_TRUE(full);
    EXPECT_EQ(gone_, 1);
    EXPECT_TRUE(held->gone());
    held->finish();
    const std::string body = client.answer().body;
    std::string_view rest = body;
    for (int i = 0; !rest.starts_with("data: {"); ++i) {
      const std::string next = fmt::format("data: {} {}\n\n", i, event);
      ASSERT_TRUE(rest.starts_with(next)) << "a gap before event " << i;
      rest.remove_prefix(next.size());
    }
    EXPECT_THAT(rest, HasSubstr(R"("code":"slow_client"}})"));
    EXPECT_THAT(body, EndsWith("data: [DONE]\n\n"));
    EXPECT_TRUE(client.closed());
    EXPECT_TRUE(settled());
  }
  EXPECT_EQ(counted("vernier_http_clients_lagged_total"), 2);
}

TEST_F(Streams, HoldUpNobodyElse) {
  HttpServer::Options options = testing::test_options();
  options.socket_send_buffer_bytes = 4096;
  serve(options);
  RawClient slow(server_->port(), 4096);
  slow.send(post("/stream", ""));
  auto held = response();
  held->begin(200, {});
  for (int i = 0; i < 100; ++i) held->write(std::string(10'000, 'x'));
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  response()->send(HttpResponse::text("fast"));
  Stopwatch watch;
  EXPECT_EQ(client.answer().body, "fast");
  EXPECT_LT(watch.elapsed_seconds(), 1.0);
  held->finish();
  EXPECT_EQ(slow.answer().body.size(), 1'000'000u);
}

TEST_F(Streams, TakeCallsFromManyThreads) {
  serve();
  std::atomic<int> whole{0};
  std::vector<std::thread> clients;
  // Each stream is written by a thread of its own while the next is opened, and every third client hangs up.
  for (int i = 0; i < 60; ++i) {
    auto client = std::make_shared<RawClient>(server_->port());
    client->send(post("/stream", ""));
    clients.emplace_back([this, i, client, held = response(), &whole] {
      EventStream events(held);
      events.begin();
      for (int k = 0; k < 50; ++k) {
        events.add(std::to_string(k));
        if (events.flush() == WriteState::kClosed) break;
        if (i % 3 == 0 && k == 25) client->close();
      }
      events.done();
      if (i % 3 != 0 && client->answer().body.ends_with("data: 49\n\ndata: [DONE]\n\n")) ++whole;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(whole, 40);
  EXPECT_TRUE(settled());
}

}  // namespace
}  // namespace vernier
