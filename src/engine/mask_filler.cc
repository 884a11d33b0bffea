#include "engine/mask_filler.h"

#include <utility>

namespace vernier {

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
    filling_ = true;
    failure_ = {};
  }
  changed_.notify_all();
}

Status MaskFiller::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !filling_; });
  return std::exchange(failure_, {});
}

void MaskFiller::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || filling_; });
    if (stop_) return;
    lock.unlock();
    Status failure;
    for (Job& job : jobs_) {
      Status filled = job.matcher->fill_mask(job.mask);
      if (!filled.ok()) failure = filled;
    }
    lock.lock();
    failure_ = failure;
    filling_ = false;
    changed_.notify_all();
  }
}

}  // namespace vernier
