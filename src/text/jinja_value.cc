#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "text/jinja_unicode.h"

namespace vernier::jinja {

void Value::destroy() {
  payload_.string->heap->forget(*payload_.string);
  delete payload_.string;
}

size_t StringObject::length() const {
  if (codes < 0) {
    const int64_t count = static_cast<int64_t>(count_codes(text));
    if (heap == nullptr) return static_cast<size_t>(count);  // literals are shared between threads
    codes = count;
  }
  return static_cast<size_t>(codes);
}

int64_t RangeObject::length() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const WideInteger distance = step > 0 ? WideInteger{stop} - start : WideInteger{start} - stop;
  const WideInteger stride = step > 0 ? WideInteger{step} : -WideInteger{step};
  return static_cast<int64_t>((distance + stride - 1) / stride);
}

std::vector<ByteRange> marks_of(const StringObject& string) {
  if (!string.all_marked) return string.marks;
  if (string.text.empty()) return {};
  return {{0, string.text.size()}};
}

void StringBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!marks_.empty() && marks_.back().end == begin) {
    marks_.back().end = end;
  } else {
    marks_.push_back({begin, end});
  }
}

void StringBuilder::append(std::string_view text, bool marked) {
  const size_t begin = text_.size();
  text_ += text;
  if (marked) mark(begin, text_.size());
}

void StringBuilder::append_part(const StringObject& other, size_t begin, size_t end) {
  const size_t shift = text_.size();
  text_.append(other.text, begin, end - begin);
  if (other.all_marked) return mark(shift, text_.size());
  for (const ByteRange& range : other.marks) {
    const size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) mark(shift + from - begin, shift + to - begin);
  }
}

void StringBuilder::append_code_point(uint32_t code, bool marked) {
  const size_t begin = text_.size();
  append_code(text_, code);
  if (marked) mark(begin, text_.size());
}

Value StringBuilder::take(Heap& heap, bool markup) {
  Value value = heap.string(std::move(text_), std::move(marks_), markup);
  clear();
  return value;
}

void StringBuilder::take(std::string& text, std::vector<ByteRange>& marks) {
  text = std::move(text_);
  marks = std::move(marks_);
  clear();
}

void StringBuilder::clear() {
  text_.clear();
  marks_.clear();
}

void Heap::fail_steps() const {
  fail("the template took more than {} steps; it may be looping over its own output", limits_.steps);
}

void Heap::spend_elements(uint64_t count) {
  elements_ += count;
  spend(count);
  if (elements_ > limits_.elements) fail("the template made more than {} objects", limits_.elements);
}

void Heap::check_bytes(uint64_t bytes) const {
  if (bytes > limits_.string_bytes - std::min(limits_.string_bytes, string_bytes_)) {
    fail("the template's texts would take more than {} MiB", limits_.string_bytes >> 20);
  }
}

StringObject* Heap::adopt(std::string text) {
  check_bytes(text.size());
  spend(1 + text.size() / 64);
  auto* object = new StringObject;
  object->text = std::move(text);
  object->heap = this;
  string_bytes_ += object->text.capacity();
  return object;
}

Value Heap::string(std::string text, bool marked, bool markup) {
  StringObject* object = adopt(std::move(text));
  object->all_marked = marked;
  object->markup = markup;
  return Value::string(object);
}

Value Heap::string(std::string text, std::vector<ByteRange> marks, bool markup) {
  StringObject* object = adopt(std::move(text));
  object->all_marked = marks.size() == 1 && marks[0] == ByteRange{0, object->text.size()};
  if (!object->all_marked) object->marks = std::move(marks);
  object->markup = markup;
  return Value::string(object);
}

Value Heap::part(const StringObject& whole, size_t begin, size_t end) {
  StringObject* object = adopt(whole.text.substr(begin, end - begin));
  object->markup = whole.markup;
  object->all_marked = whole.all_marked;
  for (const ByteRange& range : whole.marks) {
    const size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) object->marks.push_back({from - begin, to - begin});
  }
  return Value::string(object);
}

Value Heap::integer(WideInteger value) {
  if (value >= std::numeric_limits<int64_t>::min() && value <= std::numeric_limits<int64_t>::max()) {
    return Value::integer(static_cast<int64_t>(value));
  }
  auto* object = make<WideObject>();
  object->value = value;
  return Value::object(Kind::kWide, object);
}

Value Heap::list(std::vector<Value> items, Kind kind) {
  spend_elements(items.size());
  auto* object = make<ListObject>();
  uint32_t nesting = 0;
  for (const Value& item : items) nesting = std::max(nesting, nesting_of(item));
  object->nesting = check_nesting(nesting + 1);
  object->items = std::move(items);
  return Value::object(kind, object);
}

