#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vernier {

/// Threads that run routes, first come first served, with a bounded queue.
class RouteWorkers {
 public:
  RouteWorkers(int threads, size_t max_waiting);
  /// Ends after the tasks that run; those that wait are dropped.
  ~RouteWorkers();
  RouteWorkers(const RouteWorkers&) = delete;
  RouteWorkers& operator=(const RouteWorkers&) = delete;

  /// False if the queue is full or ends. A task must not throw.
  bool submit(std::function<void()> task);

 private:
  void run();

  size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace vernier
