#include "comm/mpi_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/mpi_library.h"

namespace vernier {
namespace {

constexpr int kTag = 7;
/// MPI tells nobody that something came: it is asked again and again, less often the longer nothing does.
constexpr int64_t kLeastPauseNs = 20'000;
constexpr int64_t kMostPauseNs = 500'000;
/// What was sent has so long to leave, and the others so long to come to the end, which MPI makes all meet at.
constexpr int64_t kMessagesLeaveNs = 1'000'000'000;
constexpr int64_t kFinalizeNs = 5'000'000'000;

std::string said_by(const MpiLibrary& mpi, int error) {
  return fmt::format("MPI says: {}", mpi.error_text(error));
}

/// MPI from its begin to its end, on a thread of its own, because both wait for the other ranks and cannot be told to
/// stop: that thread is left where it hangs.
class MpiLife {
 public:
  static Result<std::unique_ptr<MpiLife>> begin(int64_t timeout_ns) {
    TRY_BIND(const MpiLibrary mpi, MpiLibrary::open());
    std::unique_ptr<MpiLife> life(new MpiLife(mpi));
    std::thread([shared = life->shared_, mpi] { live(*shared, mpi); }).detach();
    if (!life->wait_for(State::kBegun, timeout_ns)) {
      return make_error(ErrorCode::kTimeout, "not all ranks of mpirun came to MPI_Init within {}",
                        format_duration(timeout_ns));
    }
    if (life->shared_->error != 0) return make_error(ErrorCode::kInternal, "{}", said_by(mpi, life->shared_->error));
    return life;
  }
  ~MpiLife() {
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->is_over = true;
    }
    shared_->changed.notify_all();
    wait_for(State::kEnded, kFinalizeNs);
  }

  const MpiLibrary& mpi() const { return mpi_; }

 private:
  enum class State : uint8_t { kNew, kBegun, kEnded };
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    State state = State::kNew;
    bool is_over = false;
    int error = 0;
  };

  explicit MpiLife(const MpiLibrary& mpi) : mpi_(mpi), shared_(std::make_shared<Shared>()) {}

  static void live(Shared& shared, const MpiLibrary& mpi) {
    int provided = 0;
    const int error = mpi.init_thread(nullptr, nullptr, MpiLibrary::kSerialized, &provided);
    std::unique_lock lock(shared.mutex);
    shared.error = error;
    shared.state = State::kBegun;
    shared.changed.notify_all();
    shared.changed.wait(lock, [&] { return shared.is_over; });
    lock.unlock();
    if (error == 0) mpi.finalize();
    lock.lock();
    shared.state = State::kEnded;
    shared.changed.notify_all();
  }

  bool wait_for(State state, int64_t timeout_ns) {
    std::unique_lock lock(shared_->mutex);
    return shared_->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                     [&] { return shared_->state >= state; });
  }

  MpiLibrary mpi_;
  std::shared_ptr<Shared> shared_;
};

class MpiTransport final : public RankTransport {
 public:
  MpiTransport(std::unique_ptr<MpiLife> life, int rank, int size)
      : life_(std::move(life)), rank_(rank), coming_(static_cast<size_t>(size)) {}
  ~MpiTransport() override { flush(monotonic_ns() + kMessagesLeaveNs); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(coming_.size()); }
  void send(int to, const std::string& frame) override;
  std::optional<RankNews> receive(int64_t deadline_ns) override;
  bool flush(int64_t deadline_ns) override;

 private:
  /// A message under way, its bytes where MPI was told that they are.
  struct Message {
    std::string bytes;
    MpiLibrary::Request request = nullptr;
    int rank = 0;
    bool is_broken = false;
  };
  const MpiLibrary& mpi() const { return life_->mpi(); }
  bool is_done(Message& message);
  void drop(int rank, int error);
  void look_for_messages();
  void carry_on();
  /// Until `done` or the deadline; whether it is.
  template <class Done>
  bool wait_until(Done done, int64_t deadline_ns);

