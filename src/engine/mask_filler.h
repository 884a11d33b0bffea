#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_matcher.h"

namespace vernier {

/// Fills grammars' masks on a thread of its own while the forward pass runs; `wait` fills what the thread has not
/// begun, so that a step never waits for a thread that the machine has no core for. Between `start` and `wait` nobody
/// else touches the matchers and the masks.
class MaskFiller {
 public:
  struct Job {
    GrammarMatcher* matcher = nullptr;
    std::span<uint32_t> mask;
    Status* filled = nullptr;  ///< where the outcome goes; after a failure the mask allows nothing
  };

  MaskFiller();
  ~MaskFiller();

  void start(std::vector<Job> jobs);
  /// Returns once all are filled or have failed. Does nothing if nothing was started.
  void wait();
  /// Of the step that was started last: the masks draw on it, and so may the tokens.
  SharedWork& shared_work() { return shared_; }

 private:
  void run();
  void fill_waiting(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  size_t next_ = 0;  // the first job that nobody has begun
  size_t left_ = 0;  // jobs that are not done
  bool stop_ = false;
  SharedWork shared_{0};
  std::thread thread_;
};

}  // namespace vernier
