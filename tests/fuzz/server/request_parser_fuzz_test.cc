#include <gtest/gtest.h>

#include <algorithm>

#include "server/request_parser.h"
#include "testing/fuzzer.h"

namespace vernier {
namespace {

constexpr RequestParser::Limits kLimits{2000, 500, 3000};

struct Parsed {
  RequestParser::State state;
  size_t taken;
  std::string text;
};

// As a connection does: what is not taken is given again with more.
Parsed parsed(const std::string& input, size_t step) {
  RequestParser parser(kLimits);
  std::string waiting;
  size_t taken = 0, given = 0;
  while (true) {
    size_t took = parser.feed(waiting);
    EXPECT_LE(took, waiting.size());
    waiting.erase(0, took);
    taken += took;
    if (parser.state() == RequestParser::State::kDone || parser.state() == RequestParser::State::kFailed) break;
    if (took > 0) continue;
    EXPECT_LE(waiting.size(), kLimits.header_bytes + step) << "what a connection must hold is bounded";
    if (given == input.size()) break;
    size_t more = std::min(step, input.size() - given);
    waiting += input.substr(given, more);
    given += more;
  }
  Parsed out{parser.state(), taken, ""};
  if (out.state == RequestParser::State::kDone) {
    HttpRequest request = parser.take();
    out.text = request.method + ' ' + request.path + '\n';
    for (const auto& [name, value] : request.query) out.text += name + '=' + value + '\n';
    for (const auto& [name, value] : request.headers) out.text += name + ": " + value + '\n';
    out.text += request.body;
    EXPECT_LE(request.body.size(), kLimits.body_bytes);
    EXPECT_EQ(request.path.find('\0'), std::string::npos);
  } else if (out.state == RequestParser::State::kFailed) {
    EXPECT_GE(parser.error().status, 400);
    EXPECT_LT(parser.error().status, 600);
  }
  return out;
}

// SERVER-2: any bytes are a request, an error or the beginning of a request, and the same in whatever pieces they come.
TEST(RequestParserFuzz, SERVER_2_AnyBytesInAnyPieces) {
  testing::FuzzCase fuzz_case;
  fuzz_case.name = "request";
  fuzz_case.seeds = {
      "GET /v1/models?a=b&c=%20 HTTP/1.1\r\nHost: x\r\nX-Request-Id: 1\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nhello world",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n",
      "OPTIONS * HTTP/1.0\r\n\r\n",
      "GET http://host/%41 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n",
  };
  fuzz_case.words = {"\r\n",
                     "\r\n\r\n",
                     "Content-Length: ",
                     "Transfer-Encoding: chunked\r\n",
                     "Host: ",
                     "%",
                     "%00",
                     "HTTP/1.1",
                     "0\r\n",
                     "ffffffff",
                     "-1",
                     std::string(700, 'a'),
                     " ",
                     "\t",
                     ":",
                     std::string(1, '\0'),
                     "HTTP/2",
                     "chunked"};
  testing::fuzz(fuzz_case, [](const std::string& input) {
    Parsed whole = parsed(input, input.size() + 1);
    Parsed bytes = parsed(input, 1);
    if (whole.state == RequestParser::State::kDone) {
      EXPECT_EQ(bytes.state, whole.state);
      EXPECT_EQ(bytes.taken, whole.taken);
      EXPECT_EQ(bytes.text, whole.text);
    }
    EXPECT_EQ(bytes.state == RequestParser::State::kDone, whole.state == RequestParser::State::kDone);
    return whole.state == RequestParser::State::kDone;
  });
}

}  // namespace
}  // namespace vernier
