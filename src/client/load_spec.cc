#include "client/load_spec.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/random.h"

namespace vernier {
namespace {

// Words that nearly every vocabulary has as one token behind a space.
constexpr std::string_view kWords[] = {
    "the",  "road",   "over",  "green", "hill",   "was",   "long",   "and",   "cold",   "when",     "she",   "came",
    "back", "from",   "town",  "with",  "bread",  "milk",  "an",     "old",   "friend", "who",      "had",   "seen",
    "many", "ships",  "sail",  "out",   "of",     "that",  "small",  "port",  "before", "winter",   "each",  "light",
    "in",   "window", "made",  "them",  "think",  "about", "summer", "days",  "when",   "children", "would", "run",
    "down", "to",     "water", "where", "stones", "were",  "warm",   "white", "so",     "they",     "never", "forgot"};

/// Independent numbers from a seed: the n-th is a hash, so no state is shared between threads.
uint64_t draw(uint64_t seed, uint64_t stream, uint64_t n) {
  return fmix64(fmix64(fmix64(seed + 0x9e3779b97f4a7c15ULL) + stream) + n + 1);
}

std::string words(uint64_t seed, uint64_t stream, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[draw(seed, stream, static_cast<uint64_t>(i)) % std::size(kWords)];
  }
  return text;
}

int draw_length(const LengthRange& range, uint64_t seed, uint64_t stream) {
  const auto span = static_cast<uint64_t>(range.most - range.least + 1);
  return range.least + static_cast<int>(draw(seed, stream, 0) % span);
}

constexpr uint64_t kPrefixStream = 1, kGapStream = 2, kPromptLengthStream = 3, kOutputLengthStream = 4,
                   kTailStream = 1000;

}  // namespace

Result<LengthRange> parse_length_range(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string first = text.substr(0, colon);
  const std::string last = colon == std::string::npos ? first : text.substr(colon + 1);
  LengthRange range;
  auto read = [](const std::string& digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty() && value >= 0 &&
           value <= 10'000'000;
  };
  if (!read(first, range.least) || !read(last, range.most) || range.least > range.most) {
    return invalid_argument("{}: expected a number of tokens, or two as in 64:256", text);
  }
  return range;
}

std::vector<int64_t> arrival_times_ns(const LoadSpec& spec) {
  std::vector<int64_t> times(static_cast<size_t>(spec.requests), 0);
  if (spec.arrival == ArrivalProcess::kClosed) return times;
  double seconds = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    times[i] = static_cast<int64_t>(seconds * 1e9);
    // 53 bits, never 0: its logarithm is finite.
    const double uniform = (static_cast<double>(draw(spec.seed, kGapStream, i) >> 11) + 0.5) * 0x1p-53;
    seconds += (spec.arrival == ArrivalProcess::kPoisson ? -std::log(uniform) : 1.0) / spec.requests_per_s;
  }
  return times;
}

nlohmann::json load_body(const LoadSpec& spec, uint64_t prefix_seed, int number) {
  const auto n = static_cast<uint64_t>(number);
  const uint64_t own = fmix64(prefix_seed) + n;
  const int tail = draw_length(spec.prompt_tokens, own, kPromptLengthStream);
  std::string prompt = words(prefix_seed, kPrefixStream, spec.shared_prefix_tokens);
  if (tail > 0) prompt += (prompt.empty() ? "" : " ") + words(own, kTailStream, tail);
  nlohmann::json body = {{"model", spec.model},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}},
                         {"max_tokens", draw_length(spec.output_tokens, own, kOutputLengthStream)},
                         {"temperature", 0}};
  if (spec.chat) {
    body["messages"] = nlohmann::json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  body.update(spec.extra);
  return body;
}

}  // namespace vernier
