#include <gmock/gmock.h>

#include "base/log.h"
#include "unit/server/raw_client.h"

namespace vernier {
namespace {

using testing::get;
using ::testing::HasSubstr;
using testing::post;
using testing::RawAnswer;
using testing::RawClient;
using ::testing::StartsWith;

void echo(HttpRequest request, std::shared_ptr<ResponseStream> response) {
  std::string text = request.method + ' ' + request.path + ' ' + request.body;
  for (const auto& [name, value] : request.query) text += fmt::format(" {}={}", name, value);
  for (const auto& [name, value] : request.params) text += fmt::format(" {}:{}", name, value);
  response->send(HttpResponse::text(text));
}

Router routes() {
  Router router;
  router.add("GET", "/health", Access::kOpen, echo);
  router.get("/v1/models/{model...}", echo);
  router.post("/echo", echo);
  router.post("/throw", [](HttpRequest, std::shared_ptr<ResponseStream>) { throw std::runtime_error("/secret/path"); });
  router.post("/forget", [](HttpRequest, std::shared_ptr<ResponseStream>) {});
  router.get("/split", [](HttpRequest, std::shared_ptr<ResponseStream> response) {
    response->send({200, {{"X-Said", "a\r\nX-Evil: 1\r\n\r\nHTTP/1.1 200 OK"}}, ""});
  });
  return router;
}

class HttpTransport : public ::testing::Test {
 protected:
  void serve(HttpServer::Options options = testing::test_options()) {
    server_ = testing::started(std::move(options), routes());
  }
  RawAnswer ask(std::string_view bytes, bool head_only = false) {
    return RawClient(server_->port()).ask(bytes, head_only);
  }
  static void expect_error(const RawAnswer& answer, int status, std::string_view code) {
    EXPECT_EQ(answer.status, status) << answer.head << answer.body;
    EXPECT_THAT(answer.body, StartsWith(R"({"error":{"message":")"));
    EXPECT_THAT(answer.body, HasSubstr(fmt::format(R"("param":null,"code":"{}"}}}})", code)));
    EXPECT_EQ(answer.headers.get("Content-Type"), "application/json");
    EXPECT_NE(answer.headers.get("X-Request-Id"), "");
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTransport, KeepsAConnectionForManyRequests) {
  serve();
  RawClient client(server_->port());
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ask(post("/echo", std::to_string(i))).body, fmt::format("POST /echo {}", i));
    EXPECT_EQ(client.ask(post("/nothing", "body")).status, 404);
  }
  RawAnswer last = client.ask(get("/health", "Connection: close\r\n"));
  EXPECT_EQ(last.headers.get("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

// SERVER-1: answers come in the order of the requests, each whole.
TEST_F(HttpTransport, SERVER_1_AnswersPipelinedRequestsInOrder) {
  serve();
  std::string all;
  for (int i = 0; i < 500; ++i) all += i % 3 == 2 ? get("/nothing") : post("/echo", std::to_string(i));
  RawClient client(server_->port());
  std::thread sender([&] { client.send(all); });
  for (int i = 0; i < 500; ++i) {
    RawAnswer answer = client.answer();
    if (i % 3 == 2) {
      ASSERT_EQ(answer.status, 404);
    } else {
      ASSERT_EQ(answer.body, fmt::format("POST /echo {}", i));
    }
  }
  sender.join();
}

TEST_F(HttpTransport, ReadsRequestsByteByByte) {
  serve();
  RawClient client(server_->port());
  client.send("\r\n" + post("/echo", "hello"), 1);
  EXPECT_EQ(client.answer().body, "POST /echo hello");
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: "
      "1\r\n\r\n",
      1);
  EXPECT_EQ(client.answer().body, "POST /echo abcde");
  EXPECT_EQ(client.ask(get("/health")).status, 200);
}

TEST_F(HttpTransport, InvitesABodyThatWaitsForIt) {
  serve();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.answer().head, "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_EQ(client.answer().body, "POST /echo hi");
  // Refused without the body.
  RawClient other(server_->port());
  expect_error(other.ask("POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"), 404,
               "not_found");
}

TEST_F(HttpTransport, DecodesPathsAndQueries) {
  serve();
  EXPECT_EQ(ask(get("/v1/models/a%2Fb%20c?x=1&y=%26+z")).body, "GET /v1/models/a/b c  x=1 y=& z model:a/b c");
  EXPECT_EQ(ask("GET http://host:1/health HTTP/1.1\r\nHost: x\r\n\r\n").body, "GET /health ");
  expect_error(ask(get("/health?x=%zz")), 400, "malformed_request");
}

TEST_F(HttpTransport, AnswersHeadAndOptions) {
  serve();
  RawClient client(server_->port());
  RawAnswer head = client.ask("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n", true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.get("Content-Length"), "12");
  RawAnswer options = client.ask("OPTIONS /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.get("Allow"), "GET, HEAD");
  RawAnswer wrong = client.ask(get("/echo"));
  expect_error(wrong, 405, "method_not_allowed");
  EXPECT_EQ(wrong.headers.get("Allow"), "POST");
}

TEST_F(HttpTransport, SpeaksHttp10) {
  serve();
  RawClient client(server_->port());
  RawAnswer answer = client.ask("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.body, "GET /health ");
  EXPECT_EQ(answer.headers.get("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpTransport, EchoesAFitRequestId) {
  serve();
  for (const char* name : {"X-Request-Id", "x-client-request-id"}) {
    EXPECT_EQ(ask(get("/health", fmt::format("{}: my-id.42\r\n", name))).headers.get("X-Request-Id"), "my-id.42");
  }
  std::string longest(128, 'x'), longer(129, 'x');
  EXPECT_EQ(ask(get("/no", "X-Request-Id: " + longest + "\r\n")).headers.get("X-Request-Id"), longest);
  for (const std::string& unfit : {longer, std::string("a\tb"), std::string("a b"), std::string("\xff")}) {
    EXPECT_THAT(std::string(ask(get("/health", "X-Request-Id: " + unfit + "\r\n")).headers.get("X-Request-Id")),
                StartsWith("req_"));
  }
}

TEST_F(HttpTransport, RefusesWhatIsTooLong) {
  HttpServer::Options options = testing::test_options();
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2000;
  options.max_target_bytes = 500;
  serve(options);
  expect_error(ask(post("/echo", std::string(1001, 'x'))), 413, "request_too_large");
  EXPECT_EQ(ask(post("/echo", std::string(1000, 'x'))).status, 200);
  std::string chunks;
  for (int i = 0; i < 11; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
  expect_error(ask("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"), 413,
               "request_too_large");
  expect_error(ask(get("/" + std::string(600, 'a'))), 414, "uri_too_long");
  expect_error(ask("GET /" + std::string(5000, 'a')), 414, "uri_too_long");
  expect_error(ask(get("/health", "A: " + std::string(3000, 'b') + "\r\n")), 431, "header_too_large");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "A: b\r\n";
  expect_error(ask(get("/health", many)), 431, "header_too_large");
  // In pieces: a field is no target, however long.
  RawClient client(server_->port());
  client.send("GET /health HTTP/1.1\r\nHost: x\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  client.send("A: " + std::string(200'000, 'b') + "\r\n\r\n");
  expect_error(client.answer(), 431, "header_too_large");
}

// SERVER-2: the answer to a body that was refused arrives although the client sends on.
TEST_F(HttpTransport, SERVER_2_RefusesALargeBodyWithoutLosingTheAnswer) {
  serve();
  RawClient client(server_->port());
  client.send(fmt::format("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", size_t{65} << 20));
  std::string piece(1 << 16, 'x');
  for (int i = 0; i < 65 * 16 && client.send(piece); ++i) {
  }
  expect_error(client.answer(), 413, "request_too_large");
}

// T06: a length above the limit is refused as it comes, whatever a second one says; two that fit are malformed.
TEST_F(HttpTransport, RefusesTheFirstOfTwoLengthsIfItIsTooLong) {
  serve();
  const std::string line = fmt::format("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n", size_t{65} << 20);
  expect_error(ask(line + "Content-Length: 0\r\n\r\n"), 413, "request_too_large");
  expect_error(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 0\r\n\r\na"), 400,
               "malformed_request");
}

TEST_F(HttpTransport, RefusesMalformedRequests) {
  serve();
  std::string line = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  for (const std::string& bytes : {std::string("\x16\x03\x01\x02\x00\x01\x00\r\n", 9),
                                   std::string("GET\r\n\r\n"),
                                   std::string("G@T / HTTP/1.1\r\n\r\n"),
                                   line + "Content-Length: -5\r\n\r\n",
                                   line + "Content-Length: 5, 6\r\n\r\n",
                                   line + "Content-Length: 99999999999999999999\r\n\r\n",
                                   line + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                                   line + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
                                   line + "Transfer-Encoding: gzip\r\n\r\n",
                                   line + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                                   line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                                   line + " folded: 1\r\nbad field\r\n\r\n",
                                   line + "A : b\r\n\r\n",
                                   line + "Host: y\r\n\r\n",
                                   std::string("GET / HTTP/1.1\nHost: x\n\n"),
                                   std::string("GET / HTTP/1.1\r\nHost: x\n\r\n"),
                                   std::string("GET / HTTQ/1.1\r\nHost: x\r\n\r\n"),
                                   std::string("GET / HTTP/one\r\nHost: x\r\n\r\n"),
                                   line + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
                                   line + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\n",
                                   line + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
                                   line + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
                                   std::string("GET /health HTTP/1.1\r\n\r\n"),
                                   std::string("GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"),
                                   std::string("GET health HTTP/1.1\r\nHost: x\r\n\r\n")}) {
    RawClient client(server_->port());
    RawAnswer answer = client.ask(bytes);
    expect_error(answer, 400, "malformed_request");
    EXPECT_TRUE(client.closed()) << bytes;
  }
  expect_error(ask("GET / HTTP/9.9\r\nHost: x\r\n\r\n"), 505, "http_version_not_supported");
  expect_error(ask(line + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"), 415, "unsupported_encoding");
  expect_error(ask(line + "Expect: magic\r\nContent-Length: 0\r\n\r\n"), 417, "expectation_failed");
}

// SERVER-2: no bytes after a refused request are read as a request.
TEST_F(HttpTransport, SERVER_2_TakesNoRequestOutOfARefusedBody) {
  serve();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + get("/health"));
  client.shutdown_send();
  std::string all = client.rest();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(all.find("HTTP/1.1 200"), std::string::npos);
}

TEST_F(HttpTransport, EndsRequestsThatComeTooSlowly) {
  HttpServer::Options options = testing::test_options();
  options.header_timeout = options.body_timeout = std::chrono::milliseconds(200);
  options.idle_timeout = std::chrono::milliseconds(300);
  serve(options);
  expect_error(ask("GET /heal"), 408, "request_timeout");
  expect_error(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"), 408, "request_timeout");
  // A byte now and then does not buy time.
  RawClient drip(server_->port());
  for (int i = 0; i < 100 && drip.send("G"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect_error(drip.answer(), 408, "request_timeout");
  RawClient idle(server_->port());
  EXPECT_EQ(idle.ask(get("/health")).status, 200);
  EXPECT_TRUE(idle.closed());
}

// SERVER-5: a request that its route forgets, or fails at, is answered.
TEST_F(HttpTransport, SERVER_5_AnswersForARouteThatDoesNot) {
  serve();
  set_log_level(LogLevel::kOff);
  RawAnswer thrown = ask(post("/throw", ""));
  set_log_level(LogLevel::kWarning);
  expect_error(thrown, 500, "internal_error");
  EXPECT_EQ(thrown.body.find("secret"), std::string::npos);
  expect_error(ask(post("/forget", "")), 500, "internal_error");
}

// SERVER-2: a line break in a field's value begins no field.
TEST_F(HttpTransport, SERVER_2_SplitsNoAnswer) {
  serve();
  RawAnswer answer = ask(get("/split"));
  EXPECT_EQ(answer.headers.get("X-Said"), "a  X-Evil: 1    HTTP/1.1 200 OK");
  EXPECT_EQ(answer.headers.find("X-Evil"), nullptr);
}

TEST_F(HttpTransport, TellsBrowsersWhatIsAllowed) {
  HttpServer::Options options = testing::test_options();
  options.cors = {{"https://app.example"}, true};
  options.api_keys = {Secret("k")};
  serve(options);
  auto preflight = [&](std::string_view origin) {
    return ask(
        fmt::format("OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: {}\r\nAccess-Control-Request-Method: POST\r\n"
                    "Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n\r\n",
                    origin));
  };
  RawAnswer allowed = preflight("https://app.example");
  EXPECT_EQ(allowed.status, 204);
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Headers"), "authorization,content-type,x-stainless-os");
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(allowed.headers.get("Vary"), "Origin");
  RawAnswer other = preflight("https://evil.example");
  EXPECT_EQ(other.status, 204);
  EXPECT_EQ(other.headers.find("Access-Control-Allow-Origin"), nullptr);
  RawAnswer refused = ask(post("/echo", "", "Origin: https://app.example\r\n"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.get("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_THAT(std::string(refused.headers.get("Access-Control-Expose-Headers")), HasSubstr("X-Request-Id"));
}

TEST_F(HttpTransport, LogsOneJsonLineForEachRequest) {
  HttpServer::Options options = testing::test_options();
  options.access_log = true;
  serve(options);
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  {
    RawClient client(server_->port());
    client.ask(get("/no%22?key=secret", "X-Request-Id: abc\r\n"));
  }
  server_.reset();
  set_log_level(LogLevel::kWarning);
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(R"(warning: {"request_id":"abc","remote":"127.0.0.1:)"));
  EXPECT_THAT(log, HasSubstr(R"("request":"GET /no\"","status":404,"bytes":)"));
  EXPECT_EQ(log.find("secret"), std::string::npos) << "queries may hold what a log must not";
}

TEST_F(HttpTransport, LogsARefusedRequestAtTheDefaultLevel) {
  HttpServer::Options options = testing::test_options();
  options.access_log = true;
  serve(options);
  ::testing::internal::CaptureStderr();
  {
    RawClient client(server_->port());
    client.ask(get("/none", "X-Request-Id: abc\r\n"));
    client.ask(post("/echo", "hello", "X-Request-Id: served\r\n"));
  }
  server_.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(R"(warning: {"request_id":"abc")"));
  EXPECT_THAT(log, HasSubstr(R"("error":")")) << "and why";
  EXPECT_EQ(log.find("served"), std::string::npos) << "an answer is no warning";
}

}  // namespace
}  // namespace vernier