  std::unique_ptr<MpiLife> life_;
  int rank_;
  std::list<Message> going_;
  std::vector<std::list<Message>> coming_;  // by rank
  std::deque<RankNews> news_;
};

void MpiTransport::send(int to, const std::string& frame) {
  Message& message = going_.emplace_back();
  message.bytes = frame;
  message.rank = to;
  const int error = mpi().isend(message.bytes.data(), static_cast<int>(message.bytes.size()), mpi().byte, to, kTag,
                                mpi().world, &message.request);
  if (error == 0) return;
  going_.pop_back();
  drop(to, error);
}

void MpiTransport::drop(int rank, int error) {
  news_.push_back({rank, true, said_by(mpi(), error)});
}

bool MpiTransport::is_done(Message& message) {
  int flag = 0;
  const int error = mpi().test(&message.request, &flag, nullptr);
  if (error == 0) return flag != 0;
  drop(message.rank, error);
  message.is_broken = true;
  return true;
}

/// Begins to receive what others have sent.
void MpiTransport::look_for_messages() {
  while (true) {
    int flag = 0, count = 0;
    MpiLibrary::Handle matched = nullptr;
    MpiLibrary::Status status;
    const int error = mpi().improbe(MpiLibrary::kAnySource, kTag, mpi().world, &flag, &matched, &status);
    if (error != 0 || flag == 0) return;
    mpi().get_count(&status, mpi().byte, &count);
    Message& message = coming_[static_cast<size_t>(status.source)].emplace_back();
    message.rank = status.source;
    message.bytes.resize(static_cast<size_t>(std::max(count, 0)));
    const int refused = mpi().imrecv(message.bytes.data(), count, mpi().byte, &matched, &message.request);
    if (refused == 0) continue;
    coming_[static_cast<size_t>(status.source)].pop_back();
    drop(status.source, refused);
  }
}

void MpiTransport::carry_on() {
  look_for_messages();
  for (std::list<Message>& of_rank : coming_) {
    while (!of_rank.empty() && is_done(of_rank.front())) {
      Message& first = of_rank.front();
      if (!first.is_broken) news_.push_back({first.rank, false, std::move(first.bytes)});
      of_rank.pop_front();
    }
  }
  std::erase_if(going_, [this](Message& message) { return is_done(message); });
}

template <class Done>
bool MpiTransport::wait_until(Done done, int64_t deadline_ns) {
  int64_t pause_ns = kLeastPauseNs;
  while (true) {
    carry_on();
    if (done()) return true;
    if (monotonic_ns() >= deadline_ns) return false;
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
    pause_ns = std::min(2 * pause_ns, kMostPauseNs);
  }
}

std::optional<RankNews> MpiTransport::receive(int64_t deadline_ns) {
  if (!wait_until([this] { return !news_.empty(); }, deadline_ns)) return std::nullopt;
  RankNews news = std::move(news_.front());
  news_.pop_front();
  return news;
}

bool MpiTransport::flush(int64_t deadline_ns) {
  return wait_until([this] { return going_.empty(); }, deadline_ns);
}

}  // namespace

Result<std::unique_ptr<RankTransport>> join_mpi(int64_t timeout_ns) {
  TRY_BIND(std::unique_ptr<MpiLife> life, MpiLife::begin(timeout_ns));
  const MpiLibrary& mpi = life->mpi();
  // An error is this program's to tell, and ends nobody at once.
  mpi.comm_set_errhandler(mpi.world, mpi.errors_return);
  int rank = 0, size = 0;
  for (const int error : {mpi.comm_rank(mpi.world, &rank), mpi.comm_size(mpi.world, &size)}) {
    if (error != 0) return make_error(ErrorCode::kInternal, "{}", said_by(mpi, error));
  }
  return std::unique_ptr<RankTransport>(std::make_unique<MpiTransport>(std::move(life), rank, size));
}

}  // namespace vernier
