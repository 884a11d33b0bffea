#pragma once

#include <deque>
#include <string>
#include <vector>

#include "comm/rank_transport.h"

namespace vernier {

/// A file descriptor and its end.
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int descriptor) : descriptor_(descriptor) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : descriptor_(other.release()) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept;
  ~OwnedDescriptor() { close(); }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int release();
  int descriptor_ = -1;
};

/// Frames over stream sockets, one for each other rank.
class SocketTransport final : public RankTransport {
 public:
  /// `sockets` by rank, each not blocking; its own is not open.
  SocketTransport(int rank, std::vector<OwnedDescriptor> sockets);
  ~SocketTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void send(int to, const std::string& frame) override;
  std::optional<RankNews> receive(int64_t deadline_ns) override;
  bool flush(int64_t deadline_ns) override;

 private:
  struct Peer {
    OwnedDescriptor socket;
    std::string in;       // not a whole frame yet
    std::string out;      // with lengths
    size_t sent = 0;      // of `out`
    bool listens = true;  // takes what is sent
  };
  bool wait(int64_t deadline_ns);
  void write_some(Peer& peer);
  void read_some(int from);
  void cut_frames(int from);
  void drop(int from, std::string why);

  int rank_;
  std::vector<Peer> peers_;
  std::deque<RankNews> news_;
};

}  // namespace vernier
