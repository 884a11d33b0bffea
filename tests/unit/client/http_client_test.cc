#include "client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "unit/client/fake_server.h"

namespace vernier {
namespace {

using testing::FakePeer;
using testing::FakeRequest;
using testing::FakeServer;
using ::testing::HasSubstr;

ClientLimits short_limits() {
  return {.connect_s = 2, .silence_s = 0.3, .total_s = 1.0};
}

TEST(HttpClient, KeepsAConnectionOpen) {
  FakeServer server([](const FakeRequest& request, FakePeer& peer) { peer.answer(200, request.path + request.body); });
  HttpClient client(server.url());
  for (int i = 0; i < 20; ++i) {
    Result<ClientReply> reply = client.ask({.method = "POST", .path = "/a", .body = std::to_string(i)});
    ASSERT_TRUE(reply.ok()) << reply.error().to_string();
    EXPECT_EQ(reply->body, "/a" + std::to_string(i));
  }
  Result<ClientReply> chunked = client.ask({.method = "POST", .path = "/c", .body = "in pieces", .chunk_bytes = 2});
  EXPECT_EQ(chunked->body, "/cin pieces");
  EXPECT_EQ(server.connections(), 1);
}

// CLIENT-4: a connection that the server closed between two requests is opened again once.
TEST(HttpClient, CLIENT_4_OpensAConnectionThatWasClosedAgain) {
  FakeServer server([](const FakeRequest&, FakePeer& peer) {
    peer.answer(200, "yes");
    peer.hang_up();
  });
  HttpClient client(server.url());
  for (int i = 0; i < 5; ++i) {
    Result<ClientReply> reply = client.ask({.path = "/"});
    ASSERT_TRUE(reply.ok()) << reply.error().to_string();
    ::usleep(20'000);  // until the server's end has come
  }
  EXPECT_EQ(server.requests(), 5);
}

// CLIENT-4: a request of which a byte was answered is never sent twice.
TEST(HttpClient, CLIENT_4_NeverSendsTwiceWhatWasAnswered) {
  FakeServer server([](const FakeRequest& request, FakePeer& peer) {
    if (request.number == 0) return peer.answer(200, "yes");
    peer.send("HTTP/1.1 2");
    peer.hang_up();
  });
  HttpClient client(server.url());
  ASSERT_TRUE(client.ask({.path = "/"}).ok());
  const Result<ClientReply> reply = client.ask({.path = "/"});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().where, "hang-up");
  EXPECT_EQ(server.requests(), 2);
}

// CLIENT-3: no call waits for ever.
TEST(HttpClient, CLIENT_3_SilenceAndTheWholeAreBounded) {
  FakeServer silent([](const FakeRequest&, FakePeer& peer) { peer.gone(3000); });
  FakeServer slow([](const FakeRequest&, FakePeer& peer) {
    peer.begin_chunks("");
    for (int i = 0; i < 100 && !peer.gone(50); ++i) peer.chunk("x");
    peer.hang_up();
  });
  for (FakeServer* server : {&silent, &slow}) {
    HttpClient client(server->url(), short_limits());
    Stopwatch watch;
    const Result<ClientReply> reply = client.ask({.path = "/"});
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().where, "timeout");
    EXPECT_LT(watch.elapsed_seconds(), 2.5);
  }
}

// CLIENT-3: a caller can give up.
TEST(HttpClient, CLIENT_3_ACallerGivesUp) {
  std::atomic<bool> noticed{false};
  FakeServer server([&](const FakeRequest&, FakePeer& peer) {
    peer.begin_chunks("");
    peer.chunk("first");
    noticed = peer.gone(5000);
    peer.hang_up();
  });
  std::atomic<bool> cancelled{false};
  HttpClient client(server.url(), {.cancelled = &cancelled});
  std::thread other([&] {
    ::usleep(100'000);
    cancelled = true;
  });
  Stopwatch watch;
  const Result<ClientReply> reply = client.ask({.path = "/"});
  other.join();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().where, "cancelled");
  EXPECT_LT(watch.elapsed_seconds(), 3);
  HttpClient second(server.url());
  const Result<ReplyHead> head = second.exchange({.path = "/"}, [](std::string_view) { return false; });
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(head.error().where, "cancelled");
  EXPECT_FALSE(second.connected());
  for (int i = 0; i < 200 && !noticed; ++i) ::usleep(10'000);
  EXPECT_TRUE(noticed) << "the server was not told";
}

// CLIENT-2: a hang-up is an error that says so, wherever it comes.
TEST(HttpClient, CLIENT_2_HangUpsAndNobodyThere) {
  const std::string whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  FakeServer server([&](const FakeRequest& request, FakePeer& peer) {
    peer.send(whole.substr(0, static_cast<size_t>(request.number)), 1);
    peer.hang_up();
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    HttpClient client(server.url());
    const Result<ClientReply> reply = client.ask({.path = "/"});
    ASSERT_FALSE(reply.ok()) << i;
    EXPECT_EQ(reply.error().where, "hang-up") << i;
  }
  EXPECT_TRUE(HttpClient(server.url()).ask({.path = "/"}).ok());
  HttpClient nobody({"127.0.0.1", "1", ""});
  const Result<ClientReply> reply = nobody.ask({.path = "/"});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().where, "connect");
  EXPECT_THAT(reply.error().message, HasSubstr("is the server running"));
}

TEST(HttpClient, ReadsPipelinedAnswers) {
  FakeServer server([](const FakeRequest&, FakePeer& peer) { peer.answer(200, "{}"); });
  HttpClient client(server.url());
  ASSERT_TRUE(client.send_raw("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").ok());
  EXPECT_EQ(client.read_raw()->body, "{}");
  EXPECT_EQ(client.read_raw()->body, "{}");
}

}  // namespace
}  // namespace vernier
