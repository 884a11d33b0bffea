#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/check.h"

namespace vernier {
namespace {

constexpr int kLoadsPerClock = 64;       // loads of the awaited word between two looks at the clock
constexpr int kMostChunks = 0xFFFF;      // of one loop: what a run can count
constexpr uint64_t kOneTaken = 1 << 16;  // added to a run by its thread, which takes the first chunk

// Before a worker that waits sleeps; waking it costs a system call and some 30 us. Longer than the gaps between the
// loops of one token. No longer: a caller that shares its core with a neighbour is moved only to a core that is idle.
constexpr int64_t kWorkerSpinNs = 300'000;
// A worker that keeps the caller waiting this much longer than two chunks last has lost its core.
constexpr int64_t kStallNs = 100'000;
constexpr int64_t kFirstRestNs = 2'000'000;
constexpr int64_t kLongestRestNs = 64'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t make_run(uint32_t epoch, int64_t first, int64_t end) {
  return uint64_t{epoch} << 32 | static_cast<uint64_t>(first) << 16 | static_cast<uint64_t>(end);
}
uint32_t epoch_of(uint64_t run) {
  return static_cast<uint32_t>(run >> 32);
}
int first_of(uint64_t run) {
  return static_cast<int>(run >> 16 & 0xFFFF);
}
int end_of(uint64_t run) {
  return static_cast<int>(run & 0xFFFF);
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

#ifdef __linux__
/// Moves a thread to a core that `allow` picks from those it may use, and leaves it free to be moved on.
template <class Allow>
void move_thread(pthread_t thread, Allow allow) {
  cpu_set_t usable, wanted;
  if (pthread_getaffinity_np(thread, sizeof usable, &usable) != 0) return;
  CPU_ZERO(&wanted);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable) && allow(cpu)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0 || pthread_setaffinity_np(thread, sizeof wanted, &wanted) != 0) return;
  pthread_setaffinity_np(thread, sizeof usable, &usable);
}
#endif

}  // namespace

int usable_cpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads) : slots_(static_cast<size_t>(std::max(threads, 1))) {
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
  } else {
    for (int first = 0; first < chunks; first += kMostChunks) {
      run_part(first, std::min(chunks - first, kMostChunks), call, context);
    }
  }
  in_loop_.store(false, std::memory_order_release);
}

