#include <algorithm>
#include <unordered_set>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

// Attributes, items and slices, as the sandbox lets a template reach them.
namespace vernier::jinja {
namespace {

/// Attributes that every Python object has and the sandbox refuses.
bool is_object_attribute(const Value& object, std::string_view name) {
  static const std::unordered_set<std::string_view> kCommon = {
      "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
      "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
      "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
      "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
      "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
  static const std::unordered_set<std::string_view> kContainer = {"__len__", "__contains__", "__iter__", "__getitem__"};
  if (kCommon.count(name) != 0) return true;
  const Kind kind = object.kind();
  const bool container = kind == Kind::kString || kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kDict ||
                         kind == Kind::kRange || kind == Kind::kUndefined;
  return container && kContainer.count(name) != 0;
}

/// Methods that would change a list or a dictionary.
bool is_mutating(const Value& object, std::string_view name) {
  static const std::unordered_set<std::string_view> kList = {"append", "clear", "pop",    "reverse",
                                                             "insert", "sort",  "extend", "remove"};
  static const std::unordered_set<std::string_view> kDict = {"clear", "pop", "popitem", "setdefault", "update"};
  return (object.is(Kind::kList) && kList.count(name) != 0) || (object.is(Kind::kDict) && kDict.count(name) != 0);
}

Value number_attribute(Interpreter& in, const Value& object, std::string_view name) {
  if (name == "real") return object.is(Kind::kBool) ? Value::integer(object.as_int()) : object;
  if (name == "imag") return object.is(Kind::kFloat) ? Value::number(0) : Value::integer(0);
  if (!object.is_integer()) return {};
  if (name == "numerator") return in.heap().integer(wide(object));
  if (name == "denominator") return Value::integer(1);
  return {};
}

/// What getattr finds; missing if there is nothing.
Value own_attribute(Interpreter& in, const Value& object, std::string_view name) {
  if (object.is(Kind::kNative)) return object.as<NativeObject>().attribute(in, name);
  if (object.is(Kind::kNamespace)) {
    const Value* found = find(*object.as<NamespaceObject>().attributes, name);
    return found == nullptr ? Value() : *found;
  }
  if (object.is_number()) {
    if (Value found = number_attribute(in, object, name); !found.missing()) return found;
  }
  if (object.is(Kind::kRange)) {
    const auto& range = object.as<RangeObject>();
    if (name == "start") return Value::integer(range.start);
    if (name == "stop") return Value::integer(range.stop);
    if (name == "step") return Value::integer(range.step);
  }
  if (object.is(Kind::kTuple) && object.as<ListObject>().group) {
    if (name == "grouper") return object.as<ListObject>().items[0];
    if (name == "list") return object.as<ListObject>().items[1];
  }
  if (const Filter* method = find_method(object, name)) {
    auto* bound = in.heap().make<FunctionObject>();
    bound->function = method;
    bound->self = object;
    return Value::object(Kind::kNative, bound);
  }
  return {};
}

Value unsafe(Interpreter& in, const Value& object, std::string_view name) {
  return in.heap().undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

/// getattr with the sandbox's judgement; missing if the object has no such attribute.
Value safe_attribute(Interpreter& in, const Value& object, std::string_view name) {
  if (is_mutating(object, name)) return unsafe(in, object, name);
  if (!name.empty() && name[0] == '_' && is_object_attribute(object, name)) return unsafe(in, object, name);
  return own_attribute(in, object, name);
}

/// object[key] of Python; missing where it would raise TypeError or LookupError.
Value subscript(Interpreter& in, const Value& object, const Value& key) {
  if (object.is(Kind::kDict)) {
    const Kind kind = key.kind();
    if (kind == Kind::kList || kind == Kind::kDict || kind == Kind::kView) return {};
    const Value* found = find(in.heap(), object.as<DictObject>(), key);
    return found == nullptr ? Value() : *found;
  }
  if (!key.is(Kind::kInt) && !key.is(Kind::kBool)) return {};
  int64_t length = 0;
  const bool indexable = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!indexable || !length_of(object, length)) return {};
  int64_t index = key.as_int();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return {};
  if (object.is_sequence()) return object.as<ListObject>().items[static_cast<size_t>(index)];
  if (object.is(Kind::kRange)) {
    const auto& range = object.as<RangeObject>();
    return Value::integer(range.start + index * range.step);
  }
  return in.slice(object, Value::integer(index), Value::integer(index + 1), Value::none());
}

}  // namespace

Value Interpreter::attribute(const Value& object, const Value& name) {
  if (object.undefined()) {
    if (is_object_attribute(object, name.text())) return unsafe(*this, object, name.text());
    fail_undefined(object);
  }
  if (Value found = safe_attribute(*this, object, name.text()); !found.missing()) return found;
  if (Value found = subscript(*this, object, name); !found.missing()) return found;
  return heap_.undefined_name(name, type_name(object));
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.undefined()) fail_undefined(object);
  if (Value found = subscript(*this, object, key); !found.missing()) return found;
  if (key.is_string()) {
    if (Value found = safe_attribute(*this, object, key.text()); !found.missing()) return found;
  }
  return heap_.undefined_name(key, type_name(object));
}

namespace {

/// A slice's bounds by Python's rules for a sequence of `length` elements.
struct Bounds {
  int64_t start, stop, step;

