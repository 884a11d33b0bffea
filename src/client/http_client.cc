#include "client/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"

namespace vernier {
namespace {

constexpr int64_t kPollNs = 50'000'000;

Error fault(ErrorCode code, const char* kind, std::string message) {
  return {code, std::move(message), kind};
}

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;
#endif

int open_socket(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, address.ai_socktype, address.ai_protocol);
  if (socket < 0) return -1;
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef SO_NOSIGPIPE
  ::setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return socket;
}

}  // namespace

void HttpClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  early_.clear();
}

void HttpClient::start_clock() {
  deadline_ns_ = monotonic_ns() + nanoseconds(limits_.total_s);
  answered_ = false;
}

Status HttpClient::wait(short events, int64_t until_ns, const char* what) const {
  while (true) {
    if (limits_.cancelled != nullptr && limits_.cancelled->load()) {
      return fault(ErrorCode::kInternal, "cancelled", "given up by the caller");
    }
    const int64_t left_ns = std::min(until_ns, deadline_ns_) - monotonic_ns();
    if (left_ns <= 0) return fault(ErrorCode::kTimeout, "timeout", fmt::format("{} took too long", what));
    pollfd entry{socket_, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min(left_ns, kPollNs) / 1'000'000 + 1));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fault(ErrorCode::kInternal, "hang-up", std::strerror(errno));
  }
}

Status HttpClient::connect() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int bad = ::getaddrinfo(url_.host.c_str(), url_.port.c_str(), &hints, &found); bad != 0) {
    return fault(ErrorCode::kUnavailable, "connect", fmt::format("{}: {}", url_.host, ::gai_strerror(bad)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    close();
    socket_ = open_socket(*address);
    if (socket_ < 0) {
      reason = std::strerror(errno);
      continue;
    }
    int failure = ::connect(socket_, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) {
      if (Status ready = wait(POLLOUT, monotonic_ns() + nanoseconds(limits_.connect_s), "connecting"); !ready.ok()) {
        close();
        return ready;
      }
      socklen_t size = sizeof failure;
      ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failure, &size);
    }
    if (failure == 0) return {};
    reason = std::strerror(failure);
  }
  close();
  return fault(ErrorCode::kUnavailable, "connect",
               fmt::format("nothing answers at {}: {}; is the server running there?", url_.authority(), reason));
}

Status HttpClient::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), kSendFlags);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TRY_STATUS(wait(POLLOUT, monotonic_ns() + nanoseconds(limits_.silence_s), "sending the request"));
    } else if (errno != EINTR) {
      // A server may refuse a large body unread and close: its answer is still to be read.
      return fault(ErrorCode::kInternal, "hang-up", fmt::format("while sending: {}", std::strerror(errno)));
    }
  }
  return {};
}

Result<ReplyHead> HttpClient::receive(bool to_head, const BodySink& sink) {
  ReplyParser parser(to_head);
  std::string bytes = std::exchange(early_, {});
  char buffer[16384];
  while (true) {
    if (!bytes.empty()) {
      answered_ = true;
      TRY_BIND(size_t used, parser.feed(bytes, sink));
      if (parser.stopped()) return fault(ErrorCode::kInternal, "cancelled", "given up by the caller");
      bytes.erase(0, used);
    }
    if (parser.done()) break;
    TRY_STATUS(wait(POLLIN, monotonic_ns() + nanoseconds(limits_.silence_s), "waiting for the answer"));
    const ssize_t got = ::recv(socket_, buffer, sizeof buffer, 0);
    if (got > 0) {
      bytes.assign(buffer, static_cast<size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      if (got < 0) return fault(ErrorCode::kInternal, "hang-up", std::strerror(errno));
      TRY_STATUS(parser.close());
      break;
    }
  }
  if (parser.keep_alive()) {
    early_ = std::move(bytes);
  } else {
    close();
  }
  return parser.head();
}

std::string HttpClient::spell(const ClientRequest& request) const {
  std::string text =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method, url_.prefix, request.path, url_.authority());
  for (const auto& [name, value] : request.fields) text += fmt::format("{}: {}\r\n", name, value);
  if (request.chunk_bytes == 0) {
    if (!request.body.empty() || request.method == "POST") {
      text += fmt::format("Content-Length: {}\r\n", request.body.size());
    }
    return text + "\r\n" + request.body;
  }
  text += "Transfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < request.body.size(); at += request.chunk_bytes) {
    const std::string piece = request.body.substr(at, request.chunk_bytes);
    text += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  return text + "0\r\n\r\n";
}

Result<ReplyHead> HttpClient::exchange(const ClientRequest& request, const BodySink& sink, int64_t* sent_ns) {
  const std::string bytes = spell(request);
  start_clock();
  if (!early_.empty()) close();  // bytes that no request asked for are no answer to this one
  for (bool reused = connected();; reused = false) {
    if (!connected()) TRY_STATUS(connect());
    const Status sent = send_all(bytes);
    if (sent_ns != nullptr) *sent_ns = monotonic_ns();
    if (!sent.ok() && sent.error().where != "hang-up") {
      close();
      return sent.error();
    }
    Result<ReplyHead> head = receive(request.method == "HEAD", sink);
    if (head.ok()) {
      if (!sent.ok()) close();
      return head;
    }
    close();
    const bool stale = reused && !answered_ && head.error().where == "hang-up";
    if (!stale) return head;
  }
}

Result<ClientReply> HttpClient::ask(const ClientRequest& request) {
  ClientReply reply;
  TRY_BIND(reply.head, exchange(request, [&](std::string_view bytes) {
             reply.body += bytes;
             return true;
           }));
  return reply;
}

Status HttpClient::send_raw(std::string_view bytes) {
  start_clock();
  if (!connected()) TRY_STATUS(connect());
  return send_all(bytes);
}

Result<ClientReply> HttpClient::read_raw(bool to_head) {
  if (!connected()) return fault(ErrorCode::kInternal, "hang-up", "the server closed the connection");
  ClientReply reply;
  start_clock();
  Result<ReplyHead> head = receive(to_head, [&](std::string_view bytes) {
    reply.body += bytes;
    return true;
  });
  if (!head.ok()) {
    close();
    return std::move(head).error();
  }
  reply.head = std::move(head).value();
  return reply;
}

}  // namespace vernier
