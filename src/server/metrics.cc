#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace vernier {
namespace {

bool is_metric_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c;
  }
}

std::string rendered(const MetricLabels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    CHECK(is_metric_name(name) && name.find(':') == std::string::npos && !name.starts_with("__") && name != "le",
          "the label {} is no name of a label", name);
    if (!out.empty()) out += ',';
    out += name;
    out += "=\"";
    append_escaped(out, value, true);
    out += '"';
  }
  return out;
}

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix, std::string_view labels,
                   std::string_view extra, std::string_view value) {
  out += name;
  out += suffix;
  if (!labels.empty() || !extra.empty()) {
    out += '{';
    out += labels;
    if (!labels.empty() && !extra.empty()) out += ',';
    out += extra;
    out += '}';
  }
  out += ' ';
  out += value;
  out += '\n';
}

void append_histogram(std::string& out, std::string_view name, std::string_view labels, const Histogram& histogram) {
  const std::vector<double>& bounds = histogram.bounds();
  // One reading of each bucket gives cumulative counts that never go down, and a _count equal to the last of them.
  std::string last;
  for (size_t i = 0; i <= bounds.size(); ++i) {
    std::string bound = i < bounds.size() ? number(bounds[i]) : "+Inf";
    last = fmt::format("{}", histogram.at_most(i));
    append_sample(out, name, "_bucket", labels, "le=\"" + bound + "\"", last);
  }
  append_sample(out, name, "_sum", labels, "", number(histogram.sum()));
  append_sample(out, name, "_count", labels, "", last);
}

}  // namespace

void Counter::add(double amount) {
  if (!(amount >= 0) || std::isinf(amount)) {
    errors_->add(1);
  } else {
    cell_.add(amount);
  }
}

void Gauge::set(double value) {
  if (std::isfinite(value)) {
    cell_.set(value);
  } else {
    errors_->add(1);
  }
}

void Gauge::add(double amount) {
  if (std::isfinite(amount)) {
    cell_.add(amount);
  } else {
    errors_->add(1);
  }
}

Histogram::Histogram(std::vector<double> bounds, MetricCell* errors)
    : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1), errors_(errors) {
  CHECK(std::adjacent_find(bounds_.begin(), bounds_.end(), std::greater_equal<>()) == bounds_.end(),
        "the bounds of a histogram do not rise");
}

void Histogram::observe(double value) {
  if (!(value >= 0) || std::isinf(value)) {
    errors_->add(1);
    return;
  }
  auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  buckets_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.add(value);
}

uint64_t Histogram::at_most(size_t i) const {
  uint64_t total = 0;
  for (size_t k = 0; k <= i && k < buckets_.size(); ++k) total += buckets_[k].load(std::memory_order_relaxed);
  return total;
}

uint64_t Histogram::count() const {
  return at_most(bounds_.size());
}

MetricRegistry::MetricRegistry() {
  families_.push_back({"metrics_errors_total",
                       "Values that a metric refused: negative, infinite or no number.",
                       Kind::kCounter,
                       {},
                       {}});
}

MetricRegistry::Family& MetricRegistry::family(std::string_view name, std::string_view help, Kind kind) {
  CHECK(is_metric_name(name), "{} is no name of a metric", name);
  for (Family& known : families_) {
    if (known.name != name) continue;
    CHECK(known.kind == kind, "the metric {} is registered as two kinds", name);
    return known;
  }
  return families_.emplace_back(Family{std::string(name), std::string(help), kind, {}, {}});
}

MetricRegistry::Series& MetricRegistry::series(Family& family, const MetricLabels& labels) {
  std::string text = rendered(labels);
  for (Series& known : family.series) {
    if (known.labels == text) return known;
  }
  return family.series.emplace_back(Series{std::move(text), nullptr, nullptr, nullptr});
}

Counter& MetricRegistry::counter(std::string_view name, std::string_view help, MetricLabels labels) {
  std::lock_guard lock(mutex_);
  CHECK(name.ends_with("_total"), "the counter {} does not end in _total", name);
  Series& found = series(family(name, help, Kind::kCounter), labels);
  if (!found.counter) found.counter = std::make_unique<Counter>(&errors_);
  return *found.counter;
}

Gauge& MetricRegistry::gauge(std::string_view name, std::string_view help, MetricLabels labels) {
  std::lock_guard lock(mutex_);
  Series& found = series(family(name, help, Kind::kGauge), labels);
  if (!found.gauge) found.gauge = std::make_unique<Gauge>(&errors_);
  return *found.gauge;
}

Histogram& MetricRegistry::histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                                     MetricLabels labels) {
  std::lock_guard lock(mutex_);
  Family& owner = family(name, help, Kind::kHistogram);
  if (!owner.series.empty()) bounds = owner.series.front().histogram->bounds();
  Series& found = series(owner, labels);
  if (!found.histogram) found.histogram = std::make_unique<Histogram>(std::move(bounds), &errors_);
  return *found.histogram;
}

void MetricRegistry::alias(std::string_view name, std::string_view other) {
  std::lock_guard lock(mutex_);
  CHECK(is_metric_name(other), "{} is no name of a metric", other);
  for (Family& known : families_) {
    CHECK(known.name != other, "the alias {} is the name of another metric", other);
    if (known.name == name) {
      if (std::find(known.aliases.begin(), known.aliases.end(), other) == known.aliases.end()) {
        known.aliases.emplace_back(other);
      }
      return;
    }
  }
  CHECK(false, "the alias {} names {}, which is not registered", other, name);
}

void MetricRegistry::before_exposition(std::function<void()> refresh) {
  std::lock_guard lock(mutex_);
  refreshers_.push_back(std::move(refresh));
}

void MetricRegistry::append_family(std::string& out, const Family& family, std::string_view name) {
  constexpr std::string_view kNames[] = {"counter", "gauge", "histogram"};
  out += fmt::format("# HELP {} ", name);
  append_escaped(out, family.help, false);
  out += fmt::format("\n# TYPE {} {}\n", name, kNames[static_cast<size_t>(family.kind)]);
  for (const Series& one : family.series) {
    if (one.counter) append_sample(out, name, "", one.labels, "", number(one.counter->value()));
    if (one.gauge) append_sample(out, name, "", one.labels, "", number(one.gauge->value()));
    if (one.histogram) append_histogram(out, name, one.labels, *one.histogram);
  }
}

std::string MetricRegistry::exposition() const {
  std::lock_guard lock(mutex_);
  for (const auto& refresh : refreshers_) refresh();
  std::string out;
  for (const Family& family : families_) {
    append_family(out, family, family.name);
    if (&family == &families_.front()) append_sample(out, family.name, "", "", "", number(errors_.value()));
    for (const std::string& alias : family.aliases) append_family(out, family, alias);
  }
  return out;
}

std::vector<double> latency_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
}

}  // namespace vernier