  int64_t count() const {
    if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
};

int64_t slice_index(const Value& value, int64_t otherwise) {
  if (value.is(Kind::kNone)) return otherwise;
  if (value.is(Kind::kWide)) return wide(value) < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
  if (!value.is_integer()) fail("slice indices must be integers or None or have an __index__ method");
  return std::clamp<int64_t>(value.as_int(), INT64_MIN / 2, INT64_MAX / 2);
}

Bounds resolve(const Value& start, const Value& stop, const Value& step, int64_t length) {
  Bounds bounds{0, 0, slice_index(step, 1)};
  if (bounds.step == 0) fail("slice step cannot be zero");
  const bool forward = bounds.step > 0;
  const auto clip = [&](int64_t index) {
    if (index < 0) index += length;
    return std::clamp<int64_t>(index, forward ? 0 : -1, forward ? length : length - 1);
  };
  bounds.start = start.is(Kind::kNone) ? (forward ? 0 : length - 1) : clip(slice_index(start, 0));
  bounds.stop = stop.is(Kind::kNone) ? (forward ? length : -1) : clip(slice_index(stop, 0));
  return bounds;
}

Value slice_string(Heap& heap, const StringObject& string, const Bounds& bounds) {
  const std::string& text = string.text;
  const auto count = static_cast<size_t>(bounds.count());
  if (count == 0) return heap.part(string, 0, 0);
  if (string.is_ascii()) {
    if (bounds.step == 1) return heap.part(string, static_cast<size_t>(bounds.start), static_cast<size_t>(bounds.stop));
    StringBuilder out;
    heap.spend(count);
    for (int64_t i = 0, at = bounds.start; i < static_cast<int64_t>(count); ++i, at += bounds.step) {
      out.append_part(string, static_cast<size_t>(at), static_cast<size_t>(at) + 1);
    }
    return out.take(heap, string.markup);
  }
  heap.spend(text.size() / 16);
  std::vector<size_t> starts;
  starts.reserve(string.length() + 1);
  for (size_t position = 0; position < text.size();) {
    starts.push_back(position);
    next_code(text, position);
  }
  starts.push_back(text.size());
  if (bounds.step == 1) {
    return heap.part(string, starts[static_cast<size_t>(bounds.start)], starts[static_cast<size_t>(bounds.stop)]);
  }
  StringBuilder out;
  heap.spend(count);
  for (int64_t i = 0, at = bounds.start; i < static_cast<int64_t>(count); ++i, at += bounds.step) {
    out.append_part(string, starts[static_cast<size_t>(at)], starts[static_cast<size_t>(at) + 1]);
  }
  return out.take(heap, string.markup);
}

}  // namespace

Value Interpreter::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.undefined()) fail_undefined(object);
  int64_t length = 0;
  const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!sliceable || !length_of(object, length)) {
    if (object.is(Kind::kDict)) fail("unhashable type: 'slice'");
    fail("'{}' object is not subscriptable", type_name(object));
  }
  const Bounds bounds = resolve(start, stop, step, length);
  if (object.is_string()) return slice_string(heap_, object.str(), bounds);
  if (object.is(Kind::kRange)) {
    const auto& range = object.as<RangeObject>();
    auto* made = heap_.make<RangeObject>();
    made->start = range.start + bounds.start * range.step;
    made->stop = range.start + bounds.stop * range.step;
    made->step = range.step * bounds.step;
    return Value::object(Kind::kRange, made);
  }
  const std::vector<Value>& items = object.as<ListObject>().items;
  std::vector<Value> made;
  const int64_t count = bounds.count();
  made.reserve(static_cast<size_t>(count));
  for (int64_t i = 0, at = bounds.start; i < count; ++i, at += bounds.step) {
    made.push_back(items[static_cast<size_t>(at)]);
  }
  return heap_.list(std::move(made), object.kind());
}

}  // namespace vernier::jinja
