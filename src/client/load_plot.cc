#include <algorithm>
#include <cmath>
#include <functional>

#include "client/load_report.h"

namespace vernier {
namespace {

constexpr double kLeft = 80, kRight = 600, kPanelHeight = 170;

struct PlotSeries {
  std::string_view name;
  std::string_view color;
  std::string_view dash;
  std::function<double(const LoadSummary&)> value;
};

struct PlotPanel {
  std::string_view title;
  double top = 0;
  std::vector<PlotSeries> series;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

/// The smallest of 1, 2, 5 times a power of ten so that five steps of it reach the value.
double axis_step(double most) {
  const double raw = std::max(most, 1e-3) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

double place_of(size_t i, size_t count) {
  return count == 1 ? (kLeft + kRight) / 2
                    : kLeft + 30 + (kRight - kLeft - 60) * static_cast<double>(i) / static_cast<double>(count - 1);
}

std::string label(double x, double y, std::string_view anchor, std::string_view text, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string draw_series(const PlotSeries& series, const PlotPanel& panel, std::span<const LoadLevel> levels,
                        double top) {
  std::string points, marks;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double value = series.value(levels[i].median());
    const double x = place_of(i, levels.size());
    const double y = panel.top + kPanelHeight * (1 - value / top);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {:.4g}</title></circle>\n",
                         x, y, series.color, escaped(series.name), value);
  }
  return fmt::format(
             "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\" points=\"{}\"/>\n",
             series.color, series.dash, points) +
         marks;
}

std::string draw_panel(const PlotPanel& panel, std::span<const LoadLevel> levels, std::string_view level_name) {
  double most = 0;
  for (const PlotSeries& series : panel.series) {
    for (const LoadLevel& level : levels) most = std::max(most, series.value(level.median()));
  }
  const double step = axis_step(most);
  const double top = step * std::max(1.0, std::ceil(most / step - 1e-9));
  std::string out = label(kLeft, panel.top - 12, "start", panel.title, " font-weight=\"bold\"");
  for (double value = 0; value <= top * 1.0001; value += step) {
    const double y = panel.top + kPanelHeight * (1 - value / top);
    out +=
        fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft, y, kRight, y);
    out += label(kLeft - 8, y + 4, "end", fmt::format("{:.6g}", value));
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    out += label(place_of(i, levels.size()), panel.top + kPanelHeight + 18, "middle",
                 fmt::format("{:g}", levels[i].value));
  }
  out += label((kLeft + kRight) / 2, panel.top + kPanelHeight + 36, "middle", level_name, " fill=\"#555\"");
  double y = panel.top + 12;
  for (const PlotSeries& series : panel.series) {
    out += draw_series(series, panel, levels, top);
    out += fmt::format(
        "<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{}\"/>\n",
        kRight + 16, y - 4, kRight + 44, y - 4, series.color, series.dash);
    out += label(kRight + 52, y, "start", series.name);
    y += 20;
  }
  return out;
}

PlotPanel spread_panel(std::string_view title, double top, LatencySpread LoadSummary::*spread) {
  PlotPanel panel{title, top, {}};
  panel.series = {{"p50", "#1b6ca8", "", [=](const LoadSummary& s) { return (s.*spread).p50_ms; }},
                  {"p90", "#e08a1e", "6 3", [=](const LoadSummary& s) { return (s.*spread).p90_ms; }},
                  {"p99", "#b3261e", "2 3", [=](const LoadSummary& s) { return (s.*spread).p99_ms; }}};
  return panel;
}

}  // namespace

std::string draw_sweep(std::span<const LoadLevel> levels, std::string_view title, std::string_view level_name) {
  PlotPanel rate{"output tokens per second", 80, {}};
  rate.series = {{"throughput", "#2e7d32", "", [](const LoadSummary& s) { return s.output_tokens_per_s; }}};
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 830\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"760\" height=\"830\" fill=\"#fff\"/>\n";
  out += label(kLeft, 32, "start", title, " font-size=\"17\"");
  out += draw_panel(rate, levels, level_name);
  out += draw_panel(spread_panel("time to first token, ms", 340, &LoadSummary::ttft), levels, level_name);
  out += draw_panel(spread_panel("time per output token, ms", 600, &LoadSummary::tpot), levels, level_name);
  return out + "</svg>\n";
}

}  // namespace vernier
