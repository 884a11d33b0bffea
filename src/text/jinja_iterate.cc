#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_iterators.h"
#include "text/jinja_search.h"
#include "text/jinja_unicode.h"

// Iteration and membership.
namespace vernier::jinja {
namespace {

struct ListIterator : IteratorObject {
  ListIterator(Value list, bool reversed) : list(std::move(list)), reversed(reversed) {
    type = this->list.is(Kind::kTuple) ? "tuple_iterator" : reversed ? "list_reverseiterator" : "list_iterator";
  }
  bool next(Interpreter&, Value& out) override {
    const std::vector<Value>& items = list.as<ListObject>().items;
    if (position >= items.size()) return false;
    out = reversed ? items[items.size() - 1 - position] : items[position];
    ++position;
    return true;
  }
  Value list;
  bool reversed;
  size_t position = 0;
};

struct StringIterator : IteratorObject {
  explicit StringIterator(Value string) : string(std::move(string)) { type = "str_iterator"; }
  bool next(Interpreter& in, Value& out) override {
    const StringObject& text = string.str();
    if (position >= text.text.size()) return false;
    const size_t start = position;
    next_code(text.text, position);
    StringBuilder character;  // Markup falls apart into plain characters
    character.append_part(text, start, position);
    out = character.take(in.heap());
    return true;
  }
  Value string;
  size_t position = 0;
};

struct RangeIterator : IteratorObject {
  explicit RangeIterator(const RangeObject& range) : at(range.start), step(range.step), left(range.length()) {
    type = "range_iterator";
  }
  bool next(Interpreter&, Value& out) override {
    if (left-- <= 0) return false;
    out = Value::integer(at);
    if (left > 0) at += step;
    return true;
  }
  int64_t at, step, left;
};

struct DictIterator : IteratorObject {
  DictIterator(DictObject* dict, ViewObject::Part part, bool reversed) : dict(dict), part(part), reversed(reversed) {
    type = "dict_iterator";
  }
  bool next(Interpreter& in, Value& out) override {
    if (position >= dict->entries.size()) return false;
    const auto& [key, value] = dict->entries[reversed ? dict->entries.size() - 1 - position : position];
    ++position;
    out = part == ViewObject::Part::kKeys     ? key
          : part == ViewObject::Part::kValues ? value
                                              : in.heap().tuple({key, value});
    return true;
  }
  DictObject* dict;
  ViewObject::Part part;
  bool reversed;
  size_t position = 0;
};

}  // namespace

bool GeneratorObject::next(Interpreter& in, Value& out) {
  const Interpreter::Depth depth(in);
  in.heap().spend(1);
  if (done) return false;
  if (source == nullptr) {
    if (skip_falsy && !truthy(input)) {
      done = true;
      return false;
    }
    source = in.iterate(input);
  }
  done = !step(in, *source, out);
  return !done;
}

Value make_generator(Interpreter& in, const Value& input, bool skip_falsy, GeneratorObject::Step step) {
  auto* made = in.heap().make<GeneratorObject>(input, skip_falsy, std::move(step));
  made->nesting = in.heap().check_nesting(nesting_of(input) + 1);
  return Value::object(Kind::kIterator, made);
}

IteratorObject* reversed_iterator(Interpreter& in, const Value& value) {
  Heap& heap = in.heap();
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return heap.make<ListIterator>(value, true);
    case Kind::kDict:
      return heap.make<DictIterator>(&value.as<DictObject>(), ViewObject::Part::kKeys, true);
    case Kind::kView:
      return heap.make<DictIterator>(value.as<ViewObject>().dict, value.as<ViewObject>().part, true);
    case Kind::kString:
    case Kind::kRange: {
      std::vector<Value> items = in.collect(value);
      return heap.make<ListIterator>(heap.list(std::move(items)), true);
    }
    default:
      return nullptr;
  }
}

IteratorObject* Interpreter::iterate(const Value& value) {
  switch (value.kind()) {
    case Kind::kIterator:
      return &value.as<IteratorObject>();
    case Kind::kList:
    case Kind::kTuple:
      return heap_.make<ListIterator>(value, false);
    case Kind::kString:
      return heap_.make<StringIterator>(value);
    case Kind::kRange:
      return heap_.make<RangeIterator>(value.as<RangeObject>());
    case Kind::kDict:
      return heap_.make<DictIterator>(&value.as<DictObject>(), ViewObject::Part::kKeys, false);
    case Kind::kView:
      return heap_.make<DictIterator>(value.as<ViewObject>().dict, value.as<ViewObject>().part, false);
    case Kind::kUndefined:
      return heap_.make<ListIterator>(heap_.list({}), false);
    default:
      fail("'{}' object is not iterable", type_name(value));
  }
}

void Interpreter::for_each(const Value& value, const std::function<bool(const Value&)>& visit) {
  if (value.is_sequence()) {
    const ListObject& list = value.as<ListObject>();
    for (const Value& item : list.items) {
      heap_.spend(1);
      if (!visit(item)) return;
    }
    return;
  }
  IteratorObject* iterator = iterate(value);
  Value item;
  const Depth depth(*this);
  while (iterator->next(*this, item)) {
    heap_.spend(1);
    if (!visit(item)) return;
  }
}

std::vector<Value> Interpreter::collect(const Value& value) {
  if (value.is_sequence()) {
    heap_.spend(value.as<ListObject>().items.size());
    return value.as<ListObject>().items;
  }
  std::vector<Value> items;
  for_each(value, [&](const Value& item) {
    heap_.spend_elements(1);
    items.push_back(item);
    return true;
  });
  return items;
}

bool Interpreter::contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        fail("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      heap_.spend(container.text().size() / 64);
      return find_bytes(container.text(), item.text()) != std::string::npos;
    case Kind::kDict:
      return find(heap_, container.as<DictObject>(), item) != nullptr;
    case Kind::kView: {
      const ViewObject& view = container.as<ViewObject>();
      if (view.part == ViewObject::Part::kKeys) return find(heap_, *view.dict, item) != nullptr;
      break;
    }
    case Kind::kRange: {
      const RangeObject& range = container.as<RangeObject>();
      if (!item.is_number()) return false;
      const double number = to_double(item);
      const auto whole = static_cast<int64_t>(number);
      if (static_cast<double>(whole) != number || range.length() == 0) return false;
      const int64_t last = range.start + (range.length() - 1) * range.step;
      return whole >= std::min(range.start, last) && whole <= std::max(range.start, last) &&
             (whole - range.start) % range.step == 0;
    }
    case Kind::kUndefined:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kIterator:
      break;
    default:
      fail("argument of type '{}' is not iterable", type_name(container));
  }
  bool found = false;
  for_each(container, [&](const Value& element) {
    found = equal(heap_, element, item);
    return !found;
  });
  return found;
}

}  // namespace vernier::jinja
