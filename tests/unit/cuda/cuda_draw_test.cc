#include <gtest/gtest.h>

#include "backends/cuda/draw_choice.h"

namespace vernier {
namespace {

using cuda::DrawCut;

TEST(CudaDraw, WhatTheDeviceDoesNotTellIsLeftToTheDefinition) {
  EXPECT_TRUE(device_draws({}, 64));
  EXPECT_FALSE(device_draws({.top_logprobs = 0}, 64));
  EXPECT_FALSE(device_draws({.forced = 3}, 64));
  EXPECT_FALSE(device_draws({.typical_p = 0.5f}, 64));
  EXPECT_TRUE(device_draws({.edits = {{.token = 63}}}, 64));
  EXPECT_FALSE(device_draws({.edits = {{.token = 64}}}, 64));
  EXPECT_FALSE(device_draws({.edits = {{.token = -1}}}, 64));
  const std::vector<uint32_t> words(2);
  EXPECT_TRUE(device_draws({.mask = words}, 64));
  EXPECT_FALSE(device_draws({.mask = words}, 65));
  EXPECT_FALSE(device_draws({.allowed = words}, 32));
}

TEST(CudaDraw, OnlyAPlainRowTakesItsLargestLogit) {
  EXPECT_TRUE(takes_largest({.temperature = 0}, 64));
  EXPECT_FALSE(takes_largest({.temperature = 0.1f}, 64));
  EXPECT_FALSE(takes_largest({.temperature = 0, .top_logprobs = 0}, 64));
  EXPECT_FALSE(takes_largest({.temperature = 0, .edits = {{.token = 1}}}, 64));
  EXPECT_FALSE(takes_largest({.temperature = 0, .known_tokens = 60}, 64));
}

TEST(CudaDraw, CutsActInTheOrderOfTheDialect) {
  EXPECT_EQ(draw_row({.top_k = 5}, 64).cut, DrawCut::kMinThenBest);
  EXPECT_EQ(draw_row({.top_p = 0.5f, .dialect = SamplerDialect::kSglang}, 64).cut, DrawCut::kTogether);
  EXPECT_EQ(draw_row({.min_p = 0.5f, .dialect = SamplerDialect::kLlama}, 64).cut, DrawCut::kBestThenMin);
  EXPECT_EQ(draw_row({.top_k = 5, .dialect = SamplerDialect::kMlx}, 64).cut, DrawCut::kMassThenMin);
  EXPECT_EQ(draw_row({.temperature = 1}, 64).cut, DrawCut::kNone);
  EXPECT_EQ(draw_row({.temperature = 1e-6f, .top_k = 5}, 64).cut, DrawCut::kNone);
  EXPECT_EQ(draw_row({.temperature = 1e-6f}, 64).temperature, 0);
  EXPECT_TRUE(draw_row({.dialect = SamplerDialect::kMlx}, 64).divide_last);
  EXPECT_FALSE(draw_row({.dialect = SamplerDialect::kSglang}, 64).divide_last);
  EXPECT_TRUE(draw_row({.dialect = SamplerDialect::kSglang}, 64).penalty_first);
  EXPECT_EQ(draw_row({.known_tokens = 60}, 64).known, 60);
  EXPECT_EQ(draw_row({}, 64).known, 64);
}

}  // namespace
}  // namespace vernier
