#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_matcher.h"

namespace vernier {

/// Fills grammars' masks on a thread of its own while the forward pass runs. Between `start` and `wait` nobody else
/// touches the matchers and the masks.
class MaskFiller {
 public:
  struct Job {
    GrammarMatcher* matcher = nullptr;
    std::span<uint32_t> mask;
  };

  MaskFiller();
  ~MaskFiller();

  void start(std::vector<Job> jobs);
  /// Returns once all are filled, with the first failure if there was one. Does nothing if nothing was started.
  Status wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  bool filling_ = false;
  bool stop_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace vernier