void ThreadPool::run_part(int first, int chunks, Call call, void* context) {
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  first_.store(first, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  deal(chunks, epoch);
  // Sequentially consistent with the sleeper's count: either it sees the epoch or this sees the sleeper.
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    note_caller();
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  const int64_t start_ns = now_ns();
  const int own = run_chunks(0, epoch);
  if (done_.load(std::memory_order_acquire) != chunks) {
    wait_for_others(chunks, (now_ns() - start_ns) / std::max(own, 1));
  }
}

/// Gives each thread its run. A thread that rests gets none, so that the others read its part as one stream too.
void ThreadPool::deal(int chunks, uint32_t epoch) {
  auto rests = [](const Slot& slot) { return slot.resting.load(std::memory_order_relaxed); };
  const auto awake = static_cast<int64_t>(std::count_if(slots_.begin(), slots_.end(), std::not_fn(rests)));
  int64_t place = 0;
  for (Slot& slot : slots_) {
    const int64_t next = rests(slot) ? place : std::min(place + 1, awake);
    slot.run.store(make_run(epoch, chunks * place / awake, chunks * next / awake), std::memory_order_release);
    place = next;
  }
}

/// Runs a chunk of a thread's run: its first for the thread itself, its last for another. False when none is left of
/// this loop: a thread that is late begins the next one with its own run.
bool ThreadPool::run_one(Slot& from, bool own, int thread, uint32_t epoch) {
  uint64_t run = from.run.load(std::memory_order_acquire);
  while (epoch_of(run) == epoch && first_of(run) < end_of(run)) {
    const Call call = call_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    const int first = first_.load(std::memory_order_relaxed);
    // After a failure the loop may be another one: it is looked at anew.
    const uint64_t left = own ? run + kOneTaken : run - 1;
    if (!from.run.compare_exchange_weak(run, left, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    call(context, first + (own ? first_of(run) : end_of(run) - 1), thread);
    return true;
  }
  return false;
}

int ThreadPool::run_chunks(int thread, uint32_t epoch) {
  Slot& slot = slots_[static_cast<size_t>(thread)];
  slot.working.store(true, std::memory_order_relaxed);
  int finished = 0;
  while (run_one(slot, true, thread, epoch)) ++finished;
  for (size_t next = 1; next < slots_.size(); ++next) {
    Slot& other = slots_[(static_cast<size_t>(thread) + next) % slots_.size()];
    while (run_one(other, false, thread, epoch)) ++finished;
  }
  slot.working.store(false, std::memory_order_relaxed);
  if (finished > 0) done_.fetch_add(finished, std::memory_order_acq_rel);
  return finished;
}

/// Fetches the next line of what the thread was told that it will read.
void ThreadPool::fetch_ahead(Slot& slot) {
  const char* from = slot.ahead.load(std::memory_order_relaxed);
  if (from != slot.fetched_from) {
    slot.fetched_from = from;
    slot.fetched_bytes = 0;
  }
  if (from == nullptr || slot.fetched_bytes >= kAheadBytes) return;
  __builtin_prefetch(from + slot.fetched_bytes, 0, 2);
  slot.fetched_bytes += 64;
}

void ThreadPool::wait_for_others(int chunks, int64_t own_chunk_ns) {
  auto all_done = [&] { return done_.load(std::memory_order_acquire) == chunks; };
  // No yield: what else wants this core would keep it for a whole slice.
  if (spin(kStallNs + 2 * own_chunk_ns, [&] {
        fetch_ahead(slots_[0]);
        return all_done();
      })) {
    return;
  }
  finish_stalled(chunks);
}

/// Lends the caller's core to the threads that have lost theirs, until each has finished the chunk it holds.
void ThreadPool::finish_stalled(int chunks) {
  [[maybe_unused]] const int here = note_caller();
  for (size_t thread = 1; thread < slots_.size(); ++thread) {
    if (!slots_[thread].working.load(std::memory_order_relaxed)) continue;
    slots_[thread].stalled.store(true, std::memory_order_relaxed);
#ifdef __linux__
    move_thread(workers_[thread - 1].native_handle(), [&](int cpu) { return cpu == here; });
#endif
  }
  while (done_.load(std::memory_order_acquire) != chunks) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void ThreadPool::serve(int thread) {
  Slot& slot = slots_[static_cast<size_t>(thread)];
  uint32_t idle_epoch = 0;
  while (wait_for_work(slot, idle_epoch)) {
    idle_epoch = epoch_.load(std::memory_order_acquire);
    if (run_chunks(thread, idle_epoch) > 0 && slot.stalled.exchange(false, std::memory_order_relaxed)) rest(slot);
  }
}

/// Waits until a loop after `idle_epoch` is opened; false when the pool is closing.
bool ThreadPool::wait_for_work(Slot& slot, uint32_t idle_epoch) {
  auto changed = [&] { return epoch_.load(std::memory_order_acquire) != idle_epoch; };
  auto stopping = [&] { return stopping_.load(std::memory_order_relaxed); };
  if (spin(kWorkerSpinNs, [&] {
        fetch_ahead(slot);
        return changed() || stopping();
      })) {
    return !stopping();
  }
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return epoch_.load(std::memory_order_seq_cst) != idle_epoch || stopping(); });
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  lock.unlock();
  leave_caller();
  return !stopping();
}

/// Leaves the loops to the others, longer each time that the last rest did not help.
void ThreadPool::rest(Slot& slot) {
  int64_t now = now_ns();
  bool again = slot.rest_ns > 0 && now - slot.rested_until_ns < 4 * slot.rest_ns;
  slot.rest_ns = again ? std::min(2 * slot.rest_ns, kLongestRestNs) : kFirstRestNs;
  slot.rested_until_ns = now + slot.rest_ns;
  slot.resting.store(true, std::memory_order_relaxed);
  {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::nanoseconds(slot.rest_ns),
                   [&] { return stopping_.load(std::memory_order_relaxed) || now_ns() >= slot.rested_until_ns; });
  }
  slot.resting.store(false, std::memory_order_relaxed);
  leave_caller();
}

int ThreadPool::note_caller() {
#ifdef __linux__
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
#endif
  return caller_cpu_.load(std::memory_order_relaxed);
}

/// Two threads of one pool on one core wait for each other; beside a neighbour this one only takes what is left.
void ThreadPool::leave_caller() {
#ifdef __linux__
  const int taken = caller_cpu_.load(std::memory_order_relaxed);
  if (sched_getcpu() == taken) move_thread(pthread_self(), [&](int cpu) { return cpu != taken; });
#endif
}

}  // namespace vernier
