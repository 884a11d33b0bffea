#include "backends/cuda/launch_queue.h"

#include <algorithm>

namespace vernier {

LaunchQueue::~LaunchQueue() {
  for (const auto& known : known_) {
    for (Piece& piece : known->pieces) forget(piece);
  }
}

void LaunchQueue::forget(Piece& piece) {
  if (piece.graph != nullptr) {
    (void)cuda::wait(device_.stream());
    cuda::destroy_graph(piece.graph);
  }
  piece.graph = nullptr;
  piece.refused = false;
}

/// The steps of this kind, or a place for them in that of the kind not met for longest.
LaunchQueue::Known& LaunchQueue::find(StepKind kind) {
  auto it = std::ranges::find_if(known_, [&](const auto& known) { return known->kind == kind; });
  if (it != known_.end()) return **it;
  if (known_.size() < kMostKinds) {
    known_.push_back(std::make_unique<Known>());
    it = known_.end() - 1;
  } else {
    it = std::ranges::min_element(known_, {}, [](const auto& known) { return known->last_used; });
    for (Piece& piece : (*it)->pieces) forget(piece);
    (*it)->pieces.clear();
  }
  (*it)->kind = std::move(kind);
  return **it;
}

void LaunchQueue::begin(std::optional<StepKind> kind) {
  first_.reset();
  now_ = nullptr;
  following_ = false;
  piece_ = place_ = 0;
  if (!kind) return;
  now_ = &find(*std::move(kind));
  now_->last_used = ++steps_;
  following_ = !now_->pieces.empty();
}

LaunchQueue::Piece& LaunchQueue::piece() {
  if (piece_ == now_->pieces.size()) now_->pieces.emplace_back();
  return now_->pieces[piece_];
}

void LaunchQueue::run_now(const Kept& call) {
  if (failed()) return;
  ++launches_;
  if (const cuda::LaunchCode code = call.run(); code != cuda::kLaunched) fail(device_error(call.what(), code));
}

void LaunchQueue::keep(std::unique_ptr<Kept> call) {
  run_now(*call);
  if (now_ == nullptr) return;
  piece().launches.push_back(std::move(call));
  if (++place_ == room()) end_piece();
}

/// What waits is launched as it is; from here on the step is another than it was.
void LaunchQueue::run_waiting() {
  Piece& waiting = piece();
  for (size_t i = 0; i < place_; ++i) run_now(*waiting.launches[i]);
  for (size_t i = piece_; i < now_->pieces.size(); ++i) forget(now_->pieces[i]);
  waiting.launches.resize(place_);
  now_->pieces.resize(piece_ + 1);
  following_ = false;
}

void LaunchQueue::end_piece() {
  ++piece_;
  place_ = 0;
  following_ = piece_ < now_->pieces.size();
}

bool LaunchQueue::capture(Piece& piece) {
  if (cuda::begin_capture(device_.stream()) != cuda::kLaunched) return false;
  cuda::LaunchCode code = cuda::kLaunched;
  for (const auto& call : piece.launches) {
    code = call->run();
    if (code != cuda::kLaunched) break;
  }
  // A capture that failed must be ended all the same; the launches then tell what is wrong.
  const cuda::LaunchCode ended = cuda::end_capture(device_.stream(), &piece.graph);
  if (code == cuda::kLaunched && ended == cuda::kLaunched) return true;
  if (piece.graph != nullptr) cuda::destroy_graph(piece.graph);
  piece.graph = nullptr;
  return false;
}

void LaunchQueue::send_piece() {
  Piece& piece = this->piece();
  if (piece.graph == nullptr && !piece.refused) piece.refused = !capture(piece);
  if (piece.graph != nullptr) {
    ++graphs_;
    if (const cuda::LaunchCode code = cuda::launch_graph(piece.graph, device_.stream()); code != cuda::kLaunched) {
      fail(device_error(piece.launches.front()->what(), code));
    }
  } else {
    for (const auto& call : piece.launches) run_now(*call);
  }
  end_piece();
}

void LaunchQueue::send() {
  if (now_ == nullptr || place_ == 0) return;
  if (following_) run_waiting();
  end_piece();
}

Status LaunchQueue::finish() {
  send();
  TRY_STATUS(status());
  if (const cuda::LaunchCode code = cuda::wait(device_.stream()); code != cuda::kLaunched) {
    return device_error("a step", code);
  }
  return {};
}

std::byte* DeviceScratch::reserve_bytes(CudaDevice& device, LaunchQueue& queue, int64_t bytes, std::string_view what) {
  if (bytes > buffer_.bytes() || buffer_.data() == nullptr) {
    queue.send();  // what waits may name the memory that is given back
    buffer_ = {};
    Result<DeviceBuffer> larger = device.take(bytes, what);
    if (!larger.ok()) {
      queue.fail(std::move(larger).error());
      return nullptr;
    }
    buffer_ = std::move(larger).value();
  }
  return buffer_.data();
}

}  // namespace vernier
