#include "server/api_keys.h"

#include <gtest/gtest.h>

#include "testing/temp_folder.h"
#include "unit/server/raw_client.h"

namespace vernier {
namespace {

using testing::get;
using testing::post;
using testing::RawAnswer;
using testing::RawClient;

std::unique_ptr<HttpServer> keyed() {
  auto answer = [](HttpRequest request, std::shared_ptr<ResponseStream> response) {
    response->send(HttpResponse::text(request.admin ? "admin" : "user"));
  };
  Router router;
  router.add("GET", "/health", Access::kOpen, answer);
  router.get("/v1/models", answer);
  router.post("/v1/chat/completions", answer);
  router.add("POST", "/admin/reload", Access::kAdmin, answer);
  HttpServer::Options options = testing::test_options();
  options.api_keys = {Secret("sk-one"), Secret("sk-two")};
  options.admin_key = Secret("sk-admin");
  return testing::started(std::move(options), std::move(router));
}

TEST(ApiKeys, ASecretPrintsAsStars) {
  EXPECT_EQ(fmt::format("{}", Secret("sk-one")), "***");
  EXPECT_FALSE(Secret("").equals(""));
  EXPECT_FALSE(Secret("ab").equals("abab"));
  EXPECT_FALSE(Secret("ab").equals("a"));
  EXPECT_TRUE(Secret("ab").equals("ab"));
}

TEST(ApiKeys, AreReadFromAFile) {
  testing::TempFolder folder;
  auto keys = read_key_file(folder.write("keys", "# ours\nsk-a \r\n\n  sk-b\n"));
  ASSERT_TRUE(keys.ok());
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_TRUE((*keys)[0].equals("sk-a"));
  EXPECT_TRUE((*keys)[1].equals("sk-b"));
  EXPECT_FALSE(read_key_file(folder.write("empty", "# none\n")).ok());
  EXPECT_FALSE(read_key_file(folder.path("absent")).ok());
}

// SERVER-4: every path but those added as open asks for a key, however it is spelled, known or not.
TEST(ApiKeys, SERVER_4_CloseEveryPathButTheOpenOnes) {
  auto server = keyed();
  for (std::string request :
       {get("/v1/models"), get("/v1/MODELS"), get("//v1/models"), get("/v1/models/"), get("/v1/%6dodels"),
        get("/nothing"), get("/health/"), get("/Health"), get("/x/../health"), post("/v1/chat/completions", "{}"),
        post("/health", "{}"), std::string("OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"),
        get("/v1/models", "Authorization: Bearer wrong\r\n"), get("/v1/models", "Authorization: Bearer\r\n"),
        get("/v1/models", "Authorization: Basic sk-one\r\n"), get("/v1/models", "Authorization: Bearer sk-on\r\n"),
        get("/v1/models", "Authorization: Bearer sk-one1\r\n"), get("/v1/models", "Authorization: Bearer SK-ONE\r\n"),
        get("/v1/models?key=sk-one")}) {
    RawAnswer answer = RawClient(server->port()).ask(request);
    EXPECT_EQ(answer.status, 401) << request;
    EXPECT_EQ(answer.headers.get("WWW-Authenticate"), "Bearer");
    EXPECT_NE(answer.body.find(R"("code":"invalid_api_key")"), std::string::npos) << answer.body;
    EXPECT_EQ(answer.body.find("sk-one"), std::string::npos);
  }
  EXPECT_EQ(RawClient(server->port()).ask("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", true).status, 401);
  EXPECT_EQ(RawClient(server->port()).ask(get("/health")).status, 200);
}

TEST(ApiKeys, OpenWhatTheyShould) {
  auto server = keyed();
  for (const char* fields : {"Authorization: Bearer sk-one\r\n", "authorization: bearer sk-two\r\n",
                             "x-api-key: sk-one\r\n", "Authorization: Bearer   sk-two \r\n"}) {
    RawAnswer answer = RawClient(server->port()).ask(get("/v1/models", fields));
    EXPECT_EQ(answer.status, 200) << fields;
    EXPECT_EQ(answer.body, "user");
  }
  EXPECT_EQ(RawClient(server->port()).ask(post("/admin/reload", "", "x-api-key: sk-one\r\n")).status, 403);
  EXPECT_EQ(RawClient(server->port()).ask(post("/admin/reload", "", "x-api-key: sk-admin\r\n")).body, "admin");
  EXPECT_EQ(RawClient(server->port()).ask(get("/v1/models", "x-api-key: sk-admin\r\n")).body, "admin");
  EXPECT_EQ(RawClient(server->port()).ask(get("/nothing", "x-api-key: sk-one\r\n")).status, 404);
}

}  // namespace
}  // namespace vernier
