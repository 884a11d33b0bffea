#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace vernier {
namespace {

TEST(ThreadPool, EachChunkRunsOnceAndIsVisibleAfterwards) {
  ThreadPool pool(3);
  std::vector<int> counts;
  for (int loop = 0; loop < 3000; ++loop) {
    int chunks = loop % 23;
    counts.assign(static_cast<size_t>(chunks), 0);
    pool.parallel_for(chunks, [&](int chunk) { counts[static_cast<size_t>(chunk)] += chunk + 1; });
    for (int chunk = 0; chunk < chunks; ++chunk) ASSERT_EQ(counts[static_cast<size_t>(chunk)], chunk + 1) << loop;
  }
}

TEST(ThreadPool, NeighbouringLoopsOfDifferentSizesDoNotMix) {
  // A late thread must not take a chunk of the next loop for one of the last.
  ThreadPool pool(2);
  for (int loop = 0; loop < 20000; ++loop) {
    std::atomic<int> first{0};
    std::atomic<int> second{0};
    pool.parallel_for(2, [&](int) { first.fetch_add(1, std::memory_order_relaxed); });
    pool.parallel_for(9, [&](int) { second.fetch_add(1, std::memory_order_relaxed); });
    ASSERT_EQ(first.load(), 2);
    ASSERT_EQ(second.load(), 9);
  }
}

TEST(ThreadPool, MoreChunksThanARunCounts) {
  ThreadPool pool(2);
  std::vector<uint8_t> counts(200'000);
  pool.parallel_for(static_cast<int>(counts.size()), [&](int chunk) { ++counts[static_cast<size_t>(chunk)]; });
  EXPECT_EQ(std::ranges::count(counts, 1), static_cast<int64_t>(counts.size()));
}

TEST(ThreadPool, AThreadStartsWithItsOwnRunAndGoesOnInOrder) {
  ThreadPool pool(2);
  constexpr int kChunks = 40;
  ASSERT_EQ(pool.first_chunk(kChunks, 1), kChunks / 2);
  int helped = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (helped < 200 && std::chrono::steady_clock::now() < end) {
    std::vector<int> order[2];
    order[0].reserve(kChunks);
    order[1].reserve(kChunks);
    pool.parallel_for(kChunks, [&](int chunk, int thread) { order[thread].push_back(chunk); });
    for (int thread : {0, 1}) {
      const std::vector<int>& seen = order[thread];
      const int first = thread * kChunks / 2;
      for (size_t i = 0; i < seen.size() && seen[i] / (kChunks / 2) == thread; ++i) {
        ASSERT_EQ(seen[i], first + static_cast<int>(i));
      }
      if (!seen.empty()) {
        ASSERT_EQ(seen[0], first) << "a thread began with another's chunks";
      }
    }
    helped += !order[1].empty();
  }
  EXPECT_GT(helped, 0) << "the second thread never came";
}

TEST(ThreadPool, ThreadIndicesAreDistinctWhileTheyRun) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> clash{false};
  for (int loop = 0; loop < 200; ++loop) {
    pool.parallel_for(16, [&](int, int thread) {
      if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) clash = true;
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  EXPECT_FALSE(clash.load());
}

TEST(ThreadPool, WakesAfterALongIdleTime) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the time a worker stays awake
    std::atomic<int> helpers{0};
    pool.parallel_for(2, [&](int, int thread) {
      if (thread == 1) helpers.fetch_add(1);
      auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      // The caller's chunk lasts until the other thread has come.
      while (thread == 0 && helpers.load() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    EXPECT_GE(helpers.load(), 1) << "no thread woke within 5 s";
  }
}

TEST(ThreadPool, AThreadThatLostItsCoreRestsAndComesBack) {
  using Clock = std::chrono::steady_clock;
  ThreadPool pool(2);
  std::atomic<int> helped{0};
  std::atomic<Clock::time_point> released{Clock::time_point()};
  auto loop = [&](std::chrono::microseconds hold) {
    pool.parallel_for(2, [&](int, int thread) {
      if (thread == 1) {
        helped.fetch_add(1);
        std::this_thread::sleep_for(hold);
        released = Clock::now();
      } else {
        auto end = Clock::now() + std::chrono::microseconds(20);
        while (Clock::now() < end) {
        }
      }
    });
  };
  auto until_helped = [&](std::chrono::microseconds hold) {
    int before = helped.load();
    for (int i = 0; i < 100000 && helped.load() == before; ++i) loop(hold);
    return helped.load() > before;
  };
  bool rested = false;
  for (int attempt = 0; attempt < 20 && !rested; ++attempt) {
    ASSERT_TRUE(until_helped(std::chrono::milliseconds(20)));
    const int after_stall = helped.load();
    const Clock::time_point stalled_until = released, start = Clock::now();
    while (Clock::now() - start < std::chrono::microseconds(500)) loop(std::chrono::microseconds(0));
    rested = helped.load() == after_stall;
    // Where the machine took this thread's core, too, the rest of 2 ms was over before it looked: that decides nothing.
    if (!rested) {
      ASSERT_GT(Clock::now() - stalled_until, std::chrono::milliseconds(2))
          << "a thread that held a loop up for 20 ms took part again at once";
    }
  }
  EXPECT_TRUE(rested) << "this thread's core was taken each time";
  EXPECT_TRUE(until_helped(std::chrono::microseconds(0)));
}

TEST(ThreadPoolDeathTest, ALoopInsideALoopIsRefused) {
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.parallel_for(2, [&](int) { pool.parallel_for(2, [](int) {}); });
      },
      "inside a loop");
}

}  // namespace
}  // namespace vernier
