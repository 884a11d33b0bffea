#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "server/page_files.h"
#include "server/page_route.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SentAnswer : public ResponseStream {
 public:
  bool send(HttpResponse response) override {
    sent = std::move(response);
    return true;
  }
  bool begin(int, HeaderList) override { return false; }
  WriteState write(std::string_view) override { return WriteState::kClosed; }
  void finish() override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}
  void account(std::vector<TimePart>) override {}
  void owe_account() override {}
  const std::string& request_id() const override { return id_; }

  HttpResponse sent;

 private:
  std::string id_;
};

HttpResponse get(const std::string& path, const std::string& known_tag = "") {
  Router router;
  add_page_routes(router);
  const Router::Match match = router.find("GET", path);
  if (match.route == nullptr) return HttpResponse{404, {}, ""};
  HttpRequest request;
  if (!known_tag.empty()) request.headers.add("If-None-Match", known_tag);
  auto answer = std::make_shared<SentAnswer>();
  match.route->run(std::move(request), answer);
  return answer->sent;
}

TEST(PageRoute, EachFileHasItsPathAndType) {
  EXPECT_EQ(get("/").headers.get("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(get("/").body, HasSubstr("<!DOCTYPE html>"));
  EXPECT_EQ(get("/page/style.css").headers.get("Content-Type"), "text/css; charset=utf-8");
  EXPECT_EQ(get("/page/app.js").headers.get("Content-Type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/page/icon.svg").headers.get("Content-Type"), "image/svg+xml");
  EXPECT_EQ(get("/page/index.html").status, 404);
  EXPECT_EQ(get("/page/../app.js").status, 404);
  for (const PageFile& file : page_files()) {
    const HttpResponse answer = get(file.name == "index.html" ? "/" : "/page/" + std::string(file.name));
    EXPECT_EQ(answer.status, 200) << file.name;
    EXPECT_NE(answer.headers.get("Content-Type"), "application/octet-stream") << file.name;
  }
}

// What is in the program is what is in the folder, to the byte.
TEST(PageRoute, TheFilesAreEmbeddedAsTheyAre) {
  EXPECT_GE(page_files().size(), 3U);
  for (const PageFile& file : page_files()) {
    std::ifstream source(std::string(VERNIER_TEST_DATA) + "/../../src/server/page/" + std::string(file.name),
                         std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(source), {}};
    EXPECT_EQ(file.text, text) << file.name;
  }
}

TEST(PageRoute, AKnownTagIsNotSentAgain) {
  const HttpResponse first = get("/page/app.js");
  const std::string tag(first.headers.get("ETag"));
  ASSERT_GT(tag.size(), 16U);
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const HttpResponse again = get("/page/app.js", known);
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(again.headers.get("ETag"), tag);
  }
  EXPECT_EQ(get("/page/app.js", "\"other\"").status, 200);
  EXPECT_NE(get("/page/style.css").headers.get("ETag"), tag);
}

// SERVER-15: nothing of another origin, and nothing inline.
TEST(PageRoute, NothingFromElsewhereAndNothingInline) {
  const HttpResponse page = get("/");
  EXPECT_THAT(std::string(page.headers.get("Content-Security-Policy")), HasSubstr("default-src 'self'"));
  EXPECT_THAT(std::string(page.headers.get("Content-Security-Policy")), Not(HasSubstr("unsafe")));
  EXPECT_EQ(page.headers.get("X-Content-Type-Options"), "nosniff");
  for (const char* inlined : {"<style", "style=", "<script>", "onclick=", "javascript:"}) {
    EXPECT_THAT(page.body, Not(HasSubstr(inlined)));
  }
  for (const PageFile& file : page_files()) {
    for (const char* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "@import"}) {
      EXPECT_THAT(std::string(file.text), Not(HasSubstr(way))) << file.name;
    }
  }
}

// SERVER-4: the page is open, since a browser sends no key for it.
TEST(PageRoute, IsOpen) {
  Router router;
  add_page_routes(router);
  for (const Router::Route& route : router.routes()) EXPECT_EQ(route.access, Access::kOpen) << route.pattern;
}

}  // namespace
}  // namespace vernier
