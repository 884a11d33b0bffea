#include "comm/communicator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"

namespace vernier {
namespace {

/// A rank that gives up waits this long for its last words to leave.
constexpr int64_t kLastWordsNs = 1'000'000'000;

enum class FrameKind : uint8_t { kData, kFailed };

/// Before the payload. `code` is of a failure; `name_bytes` of the exchange's name, which comes first in the payload.
struct FrameHead {
  uint64_t exchange = 0;
  uint32_t name_bytes = 0;
  FrameKind kind = FrameKind::kData;
  uint8_t code = 0;
  uint8_t unused[2] = {};
};
static_assert(sizeof(FrameHead) == 16);

std::string write_frame(FrameHead head, std::string_view name, std::string_view payload) {
  head.name_bytes = static_cast<uint32_t>(name.size());
  std::string frame(sizeof head, '\0');
  std::memcpy(frame.data(), &head, sizeof head);
  return frame.append(name).append(payload);
}

struct ReadFrame {
  FrameHead head;
  std::string_view name;
  std::string_view payload;
};

std::optional<ReadFrame> read_frame(std::string_view frame) {
  ReadFrame read;
  if (frame.size() < sizeof read.head) return std::nullopt;
  std::memcpy(&read.head, frame.data(), sizeof read.head);
  frame.remove_prefix(sizeof read.head);
  if (read.head.name_bytes > frame.size() || read.head.code > static_cast<uint8_t>(ErrorCode::kInternal)) {
    return std::nullopt;
  }
  read.name = frame.substr(0, read.head.name_bytes);
  read.payload = frame.substr(read.head.name_bytes);
  return read;
}

double reduce(double a, double b, Reduction how) {
  if (how == Reduction::kSum) return a + b;
  return std::isnan(a) || a > b ? a : b;
}

}  // namespace

std::string ranks_text(std::span<const int> ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  return fmt::format("ranks {} and {}", fmt::join(ranks.first(ranks.size() - 1), ", "), ranks.back());
}

Communicator::Communicator(std::unique_ptr<RankTransport> transport, int64_t timeout_ns)
    : transport_(std::move(transport)), timeout_ns_(timeout_ns), peers_(static_cast<size_t>(transport_->size())) {
  CHECK(timeout_ns > 0, "a time-out of {} ns", timeout_ns);
}

Result<std::vector<std::string>> Communicator::all_gather(std::string_view exchange, std::string_view bytes) {
  if (failed_) return *failed_;
  ++exchange_;
  const std::string frame = write_frame({exchange_}, exchange, bytes);
  if (frame.size() > kMostFrameBytes) {
    return give_up(
        invalid_argument("{} bytes for '{}'; an exchange takes {}", bytes.size(), exchange, kMostFrameBytes));
  }
  for (int to = 0; to < size(); ++to) {
    if (to != rank()) transport_->send(to, frame);
  }
  std::vector<std::string> gathered(static_cast<size_t>(size()));
  gathered[static_cast<size_t>(rank())] = bytes;
  TRY_STATUS(collect(exchange, gathered));
  return gathered;
}

/// Waits for the frame of every other rank.
Status Communicator::collect(std::string_view exchange, std::vector<std::string>& gathered) {
  const int64_t deadline_ns = monotonic_ns() + timeout_ns_;
  std::vector<bool> there(gathered.size(), false);
  there[static_cast<size_t>(rank())] = true;
  for (int from = 0; from < size(); ++from) TRY_STATUS(place(from, exchange, gathered, there));
  while (std::ranges::find(there, false) != there.end()) {
    std::optional<RankNews> news = transport_->receive(deadline_ns);
    if (!news) return fail(nobody_answered(exchange, there));
    const int from = news->rank;
    TRY_STATUS(take(*std::move(news)));
    TRY_STATUS(place(from, exchange, gathered, there));
  }
  // One that came late finds the others' failures behind their frames.
  while (std::optional<RankNews> news = transport_->receive(0)) TRY_STATUS(take(*std::move(news)));
  // What others wait for has left before this rank goes on to something long.
  if (transport_->flush(deadline_ns)) return {};
  return fail(make_error(ErrorCode::kTimeout, "what rank {} gave to '{}' was not taken within {}", rank(), exchange,
                         format_duration(timeout_ns_)));
}

/// Keeps a frame for its exchange; a rank's failure becomes this rank's at once.
Status Communicator::take(RankNews news) {
  Peer& peer = peers_[static_cast<size_t>(news.rank)];
  if (news.gone) {
    peer.gone = true;
    peer.how = std::move(news.text);
    return {};
  }
  const std::optional<ReadFrame> read = read_frame(news.text);
  if (!read) return fail(corrupt("rank {} sent {} bytes that are no frame", news.rank, news.text.size()));
  if (read->head.kind == FrameKind::kFailed) {
    Error theirs{static_cast<ErrorCode>(read->head.code), std::string(read->payload), {}};
    return fail(std::move(theirs));
  }
  peer.frames.push_back(std::move(news.text));
  return {};
}

/// Takes the next frame of a rank for the exchange under way, where it is there.
Status Communicator::place(int from, std::string_view exchange, std::vector<std::string>& gathered,
                           std::vector<bool>& there) {
  const auto index = static_cast<size_t>(from);
  Peer& peer = peers_[index];
  if (there[index]) return {};
  if (peer.frames.empty()) {
    if (!peer.gone) return {};
    return fail(make_error(ErrorCode::kUnavailable, "rank {} ended before '{}', exchange {}: {}", from, exchange,
                           exchange_, peer.how));
  }
  const std::string frame = std::move(peer.frames.front());
  peer.frames.pop_front();
  const ReadFrame read = *read_frame(frame);
  if (read.head.exchange != exchange_ || read.name != exchange) {
    return fail(make_error(ErrorCode::kInternal, "rank {} is at '{}', exchange {}, and rank {} at '{}', exchange {}",
                           from, read.name, read.head.exchange, rank(), exchange, exchange_));
  }
  gathered[index] = read.payload;
  there[index] = true;
  return {};
}

Status Communicator::barrier(std::string_view exchange) {
  TRY_STATUS(all_gather(exchange, {}));
  return {};
}

Result<std::vector<double>> Communicator::all_reduce(std::string_view exchange, std::span<const double> values,
                                                     Reduction how) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  TRY_BIND(const std::vector<std::string> all, all_gather(exchange, bytes));
  std::vector<double> reduced;
  for (size_t from = 0; from < all.size(); ++from) {
    if (all[from].size() != all[0].size() || all[from].size() % sizeof(double) != 0) {
      return give_up(make_error(ErrorCode::kInternal, "rank {} gave {} numbers to '{}', and rank 0 {}", from,
                                all[from].size() / sizeof(double), exchange, all[0].size() / sizeof(double)));
    }
    std::vector<double> own(all[from].size() / sizeof(double));
    if (!own.empty()) std::memcpy(own.data(), all[from].data(), all[from].size());
    if (from == 0) {
      reduced = std::move(own);
      continue;
    }
    std::ranges::transform(reduced, own, reduced.begin(), [how](double a, double b) { return reduce(a, b, how); });
  }
  return reduced;
}

