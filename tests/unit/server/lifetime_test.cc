#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>

#include "base/log.h"
#include "server/event_stream.h"
#include "testing/sanitized.h"
#include "testing/temp_folder.h"
#include "unit/server/raw_client.h"

namespace vernier {
namespace {

using std::chrono::milliseconds;
using testing::comes_true;
using ::testing::EndsWith;
using testing::get;
using ::testing::HasSubstr;
using testing::kSanitized;
using testing::post;
using testing::RawAnswer;
using testing::RawClient;

class Lifetime : public ::testing::Test {
 protected:
  void serve(HttpServer::Options options = testing::test_options()) {
    Router router;
    router.add("GET", "/health", Access::kOpen, [](HttpRequest request, std::shared_ptr<ResponseStream> response) {
      response->send(HttpResponse::text("", request.draining ? 503 : 200));
    });
    router.post("/stream", [this](HttpRequest, std::shared_ptr<ResponseStream> response) {
      EventStream events(response);
      events.begin();
      events.add("1");
      events.flush();
      response->on_gone([this] { ++gone_; });
      std::lock_guard lock(mutex_);
      held_.push_back(std::move(response));
    });
    server_ = testing::started(std::move(options), std::move(router));
  }
  void TearDown() override { server_.reset(); }

  std::mutex mutex_;
  std::vector<std::shared_ptr<ResponseStream>> held_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Lifetime, DrainsWhatIsUnderWay) {
  serve();
  RawClient streaming(server_->port()), keeping(server_->port());
  streaming.send(post("/stream", ""));
  ASSERT_TRUE(streaming.fill_until("data: 1\n\n"));
  ASSERT_EQ(keeping.ask(get("/health")).status, 200);
  std::thread drain([this] { EXPECT_TRUE(server_->drain(std::chrono::seconds(20))); });
  ASSERT_TRUE(comes_true([this] { return server_->draining(); }));
  RawAnswer refused = keeping.ask(post("/stream", ""));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("shutting_down"));
  EXPECT_EQ(refused.headers.get("Retry-After"), "1");
  EXPECT_EQ(refused.headers.get("Connection"), "close");
  EXPECT_EQ(RawClient(server_->port()).ask(get("/health")).status, 503) << "readiness";
  ASSERT_TRUE(comes_true([this] {
    std::lock_guard lock(mutex_);
    return !held_.empty();
  }));
  EventStream events(held_.at(0));
  events.add("2");
  events.done();
  EXPECT_EQ(streaming.answer().body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  drain.join();
  EXPECT_EQ(gone_, 0);
  EXPECT_TRUE(comes_true([this] { return !RawClient(server_->port()).connected(); }));
}

TEST_F(Lifetime, CutsOffWhatDoesNotEndInTime) {
  serve();
  RawClient client(server_->port()), idle(server_->port());
  client.send(post("/stream", ""));
  ASSERT_TRUE(client.fill_until("data: 1\n\n"));
  EXPECT_FALSE(server_->drain(milliseconds(50)));
  RawAnswer answer = client.answer();
  EXPECT_THAT(answer.body, HasSubstr("shutting_down"));
  EXPECT_THAT(answer.body, EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(idle.closed());
  EXPECT_EQ(gone_, 1);
}

TEST_F(Lifetime, CutsOffAtOnceWhenItIsHurried) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  ASSERT_TRUE(client.fill_until("data: 1\n\n"));
  std::atomic<bool> hurry = false;
  std::thread drain([&] { EXPECT_FALSE(server_->drain(std::chrono::seconds(60), &hurry)); });
  ASSERT_TRUE(comes_true([this] { return server_->draining(); }));
  hurry = true;
  RawAnswer answer = client.answer();
  EXPECT_THAT(answer.body, HasSubstr("shutting_down"));
  EXPECT_THAT(answer.body, EndsWith("data: [DONE]\n\n"));
  drain.join();
}

// What a route refuses because the server stops was not answered whole, and what came too late is no answer.
TEST_F(Lifetime, AnAnswerThatFailsWhileItDrainsIsNotWhole) {
  for (bool fails : {false, true}) {
    serve();
    RawClient client(server_->port());
    client.send(post("/stream", ""));
    ASSERT_TRUE(client.fill_until("data: 1\n\n"));
    std::thread drain([&] { EXPECT_EQ(server_->drain(std::chrono::seconds(20)), !fails); });
    ASSERT_TRUE(comes_true([this] { return server_->draining(); }));
    EXPECT_EQ(RawClient(server_->port()).ask(post("/stream", "")).status, 503);
    {
      std::lock_guard lock(mutex_);
      if (!fails) EventStream(held_.at(0)).done();
      held_.clear();  // dropped: the server answers for it
    }
    drain.join();
    server_.reset();
  }
}

TEST_F(Lifetime, EndsWithStreamsOpen) {
  serve();
  RawClient client(server_->port());
  client.send(post("/stream", ""));
  ASSERT_TRUE(client.fill_until("data: 1\n\n"));
  server_.reset();
  EXPECT_EQ(gone_, 1);
  EXPECT_EQ(held_.at(0)->write("data: 2\n\n"), WriteState::kClosed);
  held_.at(0)->finish();
  EXPECT_EQ(client.answer().status, 0) << "cut off, not ended";
}

TEST_F(Lifetime, TellsOneConnectionTooMany) {
  HttpServer::Options options = testing::test_options();
  options.max_connections = 3;
  serve(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    EXPECT_EQ(clients.back()->ask(get("/health")).status, 200);
  }
  RawClient more(server_->port());
  RawAnswer answer = more.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("too_many_connections"));
  clients.clear();
  more.close();
  ASSERT_TRUE(comes_true([this] { return server_->connections() == 0; }));
  EXPECT_EQ(RawClient(server_->port()).ask(get("/health")).status, 200);
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// SERVER-10: an idle connection costs at most 20 kB, so ten thousand cost at most 200 MB. Both ends are files here.
TEST_F(Lifetime, SERVER_10_IdleConnectionsCostLittle) {
  HttpServer::Options options = testing::test_options();
  options.max_connections = 50'000;
  serve(options);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  size_t wanted = std::min<size_t>(kSanitized ? 300 : 10'000, (limit.rlim_cur - 200) / 2);
  size_t before = resident_bytes();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < wanted; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_EQ(clients.back()->ask(get("/health")).status, 200) << i;
  }
  size_t each = (resident_bytes() - before) / wanted;
  RecordProperty("bytes_each", static_cast<int>(each));
  std::printf("%zu idle connections, %zu bytes each with the client's end\n", wanted, each);
  EXPECT_EQ(server_->connections(), wanted);
  EXPECT_LT(each, kSanitized ? 200'000u : 20'000u);
  EXPECT_EQ(RawClient(server_->port()).ask(get("/health")).status, 200) << "and hold up nobody";
}

// SERVER-10: what a client did to the server leaves no memory behind.
TEST_F(Lifetime, SERVER_10_ForgetsConnections) {
  serve();
  for (int i = 0; i < 300; ++i) {
    RawClient client(server_->port());
    client.send(i % 3 == 0 ? "GET /hea" : i % 3 == 1 ? get("/health") : get("/health") + get("/nothing") + "X");
    if (i % 3 != 0 && i % 2 == 0) client.answer();
  }
  EXPECT_TRUE(comes_true([this] { return server_->connections() == 0 && server_->requests_under_way() == 0; }));
}

TEST_F(Lifetime, ListensOnAUnixSocket) {
  testing::TempFolder folder;
  HttpServer::Options options = testing::test_options();
  options.unix_socket = folder.path("s");
  serve(options);
  EXPECT_EQ(server_->address(), "unix:" + folder.path("s"));
  int client = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, options.unix_socket.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  std::string request = get("/health");
  ASSERT_EQ(::send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  char bytes[16] = {};
  ASSERT_GT(::recv(client, bytes, 15, 0), 0);
  EXPECT_EQ(std::string(bytes).substr(0, 12), "HTTP/1.1 200");
  ::close(client);
  server_.reset();
  EXPECT_NE(::access(options.unix_socket.c_str(), F_OK), 0);
}

TEST_F(Lifetime, RefusesOptionsByName) {
  auto refused = [](auto change) {
    HttpServer::Options options = testing::test_options();
    change(options);
    auto server = HttpServer::start(options, Router());
    return server.ok() ? std::string() : server.error().to_string();
  };
  EXPECT_THAT(refused([](auto& o) { o.host = "256.1.1.1"; }), HasSubstr("256.1.1.1"));
  EXPECT_THAT(refused([](auto& o) { o.cors.origins = {"app.example"}; }), HasSubstr("app.example"));
  EXPECT_THAT(refused([](auto& o) { o.cors = {{"*"}, true}; }), HasSubstr("credentials"));
  EXPECT_THAT(refused([](auto& o) { o.unix_socket = std::string(200, 'x'); }), HasSubstr("200 bytes"));
  serve();
  uint16_t taken = server_->port();
  EXPECT_THAT(refused([taken](auto& o) { o.port = taken; }), HasSubstr(std::to_string(taken)));
}

TEST_F(Lifetime, WarnsWhenAnyoneMayUseIt) {
  HttpServer::Options options = testing::test_options();
  options.host = "0.0.0.0";
  ::testing::internal::CaptureStderr();
  serve(options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no API key is set"));
  options.api_keys = {Secret("k")};
  ::testing::internal::CaptureStderr();
  serve(options);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(Lifetime, AStopSignalIsWaitedFor) {
  std::thread waiter([] {
    StopSignals signals;
    pthread_kill(pthread_self(), SIGTERM);
    EXPECT_EQ(signals.wait(), SIGTERM);
    pthread_kill(pthread_self(), SIGHUP);  // hurries nobody
    pthread_kill(pthread_self(), SIGINT);
    EXPECT_EQ(signals.wait_again(), SIGINT);
  });
  waiter.join();
}

}  // namespace
}  // namespace vernier
