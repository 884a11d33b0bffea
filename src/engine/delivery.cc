#include "engine/delivery.h"

#include <iterator>
#include <utility>

namespace vernier {

Delivery::Delivery() : thread_([this] { run(); }) {}

Delivery::~Delivery() {
  flush();
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void Delivery::put(const std::shared_ptr<RequestSink>& sink, RequestUpdate update) {
  gathered_.push_back({sink, std::move(update)});
}

void Delivery::flush() {
  if (gathered_.empty()) return;
  {
    std::lock_guard lock(mutex_);
    if (handed_.empty()) {
      std::swap(handed_, gathered_);
    } else {
      std::move(gathered_.begin(), gathered_.end(), std::back_inserter(handed_));
      gathered_.clear();
    }
  }
  filled_.notify_one();
}

void Delivery::run() {
  std::vector<Item> items;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [this] { return stop_ || !handed_.empty(); });
      if (handed_.empty()) return;
      std::swap(items, handed_);
    }
    for (Item& item : items) item.sink->deliver(std::move(item.update));
    items.clear();
  }
}

}  // namespace vernier
