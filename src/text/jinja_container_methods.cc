#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja_interpreter.h"

// The methods of list, tuple, dict, int and float that the sandbox allows.
namespace vernier::jinja {
namespace {

using In = Interpreter;

Value view_of(In& in, const Value& self, ViewObject::Part part) {
  auto* view = in.heap().make<ViewObject>();
  view->part = part;
  view->dict = &self.as<DictObject>();
  return Value::object(Kind::kView, view);
}
Value dict_keys(In& in, const Value& self, const Value*) {
  return view_of(in, self, ViewObject::Part::kKeys);
}
Value dict_values(In& in, const Value& self, const Value*) {
  return view_of(in, self, ViewObject::Part::kValues);
}
Value dict_items(In& in, const Value& self, const Value*) {
  return view_of(in, self, ViewObject::Part::kItems);
}

Value dict_get(In& in, const Value& self, const Value* a) {
  const Value* found = find(in.heap(), self.as<DictObject>(), a[0]);
  if (found != nullptr) return *found;
  return a[1].missing() ? Value::none() : a[1];
}

Value itself(In&, const Value& self, const Value*) {
  return self;
}

Value dict_fromkeys(In& in, const Value&, const Value* a) {
  DictObject* made = in.heap().dict();
  in.for_each(a[0], [&](const Value& key) {
    in.heap().insert(*made, key, a[1].missing() ? Value::none() : a[1]);
    return true;
  });
  return Value::object(Kind::kDict, made);
}

Value list_count(In& in, const Value& self, const Value* a) {
  int64_t count = 0;
  for (const Value& item : self.as<ListObject>().items) count += equal(in.heap(), item, a[0]);
  return Value::integer(count);
}

Value list_index(In& in, const Value& self, const Value* a) {
  const std::vector<Value>& items = self.as<ListObject>().items;
  const auto size = static_cast<int64_t>(items.size());
  const auto clip = [&](const Value& value, int64_t otherwise) {
    const int64_t index = int_or(value, otherwise, "slice indices");
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t stop = clip(a[2], size);
  for (int64_t i = clip(a[1], 0); i < stop; ++i) {
    if (equal(in.heap(), items[static_cast<size_t>(i)], a[0])) return Value::integer(i);
  }
  fail("value is not in {}", type_name(self));
}

Value range_count(In& in, const Value& self, const Value* a) {
  return Value::integer(in.contains(self, a[0]));
}

Value range_index(In& in, const Value& self, const Value* a) {
  if (!in.contains(self, a[0])) fail("value is not in range");
  const auto& range = self.as<RangeObject>();
  return Value::integer((static_cast<int64_t>(to_double(a[0])) - range.start) / range.step);
}

Value int_bit_length(In&, const Value& self, const Value*) {
  WideInteger value = wide(self);
  int64_t bits = 0;
  for (value = value < 0 ? -value : value; value != 0; value >>= 1) ++bits;
  return Value::integer(bits);
}

Value float_is_integer(In&, const Value& self, const Value*) {
  return Value::boolean(std::isfinite(self.as_float()) && std::floor(self.as_float()) == self.as_float());
}

const auto kDictMethods = std::to_array<Filter>({
    {"copy", "/", itself},
    {"fromkeys", "/iterable value?", dict_fromkeys},
    {"get", "/key default?", dict_get},
    {"items", "/", dict_items},
    {"keys", "/", dict_keys},
    {"values", "/", dict_values},
});
const auto kListMethods = std::to_array<Filter>({
    {"count", "/value", list_count},
    {"index", "/value start? stop?", list_index},
    {"copy", "/", itself},
});
const auto kRangeMethods = std::to_array<Filter>({{"count", "/value", range_count}, {"index", "/value", range_index}});
const auto kIntMethods = std::to_array<Filter>({{"bit_length", "/", int_bit_length}, {"conjugate", "/", itself}});
const auto kFloatMethods = std::to_array<Filter>({{"is_integer", "/", float_is_integer}, {"conjugate", "/", itself}});

template <size_t N>
const Filter* find_in(const std::array<Filter, N>& methods, std::string_view name) {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const Filter& method) { return method.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace

const Filter* find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return find_string_method(name);
    case Kind::kDict:
      return find_in(kDictMethods, name);
    case Kind::kList:
      return find_in(kListMethods, name);
    case Kind::kTuple:
      return name == "copy" ? nullptr : find_in(kListMethods, name);
    case Kind::kRange:
      return find_in(kRangeMethods, name);
    case Kind::kInt:
    case Kind::kBool:
    case Kind::kWide:
      return find_in(kIntMethods, name);
    case Kind::kFloat:
      return find_in(kFloatMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace vernier::jinja
