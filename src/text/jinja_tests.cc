#include <array>
#include <unordered_map>

#include "text/jinja_interpreter.h"

// What may follow `is`.
namespace vernier::jinja {
namespace {

using In = Interpreter;

Value remainder(In& in, const Value& value, const Value& by) {
  return in.arithmetic(Operator::kModulo, value, by);
}

bool test_odd(In& in, const Value& value, const Value*) {
  return equal(in.heap(), remainder(in, value, Value::integer(2)), Value::integer(1));
}
bool test_even(In& in, const Value& value, const Value*) {
  return equal(in.heap(), remainder(in, value, Value::integer(2)), Value::integer(0));
}
bool test_divisibleby(In& in, const Value& value, const Value* a) {
  return equal(in.heap(), remainder(in, value, a[0]), Value::integer(0));
}
bool test_defined(In&, const Value& value, const Value*) {
  return !value.undefined();
}
bool test_undefined(In&, const Value& value, const Value*) {
  return value.undefined();
}
bool test_filter(In& in, const Value& value, const Value*) {
  hash_of(in.heap(), value);  // Python looks it up in a dictionary, and fails for a list
  return value.is_string() && find_filter(value.text()) != nullptr;
}
bool test_test(In& in, const Value& value, const Value*) {
  hash_of(in.heap(), value);
  return value.is_string() && find_test(value.text()) != nullptr;
}
bool test_none(In&, const Value& value, const Value*) {
  return value.is(Kind::kNone);
}
bool test_boolean(In&, const Value& value, const Value*) {
  return value.is(Kind::kBool);
}
bool test_true(In&, const Value& value, const Value*) {
  return value.is(Kind::kBool) && value.as_int() != 0;
}
bool test_false(In&, const Value& value, const Value*) {
  return value.is(Kind::kBool) && value.as_int() == 0;
}
bool test_integer(In&, const Value& value, const Value*) {
  return value.is(Kind::kInt) || value.is(Kind::kWide);
}
bool test_float(In&, const Value& value, const Value*) {
  return value.is(Kind::kFloat);
}
bool test_string(In&, const Value& value, const Value*) {
  return value.is_string();
}
bool test_mapping(In&, const Value& value, const Value*) {
  return value.is(Kind::kDict);
}
bool test_number(In&, const Value& value, const Value*) {
  return value.is_number();
}
bool test_escaped(In&, const Value& value, const Value*) {
  return value.is_string() && value.str().markup;
}

bool method_says(In& in, const Value& value, std::string_view method) {
  Arguments none;
  return truthy(in.apply(*find_string_method(method), in.to_string(value), none));
}
bool test_lower(In& in, const Value& value, const Value*) {
  return method_says(in, value, "islower");
}
bool test_upper(In& in, const Value& value, const Value*) {
  return method_says(in, value, "isupper");
}

bool test_sequence(In&, const Value& value, const Value*) {
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) || value.is(Kind::kRange) ||
         value.undefined();
}
bool test_iterable(In&, const Value& value, const Value*) {
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) || value.is(Kind::kRange) ||
         value.undefined() || value.is(Kind::kView) || value.is(Kind::kIterator);
}
bool test_callable(In&, const Value& value, const Value*) {
  return value.undefined() || (value.is(Kind::kNative) && value.as<NativeObject>().callable());
}

/// Identity: of None and booleans by value, of objects by place; small integers and equal texts are one object too.
bool test_sameas(In& in, const Value& value, const Value* a) {
  if (value.kind() != a[0].kind()) return false;
  if (value.is_string()) return value.text() == a[0].text();
  if (value.is_number() || value.is(Kind::kNone)) return equal(in.heap(), value, a[0]);
  return value.same_object(a[0]);
}

bool test_in(In& in, const Value& value, const Value* a) {
  return in.contains(a[0], value);
}

template <Operator op>
bool test_compare(In& in, const Value& value, const Value* a) {
  return in.compare(op, value, a[0]);
}
constexpr auto kEqual = test_compare<Operator::kEqual>, kNotEqual = test_compare<Operator::kNotEqual>;
constexpr auto kLess = test_compare<Operator::kLess>, kLessEqual = test_compare<Operator::kLessEqual>;
constexpr auto kGreater = test_compare<Operator::kGreater>, kGreaterEqual = test_compare<Operator::kGreaterEqual>;

const auto kTests = std::to_array<Test>({
    {"odd", "", test_odd},
    {"even", "", test_even},
    {"divisibleby", "num", test_divisibleby},
    {"defined", "", test_defined},
    {"undefined", "", test_undefined},
    {"filter", "", test_filter},
    {"test", "", test_test},
    {"none", "", test_none},
    {"boolean", "", test_boolean},
    {"false", "", test_false},
    {"true", "", test_true},
    {"integer", "", test_integer},
    {"float", "", test_float},
    {"lower", "", test_lower},
    {"upper", "", test_upper},
    {"string", "", test_string},
    {"mapping", "", test_mapping},
    {"number", "", test_number},
    {"sequence", "", test_sequence},
    {"iterable", "", test_iterable},
    {"callable", "", test_callable},
    {"sameas", "other", test_sameas},
    {"escaped", "", test_escaped},
    {"in", "seq", test_in},
    {"==", "/other", kEqual},
    {"eq", "/other", kEqual},
    {"equalto", "/other", kEqual},
    {"!=", "/other", kNotEqual},
    {"ne", "/other", kNotEqual},
    {">", "/other", kGreater},
    {"gt", "/other", kGreater},
    {"greaterthan", "/other", kGreater},
    {"ge", "/other", kGreaterEqual},
    {">=", "/other", kGreaterEqual},
    {"<", "/other", kLess},
    {"lt", "/other", kLess},
    {"lessthan", "/other", kLess},
    {"<=", "/other", kLessEqual},
    {"le", "/other", kLessEqual},
});

}  // namespace

const Test* find_test(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Test*> made;
    for (const Test& test : kTests) made.emplace(test.name, &test);
    return made;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace vernier::jinja
