#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja_attribute_path.h"
#include "text/jinja_filter_tables.h"

// Filters over numbers, and conversions to them.
namespace vernier::jinja {
namespace {

using In = Interpreter;

Value filter_abs(In& in, const Value& input, const Value*) {
  if (input.undefined()) fail("bad operand type for abs(): 'Undefined'");
  if (input.is(Kind::kFloat)) return Value::number(std::fabs(input.as_float()));
  if (!input.is_integer()) fail("bad operand type for abs(): '{}'", type_name(input));
  return wide(input) < 0 ? in.negate(input) : in.heap().integer(wide(input));
}

/// int(number): false where Python raises ValueError (NaN); overflow is an error or false too.
bool truncated(double number, WideInteger& out, bool overflow_fails) {
  if (std::isnan(number)) return false;
  if (std::fabs(number) < 1.7e38) {
    out = static_cast<WideInteger>(number);
    return true;
  }
  if (overflow_fails) fail("cannot convert {} to an integer of more than 127 bits", float_repr(number));
  return false;
}

Value filter_int(In& in, const Value& input, const Value* a) {
  const Value otherwise = a[0].missing() ? Value::integer(0) : a[0];
  WideInteger whole = 0;
  double number = 0;
  if (input.undefined()) fail_undefined(input);
  if (input.is_integer()) return in.heap().integer(wide(input));
  if (input.is(Kind::kFloat)) {
    return truncated(input.as_float(), whole, true) ? in.heap().integer(whole) : otherwise;
  }
  if (!input.is_string()) return otherwise;
  const int64_t base = int_or(a[1], 10, "base");
  const bool valid_base = base == 0 || (base >= 2 && base <= 36);
  if (valid_base && parse_integer(input.text(), static_cast<int>(base), whole)) return in.heap().integer(whole);
  if (parse_float(input.text(), number) && truncated(number, whole, false)) return in.heap().integer(whole);
  return otherwise;
}

Value filter_float(In&, const Value& input, const Value* a) {
  double number = 0;
  if (input.undefined()) fail_undefined(input);
  if (input.is_number()) return Value::number(to_double(input));
  if (input.is_string() && parse_float(input.text(), number)) return Value::number(number);
  return a[0].missing() ? Value::number(0) : a[0];
}

/// round(number, precision), half to even on the exact binary value.
double rounded(double number, int64_t precision) {
  if (!std::isfinite(number) || precision > 330) return number;
  if (precision >= 0) {
    char text[720];
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), number);
    return std::strtod(text, nullptr);
  }
  if (precision < -308) return std::copysign(0.0, number);
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  const double quotient = number / unit, whole = std::nearbyint(quotient);
  return whole * unit;
}

WideInteger rounded_integer(WideInteger value, int64_t precision) {
  if (precision < -38) return 0;
  WideInteger unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  WideInteger rest = value % unit;
  if (rest < 0) rest += unit;
  WideInteger down = value - rest;
  const bool odd = (down / unit) % 2 != 0;
  return rest * 2 > unit || (rest * 2 == unit && odd) ? down + unit : down;
}

Value filter_round(In& in, const Value& input, const Value* a) {
  const int64_t precision = int_or(a[0], 0, "precision");
  const std::string method = a[1].missing() ? "common" : a[1].is_string() ? a[1].text() : "";
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (input.undefined() && method != "common") fail_undefined(input);
  if (!input.is_number()) fail("type {} doesn't define __round__ method", type_name(input));
  if (method == "common") {
    if (input.is(Kind::kFloat)) return Value::number(rounded(input.as_float(), precision));
    return in.heap().integer(precision >= 0 ? wide(input) : rounded_integer(wide(input), precision));
  }
  const Value scale = in.arithmetic(Operator::kPower, Value::integer(10), Value::integer(precision));
  const Value scaled = in.arithmetic(Operator::kMultiply, input, scale);
  Value whole = scaled;
  if (scaled.is(Kind::kFloat)) {
    WideInteger made = 0;
    const double number = method == "ceil" ? std::ceil(scaled.as_float()) : std::floor(scaled.as_float());
    if (!truncated(number, made, true)) fail("cannot convert float NaN to integer");
    whole = in.heap().integer(made);
  }
  return in.arithmetic(Operator::kDivide, whole, scale);
}

Value filter_filesizeformat(In& in, const Value& input, const Value* a) {
  double bytes = 0;
  if (input.undefined()) fail_undefined(input);
  if (input.is_string() ? !parse_float(input.text(), bytes) : !input.is_number()) {
    fail("could not convert {} to float", in.plain_repr(input));
  }
  if (!input.is_string()) bytes = to_double(input);
  const bool binary = flag(a[0]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.heap().string("1 Byte");
  if (bytes < base) return in.heap().string(fmt::format("{:.0f} Bytes", std::trunc(bytes)));
  double unit = base;
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const char letter = binary && i == 0 ? 'K' : kPrefixes[i];
    return in.heap().string(fmt::format("{:.1f} {}{}", base * bytes / unit, letter, binary ? "iB" : "B"));
  }
  return {};
}

const auto kNumberFilters = std::to_array<Filter>({
    {"abs", "", filter_abs},
    {"int", "default? base?", filter_int},
    {"float", "default?", filter_float},
    {"round", "precision? method?", filter_round},
    {"filesizeformat", "binary?", filter_filesizeformat},
});

}  // namespace

std::span<const Filter> number_filters() {
  return kNumberFilters;
}

}  // namespace vernier::jinja
