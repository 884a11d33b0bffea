#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace vernier {

/// CPUs this process may run on; at least 1.
int usable_cpus();

/// A fixed set of threads that share loops. Hands work over by spinning (about 0.2 us), so that hundreds of loops a
/// token cost nothing; a thread yields its core after a bounded spin and sleeps after a long idle time.
///
/// Owns `threads() - 1` threads; the caller is thread 0 and takes part. Chunks are claimed one at a time, so a thread
/// that lost its core delays a loop by the one chunk it holds at most. A thread found to hold a loop up that way rests
/// for a while, so that a busy neighbour on one core costs little more than that core. One loop at a time, from one
/// thread at a time; a loop inside a loop is refused by CHECK. Allocates nothing after construction.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(slots_.size()); }

  /// Calls fn(chunk) or fn(chunk, thread) once for each chunk of 0..chunks-1, in any order, thread in 0..threads()-1.
  /// What the calls wrote is visible when it returns. `fn` must not throw.
  template <class Fn>
  void parallel_for(int chunks, Fn&& fn) {
    using Body = std::remove_reference_t<Fn>;
    run(
        chunks,
        [](void* context, int chunk, int thread) {
          Body& body = *static_cast<Body*>(context);
          if constexpr (std::is_invocable_v<Body&, int, int>) {
            body(chunk, thread);
          } else {
            body(chunk);
          }
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using Call = void (*)(void* context, int chunk, int thread);

  /// What the caller and one thread tell each other; a cache line apart from its neighbours.
  struct alignas(64) Slot {
    std::atomic<bool> working{false};  // between claiming a first chunk and reporting the last
    std::atomic<bool> stalled{false};  // set by a caller that waited too long for this thread
    int64_t rest_ns = 0;               // the last rest; the thread's own
    int64_t rested_until_ns = 0;
  };

  void run(int chunks, Call call, void* context);
  int run_chunks(int thread);
  void wait_for_others(int chunks, int64_t own_chunk_ns);
  void serve(int thread);
  bool wait_for_work(uint64_t idle_ticket);
  void rest(Slot& slot);

  // The open loop. The ticket is (epoch << 32 | next chunk); the other fields change only while it is closed, so a
  // claim that succeeds proves that what was read belongs to it.
  alignas(64) std::atomic<uint64_t> ticket_;
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> chunks_{0};
  alignas(64) std::atomic<int> done_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> in_loop_{false};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // for sleeping only
  std::condition_variable wake_;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
};

}  // namespace vernier
