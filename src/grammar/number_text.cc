#include "grammar/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

namespace vernier {
namespace {

constexpr int kDigits = 18;
constexpr int64_t kLargest = 999'999'999'999'999'999;
constexpr int kFraction = 6;
constexpr int64_t kOne = 1'000'000;  // 10^kFraction

int64_t power_of_ten(int n) {
  int64_t power = 1;
  for (int i = 0; i < n; ++i) power *= 10;
  return power;
}

/// A decimal text is digits x 10^exponent, with a sign.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t exponent = 0;
};

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal number;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') number.negative = true, ++at;
  bool point = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      point = true;
    } else if (text[at] >= '0' && text[at] <= '9') {
      if (!(number.digits.empty() && text[at] == '0')) number.digits += text[at];
      if (point) --number.exponent;
    } else {
      return std::nullopt;
    }
  }
  if (at < text.size()) {
    int64_t exponent = 0;
    const size_t sign = at + 1 < text.size() && text[at + 1] == '+' ? 2 : 1;
    auto [end, error] = std::from_chars(text.data() + at + sign, text.data() + text.size(), exponent);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    number.exponent += exponent;
  }
  return number;
}

enum class Side : uint8_t { kLow, kHigh };

/// The multiple of 10^-scale that is the nearest one inside a bound; saturates at +-(kLargest + 1), which is outside.
int64_t inside(const Decimal& bound, int scale, Side side, bool exclusive) {
  if (bound.digits.empty()) return exclusive ? (side == Side::kLow ? 1 : -1) : 0;
  const int64_t shift = bound.exponent + scale;
  const auto length = static_cast<int64_t>(bound.digits.size());
  const int64_t outside = kLargest + 1;
  if (length + shift > kDigits) return bound.negative ? -outside : outside;
  int64_t value = 0;
  bool cut = false;  // something is left behind the grid
  for (int64_t i = 0; i < length + std::max<int64_t>(shift, 0); ++i) {
    const int digit = i < length ? bound.digits[static_cast<size_t>(i)] - '0' : 0;
    if (i < length + shift) {
      value = value * 10 + digit;
    } else {
      cut |= digit != 0;
    }
  }
  if (bound.negative) value = -value;
  // Now value is the bound, cut towards zero.
  if (side == Side::kLow) {
    if (cut) return bound.negative ? value : value + 1;
    return exclusive ? value + 1 : value;
  }
  if (cut) return bound.negative ? value - 1 : value;
  return exclusive ? value - 1 : value;
}

struct GridRange {
  int64_t low, high;
};

Result<GridRange> grid_range(const NumberBounds& bounds, int scale) {
  GridRange range{-kLargest, kLargest};
  std::string lowest, highest;  // the bounds that count, as the schema says them
  auto apply = [&](const char* keyword, const std::optional<std::string>& text, Side side, bool exclusive) -> Status {
    if (!text) return {};
    std::optional<Decimal> bound = read_decimal(*text);
    if (!bound) return invalid_argument("'{}' is no decimal number", *text);
    const int64_t value = inside(*bound, scale, side, exclusive);
    int64_t& end = side == Side::kLow ? range.low : range.high;
    if (side == Side::kLow ? value <= end : value >= end) return {};
    end = value;
    (side == Side::kLow ? lowest : highest) = fmt::format("{} {}", keyword, *text);
    return {};
  };
  TRY_STATUS(apply("minimum", bounds.minimum, Side::kLow, false));
  TRY_STATUS(apply("exclusiveMinimum", bounds.exclusive_minimum, Side::kLow, true));
  TRY_STATUS(apply("maximum", bounds.maximum, Side::kHigh, false));
  TRY_STATUS(apply("exclusiveMaximum", bounds.exclusive_maximum, Side::kHigh, true));
  if (range.low > range.high) {
    if (!lowest.empty() && !highest.empty()) {
      return invalid_argument("no number that can be written with {} digits satisfies both {} and {}", kDigits, lowest,
                              highest);
    }
    return invalid_argument("no number within the bounds can be written with {} digits", kDigits);
  }
  return range;
}

std::string join(const std::vector<std::string>& alternatives) {
  return alternatives.size() == 1 ? alternatives[0] : fmt::format("({})", fmt::join(alternatives, " | "));
}

std::string any_digits(size_t count) {
  return count == 0 ? "\"\"" : count == 1 ? "[0-9]" : fmt::format("[0-9]{{{}}}", count);
}

std::string digit_between(char first, char last) {
  return first == last ? fmt::format("\"{}\"", first) : fmt::format("[{}-{}]", first, last);
}

