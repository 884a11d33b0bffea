#include "comm/thread_ranks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/clock.h"

namespace vernier {
namespace {

constexpr int64_t kGraceNs = 2'000'000'000;

std::chrono::steady_clock::time_point time_of(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

/// Where the frames of all ranks lie until they are received.
struct Hub {
  explicit Hub(int ranks) : boxes(static_cast<size_t>(ranks)) {}

  struct Box {
    std::deque<RankNews> news;
    std::condition_variable came;
    bool gone = false;  // its owner is
  };
  std::mutex mutex;
  std::deque<Box> boxes;
};

class ThreadTransport final : public RankTransport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~ThreadTransport() override {
    const std::scoped_lock lock(hub_->mutex);
    box().gone = true;
    box().news.clear();
    for (int to = 0; to < size(); ++to) {
      if (to != rank_) put(to, {rank_, true, "its thread has left"});
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->boxes.size()); }

  void send(int to, const std::string& frame) override {
    const std::scoped_lock lock(hub_->mutex);
    put(to, {rank_, false, frame});
  }

  std::optional<RankNews> receive(int64_t deadline_ns) override {
    std::unique_lock lock(hub_->mutex);
    if (!box().came.wait_until(lock, time_of(deadline_ns), [&] { return !box().news.empty(); })) return std::nullopt;
    RankNews news = std::move(box().news.front());
    box().news.pop_front();
    return news;
  }

  bool flush(int64_t) override { return true; }

 private:
  Hub::Box& box() { return hub_->boxes[static_cast<size_t>(rank_)]; }
  void put(int to, RankNews news) {
    Hub::Box& theirs = hub_->boxes[static_cast<size_t>(to)];
    if (theirs.gone) return;
    theirs.news.push_back(std::move(news));
    theirs.came.notify_one();
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
};

/// What ranks and the one who waits for them share.
struct Run {
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<std::optional<Status>> status;
  int64_t end_ns = 0;  // nobody waits longer; 0: as long as it takes

  /// Under the mutex.
  bool all_ended() const {
    return std::ranges::all_of(status, [](const std::optional<Status>& one) { return one.has_value(); });
  }
};

void end_rank(Run& run, int rank, Status status, int64_t timeout_ns) {
  const std::scoped_lock lock(run.mutex);
  const int64_t end_ns = monotonic_ns() + (status.ok() ? timeout_ns : std::min(timeout_ns, kGraceNs));
  run.end_ns = run.end_ns == 0 ? end_ns : std::min(run.end_ns, end_ns);
  run.status[static_cast<size_t>(rank)] = std::move(status);
  run.ended.notify_one();
}

}  // namespace

std::vector<std::unique_ptr<RankTransport>> connect_threads(int ranks) {
  CHECK(ranks > 0, "{} ranks", ranks);
  const auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::unique_ptr<RankTransport>> ends;
  for (int rank = 0; rank < ranks; ++rank) ends.push_back(std::make_unique<ThreadTransport>(hub, rank));
  return ends;
}

ThreadRanks run_on_threads(int ranks, int64_t timeout_ns, std::function<Status(Communicator&)> work) {
  const auto run = std::make_shared<Run>();
  run->status.resize(static_cast<size_t>(ranks));
  const auto shared = std::make_shared<std::function<Status(Communicator&)>>(std::move(work));
  for (std::unique_ptr<RankTransport>& end : connect_threads(ranks)) {
    auto communicator = std::make_unique<Communicator>(std::move(end), timeout_ns);
    std::thread([run, shared, timeout_ns, own = std::move(communicator)]() mutable {
      const int rank = own->rank();
      Status status = (*shared)(*own);
      own.reset();
      end_rank(*run, rank, std::move(status), timeout_ns);
    }).detach();
  }
  std::unique_lock lock(run->mutex);
  while (!run->all_ended()) {
    if (run->end_ns == 0) {
      run->ended.wait(lock);
    } else if (run->ended.wait_until(lock, time_of(run->end_ns)) == std::cv_status::timeout) {
      break;
    }
  }
  ThreadRanks told;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<Status>& status = run->status[static_cast<size_t>(rank)];
    if (!status) told.left_behind.push_back(rank);
    told.ended.push_back(status ? *status : make_error(ErrorCode::kTimeout, "rank {} hangs and was left behind", rank));
  }
  return told;
}

}  // namespace vernier
