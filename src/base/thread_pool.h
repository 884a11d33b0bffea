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
/// token cost nothing; an idle thread sleeps after a bounded spin.
///
/// Owns `threads() - 1` threads; the caller is thread 0 and takes part. A thread starts with its own run of
/// neighbouring chunks, so that it reads memory as one stream, and then takes what others have left from the far end of
/// theirs. Chunks are claimed one at a time, so a thread that lost its core delays a loop by the one chunk it holds at
/// most. A thread found to hold a loop up that way finishes that chunk on the caller's core and rests for a while, so
/// that a busy neighbour on one core costs little more than that core. One loop at a time, from one thread at a time; a
/// loop inside a loop is refused by CHECK. Allocates nothing after construction.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(slots_.size()); }

  /// The first chunk of a thread's own run of `chunks`.
  int64_t first_chunk(int64_t chunks, int thread) const { return chunks * thread / threads(); }

  /// Memory that the thread will read after the loop that is opened next: it fetches up to kAheadBytes of it into its
  /// cache while it has nothing else to do. Null for none. Any address is harmless.
  void read_ahead(int thread, const void* from) {
    slots_[static_cast<size_t>(thread)].ahead.store(static_cast<const char*>(from), std::memory_order_relaxed);
  }
  static constexpr int64_t kAheadBytes = 64 << 10;

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

  /// What the caller and one thread tell each other; cache lines apart from its neighbours.
  struct alignas(64) Slot {
    /// The open part of this thread's run: epoch << 32 | first chunk << 16 | end. The loop's other fields change only
    /// while every run is empty, so a claim that succeeds proves that what was read belongs to it.
    std::atomic<uint64_t> run{0};
    std::atomic<bool> working{false};  // between claiming a first chunk and reporting the last
    std::atomic<bool> resting{false};  // has lost its core lately and leaves the loops to the others
    std::atomic<bool> stalled{false};  // set by a caller that waited too long for this thread
    std::atomic<const char*> ahead{nullptr};
    alignas(64) const char* fetched_from = nullptr;  // the thread's own, like what follows
    int64_t fetched_bytes = 0;
    int64_t rest_ns = 0;
    int64_t rested_until_ns = 0;
  };

  void run(int chunks, Call call, void* context);
  void run_part(int first, int chunks, Call call, void* context);
  void deal(int chunks, uint32_t epoch);
  int run_chunks(int thread, uint32_t epoch);
  bool run_one(Slot& from, bool own, int thread, uint32_t epoch);
  void wait_for_others(int chunks, int64_t own_chunk_ns);
  void finish_stalled(int chunks);
  void serve(int thread);
  bool wait_for_work(Slot& slot, uint32_t idle_epoch);
  void rest(Slot& slot);
  int note_caller();
  void leave_caller();
  static void fetch_ahead(Slot& slot);

  alignas(64) std::atomic<uint32_t> epoch_{0};  // of the loop opened last
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> first_{0};  // added to each chunk's number
  alignas(64) std::atomic<int> done_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int> caller_cpu_{-1};  // where the caller last woke a thread or waited for one that lost its core
  std::atomic<bool> in_loop_{false};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // for sleeping only
  std::condition_variable wake_;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
};

}  // namespace vernier
