#include "server/request_feed.h"

#include <algorithm>

namespace vernier {

void RequestFeed::hold(std::vector<Request> requests) {
  requests_ = std::move(requests);
  ids_.reserve(requests_.size());
}

Status RequestFeed::submit(const MakeSink& sink) {
  const auto slots = static_cast<size_t>(engine_.options().max_sequences);
  const size_t most = slots + (slots + 1) / 2;
  while (ids_.size() < requests_.size() && inside_ < most) {
    const size_t index = ids_.size();
    // Taken only if it goes in: a refused one is tried again.
    Request request = requests_[index];
    request.keeps_place = index > 0 && inside_ == 0;
    auto id = engine_.submit(std::move(request), sink(index));
    if (!id.ok()) {
      const bool later = id.error().code == ErrorCode::kOverloaded || id.error().code == ErrorCode::kUnavailable;
      if (later && inside_ > 0) return {};
      return id.error();
    }
    requests_[index] = {};
    ids_.emplace_back(*id);
    ++inside_;
  }
  return {};
}

void RequestFeed::ended(size_t index) {
  if (!std::exchange(ids_[index], std::nullopt)) return;
  --inside_;
}

void RequestFeed::cancel(size_t index) {
  if (ids_[index]) engine_.cancel(*ids_[index]);
}

void RequestFeed::cancel_all() {
  requests_.clear();
  for (const std::optional<RequestId>& id : ids_) {
    if (id) engine_.cancel(*id);
  }
}

}  // namespace vernier
