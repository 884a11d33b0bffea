#include "engine/generate.h"

#include <algorithm>

#include "base/clock.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace vernier {
namespace {

/// Tokens to certain text: whole characters, searched for stop strings.
class TextOut {
 public:
  TextOut(const Tokenizer& tokenizer, StopMatcher stops, const std::function<void(std::string_view)>& sink)
      : detokenizer_(tokenizer, /*skip_special=*/true), stops_(std::move(stops)), sink_(sink) {}

  /// True once a stop string is found.
  bool push(int32_t token) { return push_text(detokenizer_.push(token)); }
  /// The rest of the text. True if it ends in a stop string.
  bool finish() {
    if (stops_.stopped() || push_text(detokenizer_.finish())) return true;
    certain_.clear();
    const bool stopped = stops_.finish(certain_);
    emit();
    return stopped;
  }

 private:
  bool push_text(const std::string& text) {
    certain_.clear();
    const bool stopped = stops_.push(text, certain_);
    emit();
    return stopped;
  }
  void emit() {
    if (!certain_.empty() && sink_) sink_(certain_);
  }

  Detokenizer detokenizer_;
  StopMatcher stops_;
  const std::function<void(std::string_view)>& sink_;
  std::string certain_;
};

}  // namespace

Result<Generated> generate(SequenceRunner& runner, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                           const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  TRY_BIND(StopMatcher stops, StopMatcher::make(options.stops));
  TextOut text(tokenizer, std::move(stops), on_text);
  TokenHistory history(prompt);
  Generated generated;
  Stopwatch watch;
  if (static_cast<size_t>(runner.position()) >= prompt.size()) {
    return invalid_argument("a prompt of {} tokens goes on from {} cached ones; at least one must be new",
                            prompt.size(), runner.position());
  }
  std::span<const int32_t> next = prompt.subspan(static_cast<size_t>(runner.position()));
  while (true) {
    if (static_cast<int32_t>(generated.tokens.size()) >= options.max_tokens) {
      generated.reason = FinishReason::kLength;
      break;
    }
    if (!generated.tokens.empty() && runner.position() >= runner.context_tokens()) {
      generated.reason = FinishReason::kContext;
      break;
    }
    SampleSpec spec = history.next_spec(options.sampling, 0);
    spec.known_tokens = static_cast<int32_t>(tokenizer.vocabulary_size());
    TRY_BIND(SampledToken sampled, runner.feed_and_sample(next, spec));
    if (generated.prefill_ns == 0) generated.prefill_ns = watch.elapsed_ns();
    if (std::ranges::find(options.end_tokens, sampled.token) != options.end_tokens.end()) {
      generated.reason = FinishReason::kStop;
      break;
    }
    history.append(sampled.token);
    generated.tokens.push_back(sampled.token);
    next = {&generated.tokens.back(), 1};
    if (text.push(sampled.token)) {
      generated.reason = FinishReason::kStop;
      break;
    }
  }
  if (text.finish()) generated.reason = FinishReason::kStop;
  generated.decode_ns = watch.elapsed_ns() - generated.prefill_ns;
  return generated;
}

}  // namespace vernier
