#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "server/served_model.h"

namespace vernier {

/// A served model that may be closed while others use it. Nobody else owns it, so the thread that closes it is the one
/// that ends the engine's threads.
class OpenModel {
 public:
  explicit OpenModel(std::shared_ptr<const ServedModel> model) : model_(std::move(model)) {}
  ~OpenModel() { close(); }
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  /// What `work`, which returns a Result, makes of the model; kUnavailable once it is closed. Work must not nest, keep
  /// what it is given, or wait for a request.
  template <class Work>
  auto use(Work work) -> decltype(work(std::declval<const ServedModel&>())) {
    std::shared_lock lock(mutex_);
    if (model_ == nullptr) return make_error(ErrorCode::kUnavailable, "the engine is closed");
    return work(*model_);
  }

  /// Waits for work under way. Its requests end as cancelled before this returns. Not on a thread of the engine.
  void close() {
    std::shared_ptr<const ServedModel> model;
    {
      std::unique_lock lock(mutex_);
      std::swap(model, model_);
    }
  }

 private:
  std::shared_mutex mutex_;
  std::shared_ptr<const ServedModel> model_;
};

}  // namespace vernier
