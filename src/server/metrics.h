#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vernier {

/// A label's name and value.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// A double that threads add to without a lock.
class MetricCell {
 public:
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

/// Never goes down: a negative or unordered amount is dropped and counted in metrics_errors_total.
class Counter {
 public:
  explicit Counter(MetricCell* errors) : errors_(errors) {}
  void add(double amount = 1.0);
  double value() const { return cell_.value(); }

 private:
  MetricCell cell_;
  MetricCell* errors_;
};

/// Goes up and down. A value that is no finite number is dropped and counted.
class Gauge {
 public:
  explicit Gauge(MetricCell* errors) : errors_(errors) {}
  void set(double value);
  void add(double amount);
  double value() const { return cell_.value(); }

 private:
  MetricCell cell_;
  MetricCell* errors_;
};

/// Counts of values at or below each bound, with their sum. A negative or unordered value is dropped and counted.
class Histogram {
 public:
  Histogram(std::vector<double> bounds, MetricCell* errors);
  void observe(double value);
  uint64_t count() const;
  double sum() const { return sum_.value(); }
  /// The count of values at or below bounds()[i]; i == bounds().size() gives all.
  uint64_t at_most(size_t i) const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> buckets_;  // of values in (bound i-1, bound i]; the last has no bound
  MetricCell sum_;
  MetricCell* errors_;
};

/// The series of a process and their text form. Registering takes a lock and is rare; counting takes none. A series
/// lives as long as the registry and is the same object for the same name and labels. Names, kinds and labels are the
/// programmer's: a bad one, or a name used for two kinds, is refused by CHECK.
class MetricRegistry {
 public:
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  MetricRegistry();

  /// A counter's name ends in _total.
  Counter& counter(std::string_view name, std::string_view help, MetricLabels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, MetricLabels labels = {});
  /// Every series of one name has the bounds of the first.
  Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                       MetricLabels labels = {});

  /// The same family under another name, for dashboards made for another server ("vllm:num_requests_running").
  void alias(std::string_view name, std::string_view other);

  /// Called before each exposition, under the registry's lock: sets gauges that mirror the state of something. It must
  /// not register. Never removed, so what it refers to must live as long.
  void before_exposition(std::function<void()> refresh);

  /// The text exposition format 0.0.4: families in the order of their registration.
  std::string exposition() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct Series {
    std::string labels;  // rendered, without braces
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name;
    std::string help;
    Kind kind;
    std::deque<Series> series;
    std::vector<std::string> aliases;
  };

  Family& family(std::string_view name, std::string_view help, Kind kind);
  static Series& series(Family& family, const MetricLabels& labels);
  static void append_family(std::string& out, const Family& family, std::string_view name);

  mutable std::mutex mutex_;
  MetricCell errors_;
  std::deque<Family> families_;
  std::vector<std::function<void()>> refreshers_;
};

/// Bounds for seconds of a request's phases: 1 ms to 10 min, about three a decade.
std::vector<double> latency_bounds();

}  // namespace vernier
