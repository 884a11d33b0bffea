#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/request.h"

namespace vernier {

/// Hands the engine's news of one choice to `Owner::take(index, update)`, and keeps the owner alive until the last.
template <class Owner>
class ChoiceSink final : public RequestSink {
 public:
  ChoiceSink(std::shared_ptr<Owner> owner, size_t index) : owner_(std::move(owner)), index_(index) {}

  void deliver(RequestUpdate update) override {
    const bool last = update.last();
    owner_->take(index_, std::move(update));
    if (last) owner_.reset();
  }

 private:
  std::shared_ptr<Owner> owner_;
  size_t index_;
};

}  // namespace vernier
