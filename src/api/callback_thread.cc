#include "api/callback_thread.h"

#include <utility>

namespace vernier {

thread_local const CallbackThread::Queue* CallbackThread::current = nullptr;

CallbackThread::CallbackThread() : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { run(*queue); }) {}

CallbackThread::~CallbackThread() {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->stop = true;
  }
  queue_->filled.notify_one();
  if (runs_here(queue_)) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void CallbackThread::post(std::function<void()> task) {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(std::move(task));
  }
  queue_->filled.notify_one();
}

bool CallbackThread::runs_here(const std::shared_ptr<const void>& name) {
  return current != nullptr && current == name.get();
}

void CallbackThread::run(Queue& queue) {
  current = &queue;
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      std::unique_lock lock(queue.mutex);
      queue.filled.wait(lock, [&] { return queue.stop || !queue.tasks.empty(); });
      if (queue.tasks.empty()) return;
      std::swap(tasks, queue.tasks);
    }
    for (std::function<void()>& task : tasks) {
      task();
      task = nullptr;  // what it holds is let go before the next one runs
    }
    tasks.clear();
  }
}

}  // namespace vernier
