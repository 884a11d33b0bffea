#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.h"

namespace vernier {

/// How a step looks from afar: steps of one kind are expected to launch the same. A guess, never trusted.
struct StepKind {
  std::vector<int64_t> numbers;
  friend bool operator==(const StepKind&, const StepKind&) = default;
};

/// What a step launches, in order, and its first failure: ops cannot fail, so the step's end tells it, and what comes
/// between does nothing.
///
/// A step of a kind is kept as it is launched. When one of its kind comes again, each launch is compared with the one
/// that stood at its place, argument by argument, and waits; a piece in which none differed is one graph. Where one
/// differs, those that wait are launched as they are, and what follows is kept anew. So a graph does what its launches
/// would do, and whatever changes from step to step lies in device memory. One thread.
class LaunchQueue {
 public:
  explicit LaunchQueue(CudaDevice& device) : device_(device) {}
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;

  /// Forgets the last step's failure. No kind: each launch goes at once.
  void begin(std::optional<StepKind> kind);
  /// Of a function of the border, whose last argument is the stream.
  template <class... Params, class... Args>
  void launch(std::string_view what, cuda::LaunchCode (*function)(Params...), const Args&... args);
  /// What waits goes now: before memory is given back or written by other means, and before a result is waited for.
  void send();
  /// All that was launched has run, or the error says what failed first.
  Status finish();

  bool failed() const { return first_.has_value(); }
  void fail(Error error) {
    if (!first_) first_ = std::move(error);
  }
  void note(Status status) {
    if (!status.ok()) fail(std::move(status).error());
  }
  Status status() const { return first_ ? Status(*first_) : Status(); }

  /// For tests and reports.
  int64_t launches() const { return launches_; }
  int64_t graphs() const { return graphs_; }

 private:
  class Kept {
   public:
    using Function = void (*)();
    Kept(std::string_view what, Function function) : what_(what), function_(function) {}
    virtual ~Kept() = default;
    virtual cuda::LaunchCode run() const = 0;
    std::string_view what() const { return what_; }
    Function function() const { return function_; }

   private:
    std::string_view what_;  // a literal
    Function function_;
  };

  template <class... Params>
  class KeptCall final : public Kept {
   public:
    using Function = cuda::LaunchCode (*)(Params...);
    template <class... Args>
    KeptCall(std::string_view what, Function function, const Args&... args)
        : Kept(what, reinterpret_cast<Kept::Function>(function)), arguments_(args...) {}
    cuda::LaunchCode run() const override { return std::apply(reinterpret_cast<Function>(function()), arguments_); }
    const std::tuple<std::decay_t<Params>...>& arguments() const { return arguments_; }

   private:
    std::tuple<std::decay_t<Params>...> arguments_;
  };

  /// Neighbours that are one graph, once they were met twice.
  struct Piece {
    std::vector<std::unique_ptr<Kept>> launches;
    cuda::Graph graph = nullptr;
    bool refused = false;  // the driver makes no graph of it
  };
  struct Known {
    StepKind kind;
    std::vector<Piece> pieces;
    int64_t last_used = 0;
  };

  /// A step's first piece is short, so that the device begins while the rest is looked at.
  static constexpr size_t kFirstPiece = 16, kOtherPiece = 4096;
  static constexpr size_t kMostKinds = 64;

  Known& find(StepKind kind);
  size_t room() const { return piece_ == 0 ? kFirstPiece : kOtherPiece; }
  Piece& piece();
  void keep(std::unique_ptr<Kept> call);
  void run_now(const Kept& call);
  void run_waiting();
  void send_piece();
  void end_piece();
  void forget(Piece& piece);
  bool capture(Piece& piece);

  CudaDevice& device_;
  std::optional<Error> first_;
  std::vector<std::unique_ptr<Known>> known_;
  Known* now_ = nullptr;  // the step's kind; null: nothing is kept
  size_t piece_ = 0;      // which comes next
  size_t place_ = 0;      // of it; where `following_`, so many wait
  bool following_ = false;
  int64_t steps_ = 0, launches_ = 0, graphs_ = 0;
};

template <class... Params, class... Args>
void LaunchQueue::launch(std::string_view what, cuda::LaunchCode (*function)(Params...), const Args&... args) {
  using Call = KeptCall<Params...>;
  if (failed()) return;
  if (following_) {
    Piece& expected = piece();
    if (place_ < expected.launches.size()) {
      const Kept& kept = *expected.launches[place_];
      // One function, one type.
      if (kept.function() == reinterpret_cast<Kept::Function>(function) &&
          static_cast<const Call&>(kept).arguments() ==
              std::tuple<const Args&..., cuda::Stream>(args..., device_.stream())) {
        if (++place_ == expected.launches.size()) send_piece();
        return;
      }
    }
    run_waiting();
    if (failed()) return;
  }
  keep(std::make_unique<Call>(what, function, args..., device_.stream()));
}

/// Scratch that grows to the largest size asked for. What it held is lost when it grows.
class DeviceScratch {
 public:
  /// Null, and the queue says why, where there is no more memory.
  template <class T>
  T* reserve(CudaDevice& device, LaunchQueue& queue, int64_t count, std::string_view what) {
    return reinterpret_cast<T*>(reserve_bytes(device, queue, count * static_cast<int64_t>(sizeof(T)), what));
  }
  /// The same, of zeros when it is new; kernels leave zeros behind.
  template <class T>
  T* reserve_zeros(CudaDevice& device, LaunchQueue& queue, int64_t count, std::string_view what) {
    const auto bytes = count * static_cast<int64_t>(sizeof(T));
    const bool grows = bytes > buffer_.bytes() || buffer_.data() == nullptr;
    std::byte* at = reserve_bytes(device, queue, bytes, what);
    if (grows && at != nullptr) queue.note(device.fill(at, 0, buffer_.bytes()));
    return reinterpret_cast<T*>(at);
  }

 private:
  std::byte* reserve_bytes(CudaDevice& device, LaunchQueue& queue, int64_t bytes, std::string_view what);

  DeviceBuffer buffer_;
};

}  // namespace vernier
