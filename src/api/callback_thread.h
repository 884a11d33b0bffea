#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vernier {

/// Runs a user's callbacks, in the order they were posted, on a thread of its own: never on one that others wait for,
/// so that a callback may close what called it.
class CallbackThread {
 public:
  CallbackThread();
  /// What was posted still runs: before this returns, or, where one of the tasks is what ends it, after that task.
  ~CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  /// Any thread. The task must not throw.
  void post(std::function<void()> task);
  /// Names it for as long as it is held, also when it has ended.
  std::shared_ptr<const void> name() const { return queue_; }
  /// Whether one of its tasks runs now, on this thread.
  static bool runs_here(const std::shared_ptr<const void>& name);

 private:
  /// Outlives the CallbackThread where a task ends it.
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::vector<std::function<void()>> tasks;
    bool stop = false;
  };
  static void run(Queue& queue);
  static thread_local const Queue* current;

  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace vernier
