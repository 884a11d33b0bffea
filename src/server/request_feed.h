#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"

namespace vernier {

/// The engine requests of one API request. They go into the engine a few at a time, as many as run at once and half as
/// many that wait: so their number is bounded by no queue, and others find a place beside them. A full queue refuses
/// the first or none; what it has no room for stays here until one of them ends. Its owner locks.
class RequestFeed {
 public:
  using MakeSink = std::function<std::shared_ptr<RequestSink>(size_t index)>;

  explicit RequestFeed(Engine& engine) : engine_(engine) {}

  void hold(std::vector<Request> requests);
  /// Submits what may go in now, in order. Fails where the first is refused, or one that could never run.
  Status submit(const MakeSink& sink);
  bool idle() const { return inside_ == 0; }
  /// The engine is done with this one; `submit` again.
  void ended(size_t index);
  void cancel(size_t index);
  /// Cancels those in the engine and forgets the rest.
  void cancel_all();

 private:
  Engine& engine_;
  std::vector<Request> requests_;
  std::vector<std::optional<RequestId>> ids_;  // [submitted], none once ended
  size_t inside_ = 0;                          // in the engine now
};

}  // namespace vernier
