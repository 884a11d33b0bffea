#include "server/router.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

Router table() {
  auto nothing = [](HttpRequest, std::shared_ptr<ResponseStream>) {};
  Router router;
  router.add("GET", "/health", Access::kOpen, nothing);
  router.post("/v1/chat/completions", nothing);
  router.get("/v1/models", nothing);
  router.get("/v1/models/{model...}", nothing);
  router.get("/v1/responses/{id}", nothing);
  router.add("DELETE", "/v1/responses/{id}", Access::kAdmin, nothing);
  router.get("/v1/responses/{id}/input_items", nothing);
  router.get("/v1/responses/latest", nothing);
  return router;
}

std::string pattern(std::string_view method, std::string_view path) {
  Router router = table();
  Router::Match match = router.find(method, path);
  return match.route != nullptr ? match.route->pattern : "";
}

TEST(Router, FindsTheMostFixedPattern) {
  EXPECT_EQ(pattern("GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(pattern("GET", "/v1/models/a"), "/v1/models/{model...}");
  EXPECT_EQ(pattern("GET", "/v1/responses/latest"), "/v1/responses/latest");
  EXPECT_EQ(pattern("GET", "/v1/responses/other"), "/v1/responses/{id}");
  EXPECT_EQ(pattern("GET", "/v1/responses/x/input_items"), "/v1/responses/{id}/input_items");
  EXPECT_EQ(pattern("HEAD", "/health"), "/health");
}

TEST(Router, DecodesSegmentsAfterSplitting) {
  Router router = table();
  EXPECT_EQ(router.find("GET", "/v1/models/org%2fname").params, (NamedValues{{"model", "org/name"}}));
  EXPECT_EQ(router.find("GET", "/v1/models/org/name").params, (NamedValues{{"model", "org/name"}}));
  EXPECT_EQ(router.find("GET", "/v1/responses/a%2fb").params, (NamedValues{{"id", "a/b"}}));
  EXPECT_EQ(pattern("GET", "/%68ealth"), "/health");
}

// SERVER-8: a path that differs in any letter is another path, so that no alias of a closed route is open.
TEST(Router, SERVER_8_TakesNoAliasOfAPath) {
  for (const char* path : {"/Health", "//health", "/health/", "/./health", "/x/../health", "health", "", "/health%00",
                           "/v1//models", "/v1/models/", "/v1/responses//input_items", "/%zz"}) {
    EXPECT_EQ(pattern("GET", path), "") << path;
  }
}

TEST(Router, NamesTheMethodsOfAPath) {
  Router router = table();
  EXPECT_EQ(router.find("PUT", "/v1/responses/other").allowed, (std::vector<std::string>{"GET", "DELETE"}));
  EXPECT_TRUE(router.find("GET", "/nothing").allowed.empty());
}

}  // namespace
}  // namespace vernier
