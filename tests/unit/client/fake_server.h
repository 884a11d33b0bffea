#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "client/server_url.h"

namespace vernier::testing {

struct FakeRequest {
  std::string method, path, head, body;
  int number = 0;  ///< of all requests of this server, from 0
};

/// One client of a FakeServer, on a thread of its own.
class FakePeer {
 public:
  explicit FakePeer(int socket) : socket_(socket) {}

  void send(std::string_view bytes, size_t step = std::string_view::npos, int pause_us = 0) {
    while (!bytes.empty() && open_) {
      const ssize_t sent = ::send(socket_, bytes.data(), std::min(step, bytes.size()), MSG_NOSIGNAL);
      if (sent <= 0) open_ = false;
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (pause_us > 0) ::usleep(static_cast<useconds_t>(pause_us));
    }
  }
  void answer(int status, std::string_view body, std::string_view fields = "") {
    send(fmt::format("HTTP/1.1 {} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", status,
                     body.size(), fields, body));
  }
  void begin_chunks(std::string_view fields) {
    send(fmt::format("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{}\r\n", fields));
  }
  void chunk(std::string_view bytes) {
    const std::string framed = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
    if (holding_) {
      held_ += framed;
    } else {
      send(framed);
    }
  }
  /// From now on chunks wait for `release`.
  void hold() { holding_ = true; }
  void release() {
    holding_ = false;
    send(held_);
  }
  void hang_up() { open_ = false; }
  bool open() const { return open_; }
  /// Whether the client has gone, waiting so long.
  bool gone(int wait_ms) {
    pollfd entry{socket_, POLLIN, 0};
    char byte;
    return ::poll(&entry, 1, wait_ms) > 0 && ::recv(socket_, &byte, 1, MSG_PEEK) <= 0;
  }

 private:
  int socket_;
  bool open_ = true;
  bool holding_ = false;
  std::string held_;
};

/// A server on a free port of this machine whose answers are what a test says, byte for byte.
class FakeServer {
 public:
  using Answer = std::function<void(const FakeRequest&, FakePeer&)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept(); });
  }
  ~FakeServer() {
    stopping_ = true;
    accepting_.join();
    for (std::thread& thread : serving_) thread.join();
    ::close(listener_);
  }

  ServerUrl url() const { return {"127.0.0.1", std::to_string(port_), ""}; }
  int requests() const { return requests_; }
  int connections() const { return connections_; }

 private:
  void accept() {
    while (!stopping_) {
      pollfd entry{listener_, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) continue;
      ++connections_;
      serving_.emplace_back([this, socket] {
        serve(socket);
        ::close(socket);
      });
    }
  }

  void serve(int socket) {
    std::string bytes;
    FakePeer peer(socket);
    FakeRequest request;
    while (peer.open() && read(socket, bytes, request)) {
      request.number = requests_++;
      answer_(request, peer);
    }
  }

  bool more(int socket, std::string& bytes) {
    char buffer[4096];
    while (!stopping_) {
      pollfd entry{socket, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
      if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
      return got > 0;
    }
    return false;
  }

  bool read(int socket, std::string& bytes, FakeRequest& request) {
    while (bytes.find("\r\n\r\n") == std::string::npos) {
      if (!more(socket, bytes)) return false;
    }
    const size_t end = bytes.find("\r\n\r\n") + 4;
    request.head = bytes.substr(0, end);
    bytes.erase(0, end);
    request.method = request.head.substr(0, request.head.find(' '));
    const size_t at = request.method.size() + 1;
    request.path = request.head.substr(at, request.head.find(' ', at) - at);
    if (request.head.find("Transfer-Encoding: chunked") != std::string::npos)
      return read_chunks(socket, bytes, request);
    const size_t field = request.head.find("Content-Length: ");
    const size_t length = field == std::string::npos ? 0 : std::stoul(request.head.substr(field + 16));
    while (bytes.size() < length) {
      if (!more(socket, bytes)) return false;
    }
    request.body = bytes.substr(0, length);
    bytes.erase(0, length);
    return true;
  }

  bool read_chunks(int socket, std::string& bytes, FakeRequest& request) {
    request.body.clear();
    while (true) {
      while (bytes.find("\r\n") == std::string::npos) {
        if (!more(socket, bytes)) return false;
      }
      const size_t size = std::stoul(bytes, nullptr, 16);
      bytes.erase(0, bytes.find("\r\n") + 2);
      while (bytes.size() < size + 2) {
        if (!more(socket, bytes)) return false;
      }
      request.body += bytes.substr(0, size);
      bytes.erase(0, size + 2);
      if (size == 0) return true;
    }
  }

  Answer answer_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> requests_{0};
  std::atomic<int> connections_{0};
  std::list<std::thread> serving_;  // of accepting_ until it has ended
  std::thread accepting_;
};

}  // namespace vernier::testing
