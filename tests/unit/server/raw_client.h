#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/http_server.h"

namespace vernier::testing {

/// What came back: the head as it was sent, and the body without its chunk framing.
struct RawAnswer {
  int status = 0;  ///< 0: nothing came, or not the whole
  std::string head;
  std::string body;
  HeaderList headers;
  int chunks = 0;
};

/// A client that sends exactly the bytes it is told to.
class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    timeval limit{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int socket() const { return socket_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void shutdown_send() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes, size_t step = std::string_view::npos) {
    while (!bytes.empty()) {
      ssize_t sent = ::send(socket_, bytes.data(), std::min(step, bytes.size()), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// One answer. To a HEAD none has a body.
  RawAnswer answer(bool head_only = false) {
    RawAnswer out;
    if (!fill_until("\r\n\r\n")) return out;
    out.head = take(buffer_.find("\r\n\r\n") + 4);
    parse_head(out);
    int status = std::atoi(out.head.c_str() + 9);
    if (head_only || status == 204 || status == 100) {
      out.status = status;
    } else if (const std::string* length = out.headers.find("Content-Length")) {
      size_t wanted = std::stoul(*length);
      while (buffer_.size() < wanted && fill()) {
      }
      if (buffer_.size() >= wanted) out.status = status;
      out.body = take(std::min(wanted, buffer_.size()));
    } else if (out.headers.get("Transfer-Encoding") == "chunked") {
      if (read_chunks(out)) out.status = status;
    } else {
      out.body = rest();
      out.status = status;
    }
    return out;
  }

  RawAnswer ask(std::string_view bytes, bool head_only = false) {
    send(bytes);
    return answer(head_only);
  }

  /// Everything until the server closes.
  std::string rest() {
    while (fill()) {
    }
    return std::exchange(buffer_, {});
  }
  /// Reads until the bytes are there; false at the end.
  bool fill_until(std::string_view bytes) {
    while (buffer_.find(bytes) == std::string::npos) {
      if (!fill()) return false;
    }
    return true;
  }
  const std::string& buffer() const { return buffer_; }
  /// Whether the server has closed, within the time limit of a read.
  bool closed() {
    char byte;
    return ::recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  bool fill() {
    char bytes[65536];
    ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }
  std::string take(size_t bytes) {
    std::string out = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return out;
  }
  static void parse_head(RawAnswer& out) {
    size_t at = out.head.find("\r\n") + 2;
    while (at + 2 < out.head.size()) {
      size_t end = out.head.find("\r\n", at);
      std::string line = out.head.substr(at, end - at);
      size_t colon = line.find(": ");
      out.headers.add(line.substr(0, colon), line.substr(colon + 2));
      at = end + 2;
    }
  }
  bool read_chunks(RawAnswer& out) {
    while (true) {
      if (!fill_until("\r\n")) return false;
      size_t size = std::stoul(take(buffer_.find("\r\n") + 2), nullptr, 16);
      while (buffer_.size() < size + 2) {
        if (!fill()) return false;
      }
      out.body += take(size);
      take(2);
      if (size == 0) return true;
      ++out.chunks;
    }
  }

  int socket_;
  bool connected_ = false;
  std::string buffer_;
};

/// "GET /path HTTP/1.1" with a Host and these fields, each ended by \r\n.
inline std::string get(std::string_view path, std::string_view fields = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path, fields);
}
inline std::string post(std::string_view path, std::string_view body, std::string_view fields = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), fields, body);
}

/// Options for tests: a free port, quiet, few threads.
inline HttpServer::Options test_options() {
  HttpServer::Options options;
  options.port = 0;
  options.worker_threads = 2;
  options.access_log = false;
  return options;
}

inline std::unique_ptr<HttpServer> started(HttpServer::Options options, Router router) {
  auto server = HttpServer::start(std::move(options), std::move(router));
  EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().to_string());
  return server.ok() ? std::move(*server) : nullptr;
}

/// Waits up to 10 s for it to hold.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace vernier::testing
