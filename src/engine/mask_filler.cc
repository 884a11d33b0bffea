#include "engine/mask_filler.h"

#include <algorithm>
#include <utility>

namespace vernier {
namespace {

// Some tens of milliseconds each: no step is held up much longer by costly grammars, however many run. The floor is
// what an ordinary mask takes.
constexpr int64_t kSharedWorkOfStep = 1'000'000;
constexpr int64_t kOwnWorkOfStep = 1'000'000;
constexpr int64_t kLeastOwnWork = 10'000;

}  // namespace

MaskFiller::MaskFiller() : thread_([this] { run(); }) {}

MaskFiller::~MaskFiller() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MaskFiller::start(std::vector<Job> jobs) {
  {
    std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
    next_ = 0;
    left_ = jobs_.size();
    const int64_t each = kOwnWorkOfStep / std::max<int64_t>(1, static_cast<int64_t>(left_));
    shared_.refill(kSharedWorkOfStep, std::clamp(each, kLeastOwnWork, SharedWork::kMostOwn));
  }
  changed_.notify_all();
}

void MaskFiller::wait() {
  std::unique_lock lock(mutex_);
  fill_waiting(lock);
  changed_.wait(lock, [this] { return left_ == 0; });
}

void MaskFiller::fill_waiting(std::unique_lock<std::mutex>& lock) {
  while (next_ < jobs_.size()) {
    const Job job = jobs_[next_++];
    lock.unlock();
    *job.filled = job.matcher->fill_mask(job.mask, &shared_);
    if (!job.filled->ok()) std::ranges::fill(job.mask, 0U);
    lock.lock();
    if (--left_ == 0) changed_.notify_all();
  }
}

void MaskFiller::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || next_ < jobs_.size(); });
    if (stop_) return;
    fill_waiting(lock);
  }
}

}  // namespace vernier
