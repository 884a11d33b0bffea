#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja_value.h"

// Python's comparison, truth, length and naming of values.
namespace vernier::jinja {

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kWide:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.str().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView: {
      const auto part = value.as<ViewObject>().part;
      return part == ViewObject::Part::kKeys     ? "dict_keys"
             : part == ViewObject::Part::kValues ? "dict_values"
                                                 : "dict_items";
    }
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.as<IteratorObject>().type;
    case Kind::kNamespace:
      return "TemplateNamespace";
    case Kind::kNative:
      return value.as<NativeObject>().type();
  }
  return "object";
}

std::string type_repr(const Value& value) {
  return value.is(Kind::kNone) ? "None" : std::string(type_name(value)) + " object";
}

std::string undefined_message(const Value& value) {
  const auto& object = value.as<UndefinedObject>();
  if (!object.hint.empty()) return object.hint;
  const std::string name = object.name.is_string()    ? "'" + object.name.text() + "'"
                           : object.name.is_integer() ? integer_text(wide(object.name))
                                                      : std::string(type_name(object.name));
  if (object.owner == nullptr) return name + " is undefined";
  const std::string owner = std::strcmp(object.owner, "NoneType") == 0 ? "None" : std::string(object.owner) + " object";
  if (object.name.is_string()) return "'" + owner + "' has no attribute " + name;
  return owner + " has no element " + name;
}

void fail_undefined(const Value& value) {
  throw Failure{undefined_message(value)};
}

bool length_of(const Value& value, int64_t& length) {
  switch (value.kind()) {
    case Kind::kUndefined:
      length = 0;
      return true;
    case Kind::kString:
      length = static_cast<int64_t>(value.str().length());
      return true;
    case Kind::kList:
    case Kind::kTuple:
      length = static_cast<int64_t>(value.as<ListObject>().items.size());
      return true;
    case Kind::kDict:
      length = static_cast<int64_t>(value.as<DictObject>().entries.size());
      return true;
    case Kind::kView:
      length = static_cast<int64_t>(value.as<ViewObject>().dict->entries.size());
      return true;
    case Kind::kRange:
      length = value.as<RangeObject>().length();
      return true;
    default:
      return false;
  }
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kWide:
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kNative:
      return true;
    default: {
      int64_t length = 0;
      return length_of(value, length) && length != 0;
    }
  }
}

uint32_t nesting_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return value.as<ListObject>().nesting;
    case Kind::kDict:
      return value.as<DictObject>().nesting;
    case Kind::kView:
      return value.as<ViewObject>().dict->nesting;
    case Kind::kIterator:
      return value.as<IteratorObject>().nesting;
    default:
      return 0;
  }
}

WideInteger wide(const Value& value) {
  return value.is(Kind::kWide) ? value.as<WideObject>().value : value.as_int();
}

double to_double(const Value& value) {
  return value.is(Kind::kFloat)  ? value.as_float()
         : value.is(Kind::kWide) ? static_cast<double>(value.as<WideObject>().value)
                                 : static_cast<double>(value.as_int());
}

std::string integer_text(WideInteger value) {
  const bool negative = value < 0;
  unsigned __int128 rest = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

namespace {

/// -1, 0, 1, or 2 where one is not a number.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) {
    // An x86 long double holds every int64 and every double.
    const auto exact = [](const Value& value) {
      return value.is(Kind::kFloat) ? static_cast<long double>(value.as_float())
                                    : static_cast<long double>(wide(value));
    };
    const long double x = exact(a), y = exact(b);
    return std::isnan(x) || std::isnan(y) ? 2 : x < y ? -1 : x > y ? 1 : 0;
  }
  const WideInteger x = wide(a), y = wide(b);
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equal_items(Heap& heap, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  heap.spend(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(heap, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  heap.spend(a.entries.size());
  for (const auto& [key, value] : a.entries) {
    const Value* other = find(heap, b, key);
    if (other == nullptr || !equal(heap, value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  const int64_t length = a.length();
  if (length != b.length()) return false;
  return length == 0 || (a.start == b.start && (length == 1 || a.step == b.step));
}

}  // namespace

bool equal(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (a.is_number() && b.is_number()) {
    // Python's containers take an object for equal to itself, NaN included; a NaN here never is.
    return compare_numbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kList:
    case Kind::kTuple:
      return a.object() == b.object() || equal_items(heap, a.as<ListObject>().items, b.as<ListObject>().items);
    case Kind::kDict:
      return a.object() == b.object() || equal_dicts(heap, a.as<DictObject>(), b.as<DictObject>());
    case Kind::kRange:
      return equal_ranges(a.as<RangeObject>(), b.as<RangeObject>());
    case Kind::kView: {
      const auto &x = a.as<ViewObject>(), &y = b.as<ViewObject>();
      if (x.part != y.part || x.part == ViewObject::Part::kValues) return a.object() == b.object();
      if (x.part == ViewObject::Part::kItems) return equal_dicts(heap, *x.dict, *y.dict);
      if (x.dict->entries.size() != y.dict->entries.size()) return false;
      for (const auto& entry : x.dict->entries) {
        if (find(heap, *y.dict, entry.first) == nullptr) return false;
      }
      return true;
    }
    default:
      return a.object() == b.object();
  }
}

bool less(Heap& heap, const Value& a, const Value& b, const char* operation) {
  if (a.is_string() && b.is_string()) return a.text() < b.text();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.undefined()) fail_undefined(a);
  if (b.undefined()) fail_undefined(b);
  if (a.kind() != b.kind() || !a.is_sequence()) {
    fail("'{}' not supported between instances of '{}' and '{}'", operation, type_name(a), type_name(b));
  }
  const auto &x = a.as<ListObject>().items, &y = b.as<ListObject>().items;
  heap.spend(std::min(x.size(), y.size()));
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equal(heap, x[i], y[i])) return less(heap, x[i], y[i], operation);
  }
  return x.size() < y.size();
}

}  // namespace vernier::jinja
