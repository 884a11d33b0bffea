#include "backends/cuda/launch_queue.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "written_driver.h"

namespace vernier {
namespace {

using testing::driver;
using testing::touch;
using testing::touch_rows;

class LaunchQueueTest : public ::testing::Test {
 protected:
  LaunchQueueTest() {
    driver() = {};
    device_ = CudaDevice::open(0, 0).value();
    queue_ = std::make_unique<LaunchQueue>(*device_);
  }
  LaunchQueue& queue() { return *queue_; }
  CudaDevice& device() { return *device_; }
  void end_queue() { queue_.reset(); }

  /// A step of launches with these numbers; what was done, in order.
  std::string step(const std::vector<int>& numbers, int64_t kind = 1) {
    driver().done.clear();
    queue().begin(StepKind{{kind}});
    for (int number : numbers) queue().launch("touch", touch, number, 0.3f);
    queue().send();
    return fmt::format("{}", fmt::join(driver().done, " "));
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<LaunchQueue> queue_;
};

std::vector<int> first_numbers(int count) {
  std::vector<int> numbers;
  for (int i = 1; i <= count; ++i) numbers.push_back(i);
  return numbers;
}

TEST_F(LaunchQueueTest, AStepThatComesAgainIsAGraph) {
  EXPECT_EQ(step({1, 2, 3}), "1 2 3");
  EXPECT_EQ(step({1, 2, 3}), "[1 2 3]");
  EXPECT_EQ(step({1, 2, 3}), "[1 2 3]");
  EXPECT_EQ(driver().captures, 1);
}

TEST_F(LaunchQueueTest, TheDeviceBeginsBeforeALongStepIsWhole) {
  const std::vector<int> numbers = first_numbers(40);
  step(numbers);
  driver().done.clear();
  queue().begin(StepKind{{1}});
  for (int number : numbers) {
    queue().launch("touch", touch, number, 0.3f);
    EXPECT_EQ(driver().done.size(), number < 16 ? 0u : number < 40 ? 1u : 2u) << number;
  }
}

// CUDA-8: a graph runs only where every argument of every launch in it is the step's.
TEST_F(LaunchQueueTest, WhatDiffersIsLaunchedAsItIs) {
  step({1, 2, 3});
  step({1, 2, 3});
  EXPECT_EQ(step({1, 2, 4}), "1 2 4");
  EXPECT_EQ(step({1, 2, 4}), "[1 2 4]");
  EXPECT_EQ(step({5, 2, 4}), "5 2 4");
  EXPECT_EQ(step({5, 2}), "5 2") << "a step that ends earlier";
  EXPECT_EQ(step({5, 2}), "[5 2]");
  EXPECT_EQ(step({5, 2, 6}), "[5 2] 6") << "and one that goes on";
  EXPECT_EQ(step({5, 2, 6}), "[5 2] [6]");
  EXPECT_EQ(driver().graphs_alive, 2);
  end_queue();
  EXPECT_EQ(driver().graphs_alive, 0);
}

TEST_F(LaunchQueueTest, EveryArgumentCounts) {
  const float numbers[2] = {};
  auto step_of = [&](const cuda::Rows& rows, int number, float factor) {
    driver().done.clear();
    queue().begin(StepKind{{1}});
    queue().launch("rows", touch_rows, rows, number);
    queue().launch("touch", touch, 7, factor);
    queue().send();
    return fmt::format("{}", fmt::join(driver().done, " "));
  };
  auto* at = const_cast<float*>(numbers);
  step_of({at, 8}, 1, 0.3f);
  EXPECT_EQ(step_of({at, 8}, 1, 0.3f), "[1 7]");
  EXPECT_EQ(step_of({at + 1, 8}, 1, 0.3f), "1 7") << "an address";
  EXPECT_EQ(step_of({at + 1, 9}, 1, 0.3f), "1 7") << "a stride";
  EXPECT_EQ(step_of({at + 1, 9}, 1, 0.6f), "1 7") << "a factor";
  EXPECT_EQ(step_of({at + 1, 9}, 1, 0.6f), "[1 7]");
}

TEST_F(LaunchQueueTest, KindsAreKeptApartAndTheOldestIsForgotten) {
  step({1, 2}, 1);
  step({3}, 2);
  EXPECT_EQ(step({1, 2}, 1), "[1 2]");
  EXPECT_EQ(step({3}, 2), "[3]");
  for (int64_t kind = 3; kind < 70; ++kind) step({4}, kind);
  EXPECT_EQ(step({1, 2}, 1), "1 2");
  EXPECT_EQ(driver().graphs_alive, 0);
}

TEST_F(LaunchQueueTest, WithoutAKindEachLaunchGoesAtOnce) {
  for (int again = 0; again < 3; ++again) {
    driver().done.clear();
    queue().begin({});
    queue().launch("touch", touch, 1, 0.3f);
    EXPECT_EQ(driver().done.size(), 1u);
    queue().launch("touch", touch, 2, 0.3f);
    EXPECT_EQ(driver().done.size(), 2u);
  }
  EXPECT_EQ(driver().captures, 0);
}

TEST_F(LaunchQueueTest, ADriverThatMakesNoGraphIsAskedOnce) {
  driver().refuses_capture = true;
  for (int again = 0; again < 3; ++again) EXPECT_EQ(step({1, 2, 3}), "1 2 3");
  driver().refuses_capture = false;
  EXPECT_EQ(step({1, 2, 3}), "1 2 3");
}

// CUDA-6: the first failure is told, what follows it launches nothing, and the next step begins anew.
TEST_F(LaunchQueueTest, AFailureEndsItsStepAlone) {
  step({1, 2, 3});
  driver().failing = 2;
  EXPECT_EQ(step({1, 2, 4}), "1");
  ASSERT_TRUE(queue().failed());
  EXPECT_EQ(queue().status().error().message, "touch: an illegal memory access was encountered (700)");
  EXPECT_EQ(step({2, 5}), "");
  driver().failing = -1;
  EXPECT_EQ(step({1, 2, 3}), "1 2 3");
  EXPECT_FALSE(queue().failed());
  driver().failing = 3;
  EXPECT_EQ(step({1, 2, 3}), "1 2") << "a graph that cannot be made is launched piece by piece, and tells why";
  EXPECT_TRUE(queue().failed());
}

TEST_F(LaunchQueueTest, MemoryIsGivenBackAfterWhatWaitsForIt) {
  DeviceScratch scratch;
  scratch.reserve<float>(device(), queue(), 10, "scratch");
  step({1, 2, 3});
  driver().done.clear();
  queue().begin(StepKind{{1}});
  queue().launch("touch", touch, 1, 0.3f);
  queue().launch("touch", touch, 2, 0.3f);
  EXPECT_TRUE(driver().done.empty());
  scratch.reserve<float>(device(), queue(), 1000, "scratch");
  EXPECT_EQ(driver().done, (std::vector<std::string>{"1", "2", "given back"}));
  scratch.reserve<float>(device(), queue(), 100, "scratch");
  EXPECT_EQ(driver().done.size(), 3u) << "what fits is kept";
  DeviceScratch zeros;
  zeros.reserve_zeros<int32_t>(device(), queue(), 10, "counters");
  zeros.reserve_zeros<int32_t>(device(), queue(), 10, "counters");
  EXPECT_EQ(std::ranges::count(driver().done, "filled"), 1);
}

}  // namespace
}  // namespace vernier
