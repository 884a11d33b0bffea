#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace vernier {

/// The largest frame that a transport carries.
inline constexpr size_t kMostFrameBytes = size_t{64} << 20;

/// What came of another rank: bytes that it sent, or that it is gone and sends no more.
struct RankNews {
  int rank = 0;
  bool gone = false;
  std::string text;  ///< the frame; of one that is gone, how that is known
};

/// Carries frames between ranks, those of one rank in the order in which it sent them, each whole. One thread at a
/// time. Its destruction tells the others that this rank is gone, after what it has flushed.
class RankTransport {
 public:
  virtual ~RankTransport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Takes a copy and waits for nobody. To a rank that is gone nothing is sent.
  virtual void send(int to, const std::string& frame) = 0;
  /// The next news of anybody; none where none came before `deadline_ns` of the monotonic clock. That a rank is gone
  /// comes once, after its last frame.
  virtual std::optional<RankNews> receive(int64_t deadline_ns) = 0;
  /// Waits until all that was sent has left this rank, or its receiver is gone; whether it has.
  virtual bool flush(int64_t deadline_ns) = 0;
};

}  // namespace vernier
