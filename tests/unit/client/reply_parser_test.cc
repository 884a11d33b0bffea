#include "client/reply_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/event_reader.h"
#include "client/server_url.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  int status = 0;
  std::string body;
  std::string error;
  size_t used = 0;
  bool keep_alive = false;
};

Parsed parse(std::string_view bytes, size_t step, bool close = false) {
  ReplyParser parser;
  Parsed out;
  auto sink = [&](std::string_view piece) {
    out.body += piece;
    return true;
  };
  for (size_t at = 0; at < bytes.size() && !parser.done(); at += step) {
    Result<size_t> used = parser.feed(bytes.substr(at, step), sink);
    if (!used.ok()) {
      out.error = used.error().to_string();
      return out;
    }
    out.used = at + *used;
  }
  if (close) {
    if (Status status = parser.close(); !status.ok()) out.error = status.error().to_string();
  }
  out.status = parser.done() ? parser.head().status : 0;
  out.keep_alive = parser.keep_alive();
  return out;
}

// CLIENT-1: however the bytes of an answer are split, the head and the body are the same.
TEST(ReplyParser, CLIENT_1_AnySplitGivesTheSame) {
  const std::string chunked =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: a: b\r\n\r\n"
      "5;name=\"x\"\r\nhello\r\n0a\r\n, \r\nworld!\r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1 204";
  for (size_t step = 1; step <= chunked.size(); ++step) {
    const Parsed found = parse(chunked, step);
    EXPECT_EQ(found.status, 200) << step << found.error;
    EXPECT_EQ(found.body, "hello, \r\nworld!") << step;
    EXPECT_EQ(found.used, chunked.size() - 12) << "bytes of the next answer were taken";
    EXPECT_TRUE(found.keep_alive);
  }
  const std::string sized = "HTTP/1.1 404 Not Found\ncontent-LENGTH:  3 \nConnection: close\n\nabc";
  for (size_t step = 1; step <= sized.size(); ++step) {
    const Parsed found = parse(sized, step);
    EXPECT_EQ(found.status, 404) << step << found.error;
    EXPECT_EQ(found.body, "abc");
    EXPECT_FALSE(found.keep_alive);
  }
}

TEST(ReplyParser, BodiesThatEndOtherwise) {
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\n\r\nall of it", 4, true).body, "all of it");
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\n\r\nall of it", 4, true).status, 200);
  EXPECT_EQ(parse("HTTP/1.1 204 No Content\r\n\r\n", 4).status, 204);
  EXPECT_EQ(parse("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 4).status, 200);
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Length: 9\r\n\r\n0\r\n\r\n", 4).status,
            200);
  EXPECT_FALSE(parse("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 9).keep_alive);
}

// CLIENT-2: an answer that is not whole is never taken for one.
TEST(ReplyParser, CLIENT_2_WhatIsNotWholeIsAnError) {
  for (const char* cut : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"}) {
    EXPECT_THAT(parse(cut, 3, true).error, HasSubstr("hang-up")) << cut;
    EXPECT_EQ(parse(cut, 3, true).status, 0);
  }
  for (const char* broken :
       {"HTTP/2 200 OK\r\n\r\n", "220 smtp\r\n\r\n", "HTTP/1.1 999 x\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n"}) {
    EXPECT_THAT(parse(broken, 5).error, HasSubstr("malformed")) << broken;
  }
  EXPECT_THAT(parse("HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'a'), 1000).error, HasSubstr("64 KiB"));
}

std::string events_of(std::string_view bytes, size_t step) {
  EventReader reader;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.feed(bytes.substr(at, step), [&](ReceivedEvent event) { out += event.name + "=" + event.data + ";"; });
  }
  return out + std::to_string(reader.comments());
}

// CLIENT-1: however the bytes are split, the events are the same.
TEST(EventReader, CLIENT_1_AnySplitGivesTheSame) {
  const std::string stream =
      "\xef\xbb\xbf"
      "data: one\n\n: a comment\n\nevent: named\r\ndata:two\r\ndata:  three\r\n\r\ndata\rdata: \r\rid: 7\nretry: 5\n\n"
      "data: [DONE]\n\ndata: cut off\n";
  for (size_t step = 1; step <= stream.size(); ++step) {
    EXPECT_EQ(events_of(stream, step), "=one;named=two\n three;=\n;=[DONE];1") << step;
  }
}

TEST(ServerUrl, TakesWhatPeopleType) {
  auto spelled = [](std::string_view text) {
    const Result<ServerUrl> url = parse_server_url(text);
    return url.ok() ? url->to_string() : url.error().to_string();
  };
  EXPECT_EQ(spelled("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_EQ(spelled("localhost:8080/v1/"), "http://localhost:8080");
  EXPECT_EQ(spelled("http://host/api/v1"), "http://host:80/api");
  EXPECT_EQ(spelled("http://[::1]:9"), "http://[::1]:9");
  EXPECT_THAT(spelled("https://host"), HasSubstr("speaks no TLS"));
  for (const char* bad : {"", "http://", "ftp://host", "http://host:0", "http://host:70000",
                          "http://host:", "http://[::1", "http://a b:1", "http://me@host:1", "http://host:1/a?b"}) {
    EXPECT_FALSE(parse_server_url(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace vernier
