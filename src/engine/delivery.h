#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/request.h"

namespace vernier {

/// Hands updates to their sinks from a thread of its own, in the order they were put, so that no sink's code runs on
/// the engine thread. What was put before destruction is still delivered.
class Delivery {
 public:
  struct Item {
    std::shared_ptr<RequestSink> sink;
    RequestUpdate update;
  };

  Delivery();
  ~Delivery();

  /// For the engine thread: gathers, until `flush` hands all over at once.
  void put(const std::shared_ptr<RequestSink>& sink, RequestUpdate update);
  void flush();

 private:
  void run();

  std::vector<Item> gathered_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Item> handed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace vernier
