#include "server/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace vernier {
namespace {

TEST(Metrics, WriteTheTextFormat) {
  MetricRegistry registry;
  registry.counter("a_total", "Help with \\ and\nbreak.", {{"x", "1\"\\\n"}}).add(2);
  registry.gauge("b", "B.").set(-1.5);
  Histogram& histogram = registry.histogram("c_seconds", "C.", {0.1, 1}, {{"k", "v"}});
  for (double value : {0.05, 0.1, 0.5, 7.0}) histogram.observe(value);
  registry.alias("b", "old:b");
  EXPECT_EQ(
      registry.exposition(),
      "# HELP metrics_errors_total Values that a metric refused: negative, infinite or no number.\n"
      "# TYPE metrics_errors_total counter\nmetrics_errors_total 0\n"
      "# HELP a_total Help with \\\\ and\\nbreak.\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n\"} 2\n"
      "# HELP b B.\n# TYPE b gauge\nb -1.5\n# HELP old:b B.\n# TYPE old:b gauge\nold:b -1.5\n"
      "# HELP c_seconds C.\n# TYPE c_seconds histogram\nc_seconds_bucket{k=\"v\",le=\"0.1\"} 2\n"
      "c_seconds_bucket{k=\"v\",le=\"1\"} 3\nc_seconds_bucket{k=\"v\",le=\"+Inf\"} 4\nc_seconds_sum{k=\"v\"} 7.65\n"
      "c_seconds_count{k=\"v\"} 4\n");
}

// SERVER-9: a bad value is dropped and counted; it ends nothing and poisons no sum.
TEST(Metrics, SERVER_9_RefuseBadValuesAndCountThem) {
  MetricRegistry registry;
  Counter& counter = registry.counter("a_total", "A.");
  Gauge& gauge = registry.gauge("b", "B.");
  Histogram& histogram = registry.histogram("c", "C.", {1});
  counter.add(-1);
  counter.add(std::nan(""));
  gauge.set(std::nan(""));
  histogram.observe(-1);
  histogram.observe(INFINITY);
  EXPECT_EQ(counter.value(), 0);
  EXPECT_EQ(gauge.value(), 0);
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_NE(registry.exposition().find("metrics_errors_total 5\n"), std::string::npos);
}

TEST(Metrics, AreTheSameObjectForTheSameLabels) {
  MetricRegistry registry;
  Counter& counter = registry.counter("a_total", "A.", {{"x", "1"}});
  EXPECT_EQ(&counter, &registry.counter("a_total", "A.", {{"x", "1"}}));
  EXPECT_NE(&counter, &registry.counter("a_total", "A.", {{"x", "2"}}));
}

TEST(Metrics, LoseNoCountBetweenThreads) {
  MetricRegistry registry;
  Counter& counter = registry.counter("a_total", "A.");
  Histogram& histogram = registry.histogram("c", "C.", {1});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        counter.add();
        histogram.observe(i % 3);
      }
    });
  }
  for (int i = 0; i < 20; ++i) registry.exposition();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40'000);
  EXPECT_EQ(histogram.count(), 40'000u);
}

TEST(Metrics, RefreshBeforeTheyAreShown) {
  MetricRegistry registry;
  Gauge& gauge = registry.gauge("b", "B.");
  registry.before_exposition([&] { gauge.add(1); });
  registry.exposition();
  EXPECT_NE(registry.exposition().find("\nb 2\n"), std::string::npos);
}

}  // namespace
}  // namespace vernier
