#include "comm/socket_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace vernier {
namespace {

/// What was sent and has not left when this rank goes is waited for so long.
constexpr int64_t kSocketsCloseNs = 1'000'000'000;
constexpr size_t kReadBytes = 64 * 1024;

/// At least 1 where there is time left, so that a wait is no spin.
int poll_ms(int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - monotonic_ns();
  if (left_ns <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((left_ns + 999'999) / 1'000'000, 60'000));
}

}  // namespace

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.release();
  }
  return *this;
}

void OwnedDescriptor::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

int OwnedDescriptor::release() {
  return std::exchange(descriptor_, -1);
}

SocketTransport::SocketTransport(int rank, std::vector<OwnedDescriptor> sockets) : rank_(rank), peers_(sockets.size()) {
  for (size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = std::move(sockets[i]);
}

SocketTransport::~SocketTransport() {
  flush(monotonic_ns() + kSocketsCloseNs);
}

void SocketTransport::send(int to, const std::string& frame) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  if (!peer.socket.is_open() || !peer.listens) return;
  const auto length = static_cast<uint32_t>(frame.size());
  peer.out.append(reinterpret_cast<const char*>(&length), sizeof length).append(frame);
  write_some(peer);
}

std::optional<RankNews> SocketTransport::receive(int64_t deadline_ns) {
  while (news_.empty()) {
    if (!wait(deadline_ns)) return std::nullopt;
  }
  RankNews news = std::move(news_.front());
  news_.pop_front();
  return news;
}

bool SocketTransport::flush(int64_t deadline_ns) {
  const auto waits = [](const Peer& peer) { return peer.sent < peer.out.size(); };
  while (std::ranges::any_of(peers_, waits)) {
    if (!wait(deadline_ns)) return false;
  }
  return true;
}

/// Reads and writes what can be; whether there was time, or nothing is left to wait for.
bool SocketTransport::wait(int64_t deadline_ns) {
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    if (!peer.socket.is_open()) continue;
    const short wanted = peer.sent < peer.out.size() ? POLLIN | POLLOUT : POLLIN;
    polled.push_back({peer.socket.get(), wanted, 0});
    ranks.push_back(rank);
  }
  const int ready = ::poll(polled.data(), polled.size(), poll_ms(deadline_ns));
  if (ready <= 0) return (ready < 0 && errno == EINTR) || monotonic_ns() < deadline_ns;
  for (size_t i = 0; i < polled.size(); ++i) {
    if ((polled[i].revents & POLLOUT) != 0) write_some(peers_[static_cast<size_t>(ranks[i])]);
    if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_some(ranks[i]);
  }
  return true;
}

void SocketTransport::write_some(Peer& peer) {
  while (peer.sent < peer.out.size()) {
    const ssize_t sent =
        ::send(peer.socket.get(), peer.out.data() + peer.sent, peer.out.size() - peer.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // It reads no more; what it wrote before is still to be read.
      peer.listens = false;
      break;
    }
    peer.sent += static_cast<size_t>(sent);
  }
  peer.out.clear();
  peer.sent = 0;
}

void SocketTransport::read_some(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  char buffer[kReadBytes];
  while (peer.socket.is_open()) {
    const ssize_t got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got == 0) return drop(from, "its connection was closed");
    if (got < 0) return drop(from, fmt::format("its connection broke: {}", std::strerror(errno)));
    peer.in.append(buffer, static_cast<size_t>(got));
    cut_frames(from);
  }
}

/// Frames that are whole become news.
void SocketTransport::cut_frames(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  size_t at = 0;
  uint32_t length = 0;
  while (peer.in.size() - at >= sizeof length) {
    std::memcpy(&length, peer.in.data() + at, sizeof length);
    if (length > kMostFrameBytes) return drop(from, fmt::format("it sent a frame of {} bytes", length));
    if (peer.in.size() - at - sizeof length < length) break;
    news_.push_back({from, false, peer.in.substr(at + sizeof length, length)});
    at += sizeof length + length;
  }
  peer.in.erase(0, at);
}

void SocketTransport::drop(int from, std::string why) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  peer.socket.close();
  peer.out.clear();
  peer.sent = 0;
  news_.push_back({from, true, std::move(why)});
}

}  // namespace vernier
