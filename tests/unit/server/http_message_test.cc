#include "server/http_message.h"

#include <gtest/gtest.h>

#include "server/api_error.h"
#include "server/request_error.h"

namespace vernier {
namespace {

TEST(HttpMessage, ComparesNamesWithoutCase) {
  HeaderList headers{{"Content-Type", "a"}, {"X", "1"}, {"x", "2"}};
  EXPECT_EQ(headers.get("content-TYPE"), "a");
  EXPECT_EQ(headers.count("X"), 2u);
  headers.set("x", "3");
  EXPECT_EQ(headers.count("X"), 1u);
  EXPECT_EQ(headers.get("X"), "3");
  EXPECT_EQ(headers.find("y"), nullptr);
}

TEST(HttpMessage, DecodesPercents) {
  EXPECT_EQ(percent_decoded("a%20b%2F%c3%A9+"), "a b/\xc3\xa9+");
  for (const char* broken : {"%", "%1", "%g0", "a%0", "%-1"})
    EXPECT_EQ(percent_decoded(broken), std::nullopt) << broken;
}

TEST(HttpMessage, ReadsQueries) {
  EXPECT_EQ(parsed_query("a=1&b=x+y%26&&c&d=e=f"), (NamedValues{{"a", "1"}, {"b", "x y&"}, {"c", ""}, {"d", "e=f"}}));
  EXPECT_EQ(parsed_query("a=%"), std::nullopt);
  EXPECT_EQ(parsed_query(""), NamedValues());
}

// SERVER-3: an error body has exactly four keys, and is JSON whatever the message holds.
TEST(ApiErrors, SERVER_3_HaveFourKeys) {
  ApiError error = ApiError::make(400, "a \"b\"\n\x01 \xff", "code", "param[0]");
  EXPECT_EQ(error.body(), R"({"error":{"message":"a \"b\"\u000a\u0001 )"
                          "\xef\xbf\xbd"
                          R"(","type":"invalid_request_error","param":"param[0]","code":"code"}})");
  EXPECT_EQ(ApiError::make(503, "later").body(),
            R"({"error":{"message":"later","type":"server_error","param":null,"code":null}})");
  EXPECT_EQ(ApiError::make(429, "full").response().headers.get("Retry-After"), "1");
}

// SERVER-3: what the machine knows of itself stays in the log.
TEST(ApiErrors, SERVER_3_TellNothingOfAnInternalFailure) {
  ApiError error = api_error(make_error(ErrorCode::kInternal, "/models/private.gguf: read failed"));
  EXPECT_EQ(error.status, 500);
  EXPECT_EQ(error.message.find("private.gguf"), std::string::npos);
  EXPECT_EQ(api_error(not_found("no model x")).status, 404);
  EXPECT_EQ(api_error(unsupported("audio")).status, 400);
}

// A field that asks for what is not ready yet is no server that goes down.
TEST(ApiErrors, TellWhatIsNotReadyFromAServerThatGoesDown) {
  Error slow = make_error(ErrorCode::kUnavailable, "the grammar was not compiled in time");
  EXPECT_EQ(request_error(slow).code, "shutting_down");
  slow.where = "regex";
  const ApiError error = request_error(slow);
  EXPECT_EQ(error.status, 503);
  EXPECT_EQ(error.code, "not_ready");
  EXPECT_EQ(error.param, "regex");
  EXPECT_EQ(error.retry_after_seconds, 1);
}

}  // namespace
}  // namespace vernier
