#include "audit/evaluate.h"

#include <algorithm>
#include <cmath>

namespace vernier {

namespace {

/// Rows whose logits are held at once, of each model.
constexpr size_t kRows = 64;

/// Tokens of one window and which of them are scored: those after `first_row`, by the logits before each.
struct Window {
  std::vector<int32_t> tokens;
  size_t first_row = 0;  // logits of this row score the token after it
};

Result<std::vector<Window>> cut(std::span<const int32_t> text, const EvalOptions& options) {
  const auto own =
      static_cast<size_t>(options.window) - std::min(options.prefix.size(), static_cast<size_t>(options.window) - 2);
  if (text.size() + options.prefix.size() < 2)
    return invalid_argument("the text has {} tokens; at least 2 are needed", text.size());
  std::vector<Window> windows;
  auto add = [&](std::span<const int32_t> part, bool is_whole) {
    Window window{options.prefix, 0};
    window.tokens.insert(window.tokens.end(), part.begin(), part.end());
    if (is_whole) window.first_row = window.tokens.size() / 2;
    windows.push_back(std::move(window));
  };
  if (text.size() < own) {
    add(text, false);
  } else {
    for (size_t begin = 0; begin + own <= text.size(); begin += own) add(text.subspan(begin, own), true);
  }
  return windows;
}

/// Log-likelihoods of one row.
class Prediction {
 public:
  explicit Prediction(std::span<const float> logits) : logits_(logits) {
    const auto best = std::ranges::max_element(logits);
    best_ = static_cast<int32_t>(best - logits.begin());
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit} - double{*best});
    log_sum_ = double{*best} + std::log(sum);
  }
  double log_of(size_t token) const { return double{logits_[token]} - log_sum_; }
  int32_t best() const { return best_; }
  size_t size() const { return logits_.size(); }

 private:
  std::span<const float> logits_;
  int32_t best_ = 0;
  double log_sum_ = 0;
};

double divergence(const Prediction& a, const Prediction& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double log_a = a.log_of(i);
    sum += std::exp(log_a) * (log_a - b.log_of(i));
  }
  return std::max(sum, 0.0);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double error_of(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return 0;
  double sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(sum / (count - 1) / count);
}

/// By nearest rank; `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

Perplexity summarise(const std::vector<double>& nll) {
  Perplexity result;
  result.scored = static_cast<int64_t>(nll.size());
  result.nll = mean_of(nll);
  result.nll_error = error_of(nll, result.nll);
  result.perplexity = std::exp(result.nll);
  return result;
}

Result<std::vector<float>> logits_of(SequenceRunner& runner, std::span<const int32_t> tokens) {
  std::vector<float> all;
  TRY_STATUS(runner.feed_for_logits(
      tokens, [&](std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); }));
  return all;
}

/// Feeds a window to every runner and calls score(logits of each, next token) for each scored position.
template <class Score>
Status run_window(std::span<SequenceRunner* const> runners, const Window& window, const Score& score) {
  std::span<const int32_t> tokens(window.tokens);
  for (SequenceRunner* runner : runners) {
    runner->reset();
    if (window.first_row > 0) TRY_STATUS(runner->feed(tokens.first(window.first_row)));
  }
  for (size_t row = window.first_row; row + 1 < tokens.size(); row += kRows) {
    const size_t rows = std::min(kRows, tokens.size() - 1 - row);
    std::vector<std::vector<float>> logits;
    for (SequenceRunner* runner : runners) {
      TRY_BIND(std::vector<float> of_one, logits_of(*runner, tokens.subspan(row, rows)));
      if (!logits.empty() && of_one.size() != logits.front().size()) {
        return invalid_argument("vocabularies of {} and {} tokens cannot be compared", logits.front().size() / rows,
                                of_one.size() / rows);
      }
      logits.push_back(std::move(of_one));
    }
    const size_t vocab = logits.front().size() / rows;
    for (size_t i = 0; i < rows; ++i) {
      std::vector<Prediction> predictions;
      for (const std::vector<float>& of_one : logits)
        predictions.emplace_back(std::span(of_one).subspan(i * vocab, vocab));
      score(predictions, static_cast<size_t>(tokens[row + i + 1]));
    }
  }
  return {};
}

template <class Score>
Status run_all(std::span<SequenceRunner* const> runners, std::span<const int32_t> tokens, const EvalOptions& options,
               const Score& score) {
  TRY_BIND(std::vector<Window> windows, cut(tokens, options));
  int64_t total = 0, done = 0;
  for (const Window& window : windows) total += static_cast<int64_t>(window.tokens.size() - 1 - window.first_row);
  for (const Window& window : windows) {
    TRY_STATUS(run_window(runners, window, score));
    done += static_cast<int64_t>(window.tokens.size() - 1 - window.first_row);
    if (options.on_progress) options.on_progress(done, total);
  }
  return {};
}

}  // namespace

Result<Perplexity> measure_perplexity(SequenceRunner& runner, std::span<const int32_t> tokens,
                                      const EvalOptions& options) {
  std::vector<double> nll;
  SequenceRunner* const one = &runner;
  TRY_STATUS(run_all(std::span(&one, 1), tokens, options,
                     [&](const std::vector<Prediction>& of, size_t token) { nll.push_back(-of[0].log_of(token)); }));
  return summarise(nll);
}

Result<Divergence> measure_divergence(SequenceRunner& a, SequenceRunner& b, std::span<const int32_t> tokens,
                                      const EvalOptions& options) {
  std::vector<double> nll_a, nll_b, kl;
  int64_t agreed = 0;
  double squares = 0;
  SequenceRunner* const both[] = {&a, &b};
  TRY_STATUS(run_all(both, tokens, options, [&](const std::vector<Prediction>& of, size_t token) {
    nll_a.push_back(-of[0].log_of(token));
    nll_b.push_back(-of[1].log_of(token));
    kl.push_back(divergence(of[0], of[1]));
    agreed += of[0].best() == of[1].best() ? 1 : 0;
    const double change = std::exp(of[1].log_of(token)) - std::exp(of[0].log_of(token));
    squares += change * change;
  }));
  Divergence result;
  result.a = summarise(nll_a);
  result.b = summarise(nll_b);
  const auto count = static_cast<double>(kl.size());
  result.mean = mean_of(kl);
  result.mean_error = error_of(kl, result.mean);
  result.top1_agreement = static_cast<double>(agreed) / count;
  result.rms_delta_p = std::sqrt(squares / count);
  std::ranges::sort(kl);
  result.median = percentile(kl, 0.5);
  result.p99 = percentile(kl, 0.99);
  result.largest = kl.back();
  return result;
}

}  // namespace vernier