/// Digit strings of one length, from low to high.
std::string digits_between(std::string_view low, std::string_view high) {
  const size_t length = low.size();
  if (length == 0) return "\"\"";
  if (low == std::string(length, '0') && high == std::string(length, '9')) return any_digits(length);
  if (low[0] == high[0]) {
    std::string rest = digits_between(low.substr(1), high.substr(1));
    return length == 1 ? digit_between(low[0], high[0]) : fmt::format("\"{}\" {}", low[0], rest);
  }
  const std::string zeros(length - 1, '0');
  const std::string nines(length - 1, '9');
  char first = low[0];
  char last = high[0];
  std::vector<std::string> alternatives;
  if (low.substr(1) != zeros) {
    alternatives.push_back(fmt::format("\"{}\" {}", first, digits_between(low.substr(1), nines)));
    ++first;
  }
  std::string tail;
  if (high.substr(1) != nines) {
    tail = fmt::format("\"{}\" {}", last, digits_between(zeros, high.substr(1)));
    --last;
  }
  if (first <= last) {
    std::string middle = digit_between(first, last);
    alternatives.push_back(length == 1 ? middle : middle + " " + any_digits(length - 1));
  }
  if (!tail.empty()) alternatives.push_back(tail);
  return join(alternatives);
}

/// Integers from low to high, both not negative, without leading zeros.
std::string natural_between(int64_t low, int64_t high) {
  std::vector<std::string> alternatives;
  for (int length = 1; length <= kDigits; ++length) {
    const int64_t first = std::max(low, length == 1 ? 0 : power_of_ten(length - 1));
    const int64_t last = std::min(high, power_of_ten(length) - 1);
    if (first > last) continue;
    if (length > 1 && first == power_of_ten(length - 1) && last == power_of_ten(length) - 1) {
      // Whole lengths share one repetition.
      int longest = length;
      while (longest < kDigits && high >= power_of_ten(longest + 1) - 1) ++longest;
      alternatives.push_back(fmt::format("[1-9] [0-9]{{{},{}}}", length - 1, longest - 1));
      length = longest;
      continue;
    }
    alternatives.push_back(digits_between(fmt::format("{}", first), fmt::format("{}", last)));
  }
  return join(alternatives);
}

/// What follows the integer part for fractions from low to high, in units of 10^-kFraction.
std::string fraction_between(int64_t low, int64_t high) {
  if (low == 0 && high == kOne - 1) return fmt::format("(\".\" [0-9]{{1,{}}})?", kFraction);
  std::vector<std::string> alternatives;
  for (int length = 1; length <= kFraction; ++length) {
    const int64_t unit = power_of_ten(kFraction - length);
    const int64_t first = (low + unit - 1) / unit;
    const int64_t last = high / unit;
    if (first > last) continue;
    alternatives.push_back(digits_between(fmt::format("{:0{}}", first, length), fmt::format("{:0{}}", last, length)));
  }
  std::string text = fmt::format("(\".\" ({}))", fmt::join(alternatives, " | "));
  return low == 0 ? text + "?" : text;
}

/// Numbers from low to high in units of 10^-kFraction, both not negative.
std::string magnitude_between(int64_t low, int64_t high) {
  int64_t first = low / kOne;
  int64_t last = high / kOne;
  const int64_t low_fraction = low % kOne;
  const int64_t high_fraction = high % kOne;
  auto one = [](int64_t whole, int64_t from, int64_t to) {
    return fmt::format("\"{}\" {}", whole, fraction_between(from, to));
  };
  if (first == last) return "(" + one(first, low_fraction, high_fraction) + ")";
  std::vector<std::string> alternatives;
  if (low_fraction != 0) alternatives.push_back(one(first++, low_fraction, kOne - 1));
  std::string tail;
  if (high_fraction != kOne - 1) tail = one(last--, 0, high_fraction);
  if (first <= last) alternatives.push_back(natural_between(first, last) + " " + fraction_between(0, kOne - 1));
  if (!tail.empty()) alternatives.push_back(tail);
  return join(alternatives);
}

template <class Magnitude>
std::string with_sign(GridRange range, Magnitude magnitude) {
  std::vector<std::string> alternatives;
  if (range.low < 0) {
    alternatives.push_back("\"-\" " + magnitude(std::max<int64_t>(1, -range.high), -range.low));
  }
  if (range.high >= 0) alternatives.push_back(magnitude(std::max<int64_t>(0, range.low), range.high));
  return join(alternatives);
}

}  // namespace

Result<std::string> gbnf_integer(const NumberBounds& bounds) {
  TRY_BIND(GridRange range, grid_range(bounds, 0));
  return with_sign(range, natural_between);
}

Result<std::string> gbnf_bounded_number(const NumberBounds& bounds) {
  TRY_BIND(GridRange range, grid_range(bounds, kFraction));
  return with_sign(range, magnitude_between);
}

}  // namespace vernier
