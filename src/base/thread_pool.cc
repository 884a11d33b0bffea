#include "base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace vernier {
namespace {

constexpr uint64_t kClosed = 0xFFFFFFFFu;  // as the next chunk of a ticket: no loop is open
constexpr int kLoadsPerClock = 64;         // loads of the awaited word between two looks at the clock

// Before a thread that waits gives its core away. Longer than the gaps between the loops of one token.
constexpr int64_t kWorkerSpinNs = 300'000;
constexpr int64_t kCallerSpinNs = 60'000;
// An idle worker sleeps after this; waking it costs a system call and some 30 us.
constexpr int64_t kWorkerAwakeNs = 4'000'000;
// A worker that keeps the caller waiting this much longer than two chunks last has lost its core.
constexpr int64_t kStallNs = 200'000;
constexpr int64_t kFirstRestNs = 2'000'000;
constexpr int64_t kLongestRestNs = 64'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t next_chunk(uint64_t ticket) {
  return ticket & 0xFFFFFFFFu;
}

/// Spins until `ready()`, `spin_ns` at most. Loads are plain: a pause in a virtual machine can cost a microsecond.
template <class Ready>
bool spin(int64_t spin_ns, Ready ready) {
  int64_t start_ns = 0;
  while (true) {
    for (int i = 0; i < kLoadsPerClock; ++i) {
      if (ready()) return true;
    }
    int64_t now = now_ns();
    if (start_ns == 0) start_ns = now;
    if (now - start_ns >= spin_ns) return false;
  }
}

}  // namespace

int usable_cpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads) : ticket_(kClosed), slots_(static_cast<size_t>(std::max(threads, 1))) {
  CHECK(threads >= 1, "a pool needs at least one thread, not {}", threads);
  workers_.reserve(slots_.size() - 1);
  for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { serve(thread); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int chunks, Call call, void* context) {
  CHECK(!in_loop_.exchange(true, std::memory_order_acquire), "a loop was started inside a loop of the same pool");
  if (chunks <= 1 || workers_.empty()) {
    for (int chunk = 0; chunk < chunks; ++chunk) call(context, chunk, 0);
    in_loop_.store(false, std::memory_order_release);
    return;
  }
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  uint64_t epoch = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  // Sequentially consistent with the sleeper's count: either it sees the ticket or this sees the sleeper.
  ticket_.store(epoch << 32, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  int64_t start_ns = now_ns();
  int own = run_chunks(0);
  if (done_.load(std::memory_order_acquire) != chunks) {
    wait_for_others(chunks, (now_ns() - start_ns) / std::max(own, 1));
  }
  ticket_.store((epoch << 32) | kClosed, std::memory_order_release);
  in_loop_.store(false, std::memory_order_release);
}

int ThreadPool::run_chunks(int thread) {
  Slot& slot = slots_[static_cast<size_t>(thread)];
  int finished = 0;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (true) {
    Call call = call_.load(std::memory_order_relaxed);
    void* context = context_.load(std::memory_order_relaxed);
    uint64_t chunks = static_cast<uint64_t>(chunks_.load(std::memory_order_relaxed));
    if (next_chunk(ticket) >= chunks) break;
    if (finished == 0) slot.working.store(true, std::memory_order_relaxed);
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      // Another thread claimed it. The loop cannot have changed under a thread that owes chunks: they keep it open.
      continue;
    }
    call(context, static_cast<int>(next_chunk(ticket)), thread);
    ++finished;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  slot.working.store(false, std::memory_order_relaxed);
  if (finished > 0) done_.fetch_add(finished, std::memory_order_acq_rel);
  return finished;
}

void ThreadPool::wait_for_others(int chunks, int64_t own_chunk_ns) {
  auto all_done = [&] { return done_.load(std::memory_order_acquire) == chunks; };
  if (spin(kCallerSpinNs, all_done)) return;
  int64_t stalled_ns = now_ns() + kStallNs + 2 * own_chunk_ns;
  while (now_ns() < stalled_ns) {
    sched_yield();  // the thread awaited may want this very core
    if (all_done()) return;
  }
  for (size_t thread = 1; thread < slots_.size(); ++thread) {
    if (slots_[thread].working.load(std::memory_order_relaxed)) {
      slots_[thread].stalled.store(true, std::memory_order_relaxed);
    }
  }
  // An idle core makes the kernel look for a waiting thread, and the one it finds is ours.
  while (!all_done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void ThreadPool::serve(int thread) {
  Slot& slot = slots_[static_cast<size_t>(thread)];
  uint64_t idle_ticket = kClosed;
  while (wait_for_work(idle_ticket)) {
    idle_ticket = ticket_.load(std::memory_order_acquire);
    if (run_chunks(thread) > 0 && slot.stalled.exchange(false, std::memory_order_relaxed)) rest(slot);
  }
}

/// Waits until the ticket differs from `idle_ticket`; false when the pool is closing.
bool ThreadPool::wait_for_work(uint64_t idle_ticket) {
  auto changed = [&] { return ticket_.load(std::memory_order_acquire) != idle_ticket; };
  auto stopping = [&] { return stopping_.load(std::memory_order_relaxed); };
  if (spin(kWorkerSpinNs, [&] { return changed() || stopping(); })) return !stopping();
  int64_t sleep_ns = now_ns() + kWorkerAwakeNs;
  while (now_ns() < sleep_ns) {
    sched_yield();
    if (changed() || stopping()) return !stopping();
  }
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return ticket_.load(std::memory_order_seq_cst) != idle_ticket || stopping(); });
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return !stopping();
}

/// Leaves the loops to the others, longer each time that the last rest did not help.
void ThreadPool::rest(Slot& slot) {
  int64_t now = now_ns();
  bool again = slot.rest_ns > 0 && now - slot.rested_until_ns < 4 * slot.rest_ns;
  slot.rest_ns = again ? std::min(2 * slot.rest_ns, kLongestRestNs) : kFirstRestNs;
  slot.rested_until_ns = now + slot.rest_ns;
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::nanoseconds(slot.rest_ns),
                 [&] { return stopping_.load(std::memory_order_relaxed) || now_ns() >= slot.rested_until_ns; });
}

}  // namespace vernier
