#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/rank_transport.h"

namespace vernier {

enum class Reduction : uint8_t { kSum, kMax };

/// One rank of several that run the same program and meet in exchanges, each with a name. All ranks make the same
/// exchanges in the same order; one that comes to another is an error that names both. An exchange ends for everyone,
/// or in an error within the time-out, counted from when a rank comes to it: the error says which rank did not answer,
/// in which exchange, after how long. Whoever meets an error tells the others, who then fail with it too: later calls
/// repeat it. One thread.
class Communicator {
 public:
  Communicator(std::unique_ptr<RankTransport> transport, int64_t timeout_ns);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  int64_t timeout_ns() const { return timeout_ns_; }

  /// What each rank gave, by rank; sizes may differ.
  Result<std::vector<std::string>> all_gather(std::string_view exchange, std::string_view bytes);
  /// Every rank has come to it.
  Status barrier(std::string_view exchange);
  /// The same numbers on every rank, to the bit: reduced in the order of ranks. NaN of one is NaN. Fails everywhere
  /// where ranks give different counts.
  Result<std::vector<double>> all_reduce(std::string_view exchange, std::span<const double> values, Reduction how);
  /// What rank `from` gave; the others' bytes are not looked at.
  Result<std::string> broadcast(std::string_view exchange, int from, std::string_view bytes);

  /// This rank cannot go on: the others fail with its name and this error. Returns the error, for the caller to return.
  Error give_up(Error why);

 private:
  struct Frame;
  struct Peer {
    std::deque<std::string> frames;  // of exchanges to come
    bool gone = false;
    std::string how;
  };

  Status collect(std::string_view exchange, std::vector<std::string>& gathered);
  Status take(RankNews news);
  Status place(int from, std::string_view exchange, std::vector<std::string>& gathered, std::vector<bool>& there);
  Error fail(Error why);
  void tell_all(const Error& why);
  Error nobody_answered(std::string_view exchange, const std::vector<bool>& there) const;

  std::unique_ptr<RankTransport> transport_;
  int64_t timeout_ns_;
  uint64_t exchange_ = 0;  // number of the one under way, from 1
  std::vector<Peer> peers_;
  std::optional<Error> failed_;
};

/// "rank 2", "ranks 1, 2 and 3"
std::string ranks_text(std::span<const int> ranks);

}  // namespace vernier