Value Heap::undefined(std::string hint) {
  auto* object = make<UndefinedObject>();
  object->hint = std::move(hint);
  return Value::object(Kind::kUndefined, object);
}

Value Heap::undefined_name(Value name, const char* owner) {
  auto* object = make<UndefinedObject>();
  object->name = std::move(name);
  object->owner = owner;
  return Value::object(Kind::kUndefined, object);
}

uint32_t Heap::check_nesting(uint32_t nesting) const {
  if (nesting > limits_.nesting) fail("data is nested more than {} deep", limits_.nesting);
  return nesting;
}

namespace {

constexpr size_t kSmallDict = 8;

int32_t* find_slot(Heap& heap, DictObject& dict, const Value& key, size_t hash) {
  const size_t mask = dict.index.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    int32_t& entry = dict.index[slot];
    if (entry < 0 || equal(heap, dict.entries[static_cast<size_t>(entry)].first, key)) return &entry;
  }
}

void rebuild_index(Heap& heap, DictObject& dict) {
  size_t size = 32;
  while (size < dict.entries.size() * 4) size *= 2;
  dict.index.assign(size, -1);
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    const Value& key = dict.entries[i].first;
    *find_slot(heap, dict, key, hash_of(heap, key)) = static_cast<int32_t>(i);
  }
}

}  // namespace

void Heap::insert(DictObject& dict, Value key, Value value) {
  spend_elements(1);
  dict.nesting = std::max(dict.nesting, check_nesting(1 + std::max(nesting_of(key), nesting_of(value))));
  const size_t hash = hash_of(*this, key);
  if (dict.index.empty()) {
    for (auto& [known, slot] : dict.entries) {
      if (equal(*this, known, key)) {
        slot = std::move(value);
        return;
      }
    }
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (dict.entries.size() > kSmallDict) rebuild_index(*this, dict);
    return;
  }
  int32_t* slot = find_slot(*this, dict, key, hash);
  if (*slot >= 0) {
    dict.entries[static_cast<size_t>(*slot)].second = std::move(value);
    return;
  }
  *slot = static_cast<int32_t>(dict.entries.size());
  dict.entries.emplace_back(std::move(key), std::move(value));
  if (dict.entries.size() * 2 > dict.index.size()) rebuild_index(*this, dict);
}

const Value* find(Heap& heap, const DictObject& dict, const Value& key) {
  const size_t hash = hash_of(heap, key);
  if (dict.index.empty()) {
    for (const auto& [known, value] : dict.entries) {
      if (equal(heap, known, key)) return &value;
    }
    return nullptr;
  }
  const int32_t entry = *find_slot(heap, const_cast<DictObject&>(dict), key, hash);
  return entry < 0 ? nullptr : &dict.entries[static_cast<size_t>(entry)].second;
}

const Value* find(const DictObject& dict, std::string_view key) {
  if (dict.index.empty()) {
    for (const auto& [known, value] : dict.entries) {
      if (known.is_string() && known.text() == key) return &value;
    }
    return nullptr;
  }
  const size_t mask = dict.index.size() - 1;
  for (size_t slot = std::hash<std::string_view>{}(key)&mask;; slot = (slot + 1) & mask) {
    const int32_t entry = dict.index[slot];
    if (entry < 0) return nullptr;
    const auto& [known, value] = dict.entries[static_cast<size_t>(entry)];
    if (known.is_string() && known.text() == key) return &value;
  }
}

size_t hash_of(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return std::hash<std::string_view>{}(value.text());
    case Kind::kBool:
    case Kind::kInt:
      return std::hash<int64_t>{}(value.as_int());
    case Kind::kWide:
      return std::hash<double>{}(to_double(value));
    case Kind::kFloat: {
      const double number = value.as_float();
      if (number == std::floor(number) && std::fabs(number) < 9e18) {
        return std::hash<int64_t>{}(static_cast<int64_t>(number));
      }
      return std::hash<double>{}(number);
    }
    case Kind::kTuple: {
      heap.spend(value.as<ListObject>().items.size());
      size_t hash = 17;
      for (const Value& item : value.as<ListObject>().items) hash = hash * 1000003 + hash_of(heap, item);
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      fail("unhashable type: '{}'", type_name(value));
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kMissing:
      return 7;
    default:
      return std::hash<const void*>{}(value.object());
  }
}

}  // namespace vernier::jinja
