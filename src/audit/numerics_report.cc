#include "audit/numerics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vernier {

namespace {

/// A difference; one that is no number counts as infinite, but for numbers that are equally none.
double distance(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  const double difference = std::abs(double{a} - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

std::string line_of(const NumericsRow& row) {
  return fmt::format("{:<5} {:>5} {:<26} {:>10.2e} {:>10.2e} {:>8.3f} {:>12.2e} {:>10.2e} {:>10.2e}\n",
                     row.passed() ? "ok" : "FAIL", row.layer < 0 ? "-" : std::to_string(row.layer), row.op, row.error,
                     row.limit, row.fraction, row.quantisation, row.kernel, row.largest);
}

}  // namespace

void NumericsReport::add(const std::string& op, int layer, const JudgedNumbers& numbers) {
  auto found = std::find_if(rows.begin(), rows.end(),
                            [&](const NumericsRow& row) { return row.op == op && row.layer == layer; });
  if (found == rows.end()) found = rows.insert(rows.end(), {op, layer});
  NumericsRow& row = *found;
  row.numbers += static_cast<int64_t>(numbers.found.size());
  for (size_t i = 0; i < numbers.found.size(); ++i) {
    const double error = distance(numbers.found[i], numbers.reference[i]);
    const double limit = numbers.limits[i];
    if (!std::isnan(numbers.reference[i])) row.largest = std::max(row.largest, std::abs(double{numbers.reference[i]}));
    // A limit of 0 is that of a number that must be equal.
    const double fraction = error == 0 ? 0 : error / std::max(limit, 1e-300);
    if (!(fraction <= row.fraction)) row.fraction = fraction, row.error = error, row.limit = limit;
    if (numbers.unquantised.empty()) {
      row.kernel = std::max(row.kernel, error);
      continue;
    }
    const float plain = numbers.unquantised[i];
    const double quantisation = distance(numbers.by_reference ? numbers.reference[i] : numbers.found[i], plain);
    row.quantisation = std::max(row.quantisation, quantisation);
    row.kernel = std::max(row.kernel, numbers.by_reference ? error : distance(plain, numbers.reference[i]));
  }
}

bool NumericsReport::passed() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const NumericsRow& row) { return row.passed(); });
}

std::string NumericsReport::to_string(bool every_layer) const {
  std::string text =
      fmt::format("{}\n{} tokens on {}, each op against float64 on the same inputs\n\n", model, tokens, backend);
  text += fmt::format("{:<5} {:>5} {:<26} {:>10} {:>10} {:>8} {:>12} {:>10} {:>10}\n", "", "layer", "op", "error",
                      "bound", "fraction", "quantisation", "kernel", "largest");
  std::vector<const NumericsRow*> shown;
  for (const NumericsRow& row : rows) {
    auto same = std::find_if(shown.begin(), shown.end(), [&](const NumericsRow* other) { return other->op == row.op; });
    if (every_layer || !row.passed() || same == shown.end()) {
      shown.push_back(&row);
    } else if (row.fraction > (*same)->fraction) {
      *same = &row;
    }
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const NumericsRow* a, const NumericsRow* b) { return !a->passed() && b->passed(); });
  int64_t failed = 0;
  for (const NumericsRow* row : shown) text += line_of(*row);
  for (const NumericsRow& row : rows) failed += row.passed() ? 0 : 1;
  text += fmt::format("\n{} ops of {} layers; {} outside their bound\n", rows.size(),
                      rows.empty() ? 0
                                   : std::max_element(
                                         rows.begin(), rows.end(),
                                         [](const auto& a, const auto& b) {
                                           return a.layer < b.layer;
                                         })->layer +
                                         1,
                      failed);
  return text;
}

nlohmann::json NumericsReport::to_json() const {
  nlohmann::json list = nlohmann::json::array();
  auto number = [](double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("infinite"); };
  for (const NumericsRow& row : rows) {
    list.push_back({{"op", row.op},
                    {"layer", row.layer < 0 ? nlohmann::json(nullptr) : nlohmann::json(row.layer)},
                    {"numbers", row.numbers},
                    {"error", number(row.error)},
                    {"bound", number(row.limit)},
                    {"fraction", number(row.fraction)},
                    {"quantisation", number(row.quantisation)},
                    {"kernel", number(row.kernel)},
                    {"largest", number(row.largest)},
                    {"passed", row.passed()}});
  }
  return {{"model", model}, {"backend", backend}, {"tokens", tokens}, {"passed", passed()}, {"ops", std::move(list)}};
}

}  // namespace vernier