Result<std::string> Communicator::broadcast(std::string_view exchange, int from, std::string_view bytes) {
  CHECK(from >= 0 && from < size(), "rank {} of {}", from, size());
  TRY_BIND(std::vector<std::string> all, all_gather(exchange, rank() == from ? bytes : std::string_view()));
  return std::move(all[static_cast<size_t>(from)]);
}

Error Communicator::give_up(Error why) {
  if (failed_) return why;
  tell_all({why.code, fmt::format("rank {} gave up: {}", rank(), why.to_string()), {}});
  failed_ = why;
  return why;
}

/// An error of an exchange: everyone's.
Error Communicator::fail(Error why) {
  tell_all(why);
  failed_ = why;
  return why;
}

void Communicator::tell_all(const Error& why) {
  FrameHead head;
  head.exchange = exchange_;
  head.kind = FrameKind::kFailed;
  head.code = static_cast<uint8_t>(why.code);
  const std::string frame = write_frame(head, {}, why.message);
  for (int to = 0; to < size(); ++to) {
    if (to != rank() && !peers_[static_cast<size_t>(to)].gone) transport_->send(to, frame);
  }
  transport_->flush(monotonic_ns() + kLastWordsNs);
}

Error Communicator::nobody_answered(std::string_view exchange, const std::vector<bool>& there) const {
  std::vector<int> silent;
  for (int from = 0; from < size(); ++from) {
    if (!there[static_cast<size_t>(from)]) silent.push_back(from);
  }
  return make_error(ErrorCode::kTimeout, "{} did not answer in '{}', exchange {}, within {}", ranks_text(silent),
                    exchange, exchange_, format_duration(timeout_ns_));
}

}  // namespace vernier
