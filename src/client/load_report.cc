#include "client/load_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vernier {
namespace {

double to_ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

nlohmann::ordered_json spread_json(const LatencySpread& spread) {
  return {{"mean", spread.mean_ms}, {"p50", spread.p50_ms}, {"p90", spread.p90_ms}, {"p99", spread.p99_ms}};
}

}  // namespace

LatencySpread spread_of(std::vector<double> values_ms) {
  if (values_ms.empty()) return {};
  std::ranges::sort(values_ms);
  auto rank = [&](double percent) {
    const double place = std::ceil(percent / 100 * static_cast<double>(values_ms.size()) - 1e-9);
    return values_ms[static_cast<size_t>(std::max(1.0, place)) - 1];
  };
  const double sum = std::accumulate(values_ms.begin(), values_ms.end(), 0.0);
  return {sum / static_cast<double>(values_ms.size()), rank(50), rank(90), rank(99)};
}

LoadSummary summarize(const LoadRun& run, const ServiceLevel& level) {
  LoadSummary summary;
  summary.seconds = static_cast<double>(run.end_ns - run.start_ns) * 1e-9;
  std::vector<double> ttft, tpot, itl, e2e;
  int64_t events = 0;
  int good = 0;
  for (const LoadRecord& record : run.records) {
    if (record.sent_ns > 0) summary.late_ms = std::max(summary.late_ms, to_ms(record.sent_ns - record.due_ns));
    if (!record.fault.empty()) {
      ++summary.failed;
      ++summary.faults[record.fault];
      summary.examples.try_emplace(record.fault, record.message);
      continue;
    }
    ++summary.served;
    summary.prompt_tokens += record.prompt_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.output_tokens += record.output_tokens;
    events += static_cast<int64_t>(record.text_ns.size());
    ttft.push_back(to_ms(record.text_ns.front() - record.sent_ns));
    e2e.push_back(to_ms(record.end_ns - record.sent_ns));
    const double own_tpot = record.output_tokens > 1
                                ? to_ms(record.text_ns.back() - record.text_ns.front()) / (record.output_tokens - 1)
                                : 0;
    if (record.output_tokens > 1) tpot.push_back(own_tpot);
    for (size_t i = 1; i < record.text_ns.size(); ++i) itl.push_back(to_ms(record.text_ns[i] - record.text_ns[i - 1]));
    good += (level.ttft_ms <= 0 || ttft.back() <= level.ttft_ms) && (level.tpot_ms <= 0 || own_tpot <= level.tpot_ms);
  }
  summary.ttft = spread_of(std::move(ttft));
  summary.tpot = spread_of(std::move(tpot));
  summary.itl = spread_of(std::move(itl));
  summary.e2e = spread_of(std::move(e2e));
  if (events > 0) summary.tokens_per_event = static_cast<double>(summary.output_tokens) / static_cast<double>(events);
  if (summary.seconds > 0) {
    summary.output_tokens_per_s = static_cast<double>(summary.output_tokens) / summary.seconds;
    summary.requests_per_s = summary.served / summary.seconds;
    summary.good_requests_per_s = good / summary.seconds;
  }
  return summary;
}

const LoadSummary& LoadLevel::median() const {
  CHECK(!rounds.empty(), "a level without rounds");
  std::vector<size_t> order(rounds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return rounds[i].output_tokens_per_s; });
  return rounds[order[order.size() / 2]];
}

nlohmann::ordered_json to_json(const LoadSummary& summary) {
  nlohmann::ordered_json faults = nlohmann::ordered_json::object();
  for (const auto& [kind, count] : summary.faults) {
    faults[kind] = {{"count", count}, {"example", summary.examples.at(kind)}};
  }
  return {{"served", summary.served},
          {"failed", summary.failed},
          {"faults", faults},
          {"seconds", summary.seconds},
          {"prompt_tokens", summary.prompt_tokens},
          {"cached_tokens", summary.cached_tokens},
          {"output_tokens", summary.output_tokens},
          {"output_tokens_per_s", summary.output_tokens_per_s},
          {"requests_per_s", summary.requests_per_s},
          {"good_requests_per_s", summary.good_requests_per_s},
          {"ttft_ms", spread_json(summary.ttft)},
          {"tpot_ms", spread_json(summary.tpot)},
          {"itl_ms", spread_json(summary.itl)},
          {"e2e_ms", spread_json(summary.e2e)},
          {"tokens_per_event", summary.tokens_per_event},
          {"late_ms", summary.late_ms}};
}

std::string_view level_name(ArrivalProcess arrival) {
  return arrival == ArrivalProcess::kClosed ? "concurrency" : "requests/s";
}

}  // namespace vernier
