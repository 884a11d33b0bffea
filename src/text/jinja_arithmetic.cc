#include <cmath>

#include "text/jinja_interpreter.h"

// Python's operators.
namespace vernier::jinja {
namespace {

const char* symbol_of(Operator op) {
  static constexpr const char* kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void fail_operands(Operator op, const Value& a, const Value& b) {
  if (a.undefined()) fail_undefined(a);
  if (b.undefined()) fail_undefined(b);
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(op), type_name(a), type_name(b));
}

[[noreturn]] void fail_overflow() {
  fail("an integer of this template needs more than 127 bits");
}

WideInteger floor_divide(WideInteger a, WideInteger b) {
  const WideInteger quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

WideInteger floor_modulo(WideInteger a, WideInteger b) {
  const WideInteger rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

WideInteger integer_power(WideInteger base, WideInteger exponent) {
  WideInteger result = 1;
  while (true) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
}

double true_divide(WideInteger a, WideInteger b) {
  constexpr WideInteger kExact = WideInteger{1} << 53;
  if (a > -kExact && a < kExact && b > -kExact && b < kExact) return static_cast<double>(a) / static_cast<double>(b);
  return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double float_floor_divide(double a, double b) {
  const double rest = float_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("complex numbers are not supported");
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("numerical result out of range");
  return result;
}

Value float_arithmetic(Operator op, double a, double b) {
  const bool division = op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (division && b == 0)
    fail("{}", op == Operator::kDivide ? "float division by zero" : "float floor division or modulo by zero");
  switch (op) {
    case Operator::kAdd:
      return Value::number(a + b);
    case Operator::kSubtract:
      return Value::number(a - b);
    case Operator::kMultiply:
      return Value::number(a * b);
    case Operator::kDivide:
      return Value::number(a / b);
    case Operator::kFloorDivide:
      return Value::number(float_floor_divide(a, b));
    case Operator::kModulo:
      return Value::number(float_modulo(a, b));
    default:
      return Value::number(float_power(a, b));
  }
}

Value integer_arithmetic(Heap& heap, Operator op, WideInteger a, WideInteger b) {
  WideInteger result = 0;
  const bool division = op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (division && b == 0)
    fail("{}", op == Operator::kDivide ? "division by zero" : "integer division or modulo by zero");
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return heap.integer(result);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return heap.integer(result);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return heap.integer(result);
    case Operator::kDivide:
      return Value::number(true_divide(a, b));
    case Operator::kFloorDivide:
      return heap.integer(floor_divide(a, b));
    case Operator::kModulo:
      return heap.integer(floor_modulo(a, b));
    default:
      if (b >= 0) return heap.integer(integer_power(a, b));
      return Value::number(float_power(static_cast<double>(a), static_cast<double>(b)));
  }
}

Value repeat(Interpreter& in, const Value& value, const Value& times) {
  Heap& heap = in.heap();
  if (times.is(Kind::kWide)) fail("cannot fit 'int' into an index-sized integer");
  const int64_t count = std::max<int64_t>(0, times.as_int());
  if (value.is_string()) {
    const StringObject& unit = value.str();
    heap.check_bytes(static_cast<uint64_t>(
        std::min<WideInteger>(WideInteger{count} * static_cast<int64_t>(unit.text.size()), INT64_MAX)));
    heap.spend(static_cast<uint64_t>(count) / 8);
    StringBuilder out;
    for (int64_t i = 0; i < count && !unit.text.empty(); ++i) out.append(unit);
    return out.take(heap, unit.markup);
  }
  const std::vector<Value>& items = value.as<ListObject>().items;
  std::vector<Value> made;
  for (int64_t i = 0; i < count && !items.empty(); ++i) {
    heap.spend_elements(items.size());
    made.insert(made.end(), items.begin(), items.end());
  }
  return heap.list(std::move(made), value.kind());
}

Value add_strings(Interpreter& in, const Value& a, const Value& b) {
  StringBuilder out;
  in.heap().check_bytes(a.text().size() + b.text().size());
  const bool markup = a.str().markup || b.str().markup;
  for (const Value* part : {&a, &b}) {
    if (markup) {
      in.append_escaped(out, *part);
    } else {
      out.append(part->str());
    }
  }
  return out.take(in.heap(), markup);
}

Value add_lists(Interpreter& in, const Value& a, const Value& b) {
  const auto &x = a.as<ListObject>().items, &y = b.as<ListObject>().items;
  std::vector<Value> items;
  items.reserve(x.size() + y.size());
  items.insert(items.end(), x.begin(), x.end());
  items.insert(items.end(), y.begin(), y.end());
  return in.heap().list(std::move(items), a.kind());
}

}  // namespace

Value Interpreter::arithmetic(Operator op, const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return integer_arithmetic(heap_, op, wide(a), wide(b));
  if (a.is_number() && b.is_number()) return float_arithmetic(op, to_double(a), to_double(b));
  if (op == Operator::kAdd) {
    if (a.is_string() && b.is_string()) return add_strings(*this, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return add_lists(*this, a, b);
    if (a.is_string() && !b.undefined()) fail("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (op == Operator::kMultiply) {
    if ((a.is_string() || a.is_sequence()) && b.is_integer()) return repeat(*this, a, b);
    if ((b.is_string() || b.is_sequence()) && a.is_integer()) return repeat(*this, b, a);
  }
  if (op == Operator::kModulo && a.is_string()) return percent_format(*this, a.str(), b);
  fail_operands(op, a, b);
}

Value Interpreter::negate(const Value& value) {
  if (value.undefined()) fail_undefined(value);
  if (value.is(Kind::kFloat)) return Value::number(-value.as_float());
  if (!value.is_integer()) fail("bad operand type for unary -: '{}'", type_name(value));
  return integer_arithmetic(heap_, Operator::kSubtract, 0, wide(value));
}

bool Interpreter::compare(Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return equal(heap_, a, b);
    case Operator::kNotEqual:
      return !equal(heap_, a, b);
    case Operator::kLess:
      return less(heap_, a, b, "<");
    case Operator::kLessEqual:
      return less(heap_, a, b, "<=") || equal(heap_, a, b);
    case Operator::kGreater:
      return less(heap_, b, a, ">");
    case Operator::kGreaterEqual:
      return less(heap_, b, a, ">=") || equal(heap_, a, b);
    case Operator::kIn:
      return contains(b, a);
    default:
      return !contains(b, a);
  }
}

}  // namespace vernier::jinja
