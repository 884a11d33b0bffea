#include <algorithm>
#include <array>

#include "text/jinja_attribute_path.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_iterators.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// Filters over sequences and mappings.
namespace vernier::jinja {

AttributePath::AttributePath(Interpreter& in, const Value& attribute) {
  if (attribute.missing() || attribute.is(Kind::kNone)) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const Value dot = in.heap().string(".");
  for (Value& part : split(in, attribute.str(), dot, -1, false)) {
    const std::string& text = part.text();
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    WideInteger index = 0;
    if (digits) parse_integer(text, 10, index);
    parts_.push_back(digits ? in.heap().integer(index) : std::move(part));
  }
}

Value AttributePath::get(Interpreter& in, Value element, const Value& otherwise) const {
  for (const Value& part : parts_) {
    element = in.item(element, part);
    if (element.undefined() && !otherwise.missing() && !otherwise.is(Kind::kNone)) element = otherwise;
  }
  return element;
}

Value fold_case(Interpreter& in, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.is_string() ? value : lower(in, value.str());
}

bool flag(const Value& argument) {
  return !argument.missing() && truthy(argument);
}

namespace {

using In = Interpreter;

Value filter_length(In& in, const Value& input, const Value*) {
  int64_t length = 0;
  if (input.is(Kind::kNative) && std::string_view(input.as<NativeObject>().type()) == "LoopContext") {
    return input.as<NativeObject>().attribute(in, "length");
  }
  if (!length_of(input, length)) fail("object of type '{}' has no len()", type_name(input));
  return Value::integer(length);
}

Value filter_first(In& in, const Value& input, const Value*) {
  Value first = in.heap().undefined("No first item, sequence was empty.");
  in.for_each(input, [&](const Value& item) {
    first = item;
    return false;
  });
  return first;
}

Value filter_last(In& in, const Value& input, const Value*) {
  if (input.undefined()) return in.heap().undefined("No last item, sequence was empty.");
  IteratorObject* reversed = reversed_iterator(in, input);
  if (reversed == nullptr) fail("'{}' object is not reversible", type_name(input));
  Value last;
  return reversed->next(in, last) ? last : in.heap().undefined("No last item, sequence was empty.");
}

Value filter_random(In&, const Value&, const Value*) {
  fail("random is not supported: a rendering must be repeatable");
}

Value filter_list(In& in, const Value& input, const Value*) {
  return in.heap().list(in.collect(input));
}

Value filter_reverse(In& in, const Value& input, const Value*) {
  if (input.is_string()) return in.slice(input, Value::none(), Value::none(), Value::integer(-1));
  const Value sequence = input.undefined() ? in.heap().list({}) : input;
  if (IteratorObject* reversed = reversed_iterator(in, sequence)) return Value::object(Kind::kIterator, reversed);
  std::vector<Value> items = in.collect(input);
  std::reverse(items.begin(), items.end());
  return in.heap().list(std::move(items));
}

Value filter_join(In& in, const Value& input, const Value* a) {
  const AttributePath path(in, a[1]);
  std::vector<Value> parts;
  bool markup = false;
  in.for_each(input, [&](const Value& item) {
    parts.push_back(path.get(in, item));
    markup |= parts.back().is_string() && parts.back().str().markup;
    if (!in.autoescape()) parts.back() = in.to_string(parts.back());
    in.heap().spend_elements(1);
    return true;
  });
  Value separator = a[0].missing() ? in.heap().string("") : in.to_string(a[0]);
  markup = in.autoescape() && (markup || separator.str().markup);
  for (Value& part : parts) part = markup ? in.escaped(part) : in.to_string(part);
  if (markup) {
    separator = in.escaped(separator);
  } else if (separator.str().markup) {
    separator = in.heap().string(separator.text(), separator.str().marked());
  }
  return join(in, separator.str(), parts);
}

Value filter_items(In& in, const Value& input, const Value*) {
  if (!input.undefined() && !input.is(Kind::kDict)) {
    return make_generator(in, in.heap().list({}), false,
                          [](In&, IteratorObject&, Value&) -> bool { fail("can only get item pairs from a mapping"); });
  }
  if (input.undefined()) return make_generator(in, input, false, [](In&, IteratorObject&, Value&) { return false; });
  auto* view = in.heap().make<ViewObject>();
  view->part = ViewObject::Part::kItems;
  view->dict = &input.as<DictObject>();
  return make_generator(in, Value::object(Kind::kView, view), false,
                        [](In& at, IteratorObject& source, Value& out) { return source.next(at, out); });
}

/// sorted(): stable, and with `reverse` equal elements keep their order too.
void sort_by(In& in, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    in.heap().spend(1);
    return reverse ? less(in.heap(), b.first, a.first) : less(in.heap(), a.first, b.first);
  });
}

Value values_of(In& in, std::vector<std::pair<Value, Value>>& keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& entry : keyed) items.push_back(std::move(entry.second));
  return in.heap().list(std::move(items));
}

Value filter_sort(In& in, const Value& input, const Value* a) {
  std::vector<AttributePath> paths;
  if (a[2].is_string()) {
    const Value comma = in.heap().string(",");
    for (const Value& part : split(in, a[2].str(), comma, -1, false)) paths.emplace_back(in, part);
  } else {
    paths.emplace_back(in, a[2]);
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : in.collect(input)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) keys.push_back(fold_case(in, path.get(in, item), flag(a[1])));
    Value key = keys.size() == 1 && !keys[0].is(Kind::kDict) ? keys[0] : in.heap().list(std::move(keys));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  // Equal keys need no order of their own, which a list of one key gives.
  const bool plain = std::all_of(keyed.begin(), keyed.end(),
                                 [](const auto& entry) { return entry.first.is_string() || entry.first.is_number(); });
  if (!plain) {
    for (auto& entry : keyed) entry.first = in.heap().list({entry.first});
  }
  sort_by(in, keyed, flag(a[0]));
  return values_of(in, keyed);
}

Value filter_dictsort(In& in, const Value& input, const Value* a) {
  const std::string by = a[1].missing() ? "key" : a[1].is_string() ? a[1].text() : "";
  if (by != "key" && by != "value") fail("you can only sort by either \"key\" or \"value\"");
  if (input.undefined()) fail_undefined(input);
  if (!input.is(Kind::kDict)) fail("'{}' object has no attribute 'items'", type_name(input));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : input.as<DictObject>().entries) {
    keyed.emplace_back(fold_case(in, by == "key" ? key : value, flag(a[0])), in.heap().tuple({key, value}));
  }
  sort_by(in, keyed, flag(a[2]));
  return values_of(in, keyed);
}

Value filter_groupby(In& in, const Value& input, const Value* a) {
  const AttributePath path(in, a[0]);
  const bool case_sensitive = flag(a[2]);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : in.collect(input)) {
    Value key = fold_case(in, path.get(in, item, a[1]), case_sensitive);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_by(in, keyed, false);
  std::vector<Value> groups;
  for (size_t start = 0, end = 0; start < keyed.size(); start = end) {
    std::vector<Value> items;
    for (end = start; end < keyed.size() && equal(in.heap(), keyed[end].first, keyed[start].first); ++end) {
      items.push_back(keyed[end].second);
    }
    if (end == start) ++end;  // NaN is not even equal to itself
    Value name = case_sensitive ? keyed[start].first : path.get(in, keyed[start].second, a[1]);
    Value group = in.heap().tuple({std::move(name), in.heap().list(std::move(items))});
    group.as<ListObject>().group = true;
    groups.push_back(std::move(group));
  }
  return in.heap().list(std::move(groups));
}

Value filter_unique(In& in, const Value& input, const Value* a) {
  const AttributePath path(in, a[1]);
  DictObject* seen = in.heap().dict();
  const bool case_sensitive = flag(a[0]);
  return make_generator(in, input, false, [=](In& at, IteratorObject& source, Value& out) {
    while (source.next(at, out)) {
      at.heap().spend(1);
      const Value key = fold_case(at, path.get(at, out), case_sensitive);
      if (find(at.heap(), *seen, key) != nullptr) continue;
      at.heap().insert(*seen, key, Value::none());
      return true;
    }
    return false;
  });
}

Value extreme(In& in, const Value& input, const Value* a, bool largest) {
  const AttributePath path(in, a[1]);
  Value best = in.heap().undefined("No aggregated item, sequence was empty."), best_key;
  in.for_each(input, [&](const Value& item) {
    Value key = fold_case(in, path.get(in, item), flag(a[0]));
    if (best_key.missing() || (largest ? less(in.heap(), best_key, key, ">") : less(in.heap(), key, best_key))) {
      best_key = std::move(key);
      best = item;
    }
    return true;
  });
  return best;
}
Value filter_min(In& in, const Value& input, const Value* a) {
  return extreme(in, input, a, false);
}
Value filter_max(In& in, const Value& input, const Value* a) {
  return extreme(in, input, a, true);
}

Value filter_sum(In& in, const Value& input, const Value* a) {
  const AttributePath path(in, a[0]);
  Value total = a[1].missing() ? Value::integer(0) : a[1];
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  in.for_each(input, [&](const Value& item) {
    total = in.arithmetic(Operator::kAdd, total, path.get(in, item));
    return true;
  });
  return total;
}

Value filter_batch(In& in, const Value& input, const Value* a) {
  const int64_t size = a[0].is(Kind::kFloat) ? static_cast<int64_t>(a[0].as_float()) : expect_int(a[0], "batch");
  const Value fill = a[1];
  // A generator reads one element too many, and gives it first the next time.
  auto held = std::make_shared<Value>();
  return make_generator(in, input, false, [=](In& at, IteratorObject& source, Value& out) {
    std::vector<Value> items;
    if (!held->missing()) items.push_back(std::exchange(*held, Value()));
    Value item;
    while (source.next(at, item)) {
      at.heap().spend_elements(1);
      if (static_cast<int64_t>(items.size()) == size) {
        *held = std::move(item);
        break;
      }
      items.push_back(std::move(item));
    }
    if (items.empty() && held->missing()) return false;
    if (held->missing() && !fill.missing() && !fill.is(Kind::kNone)) {
      while (static_cast<int64_t>(items.size()) < size) {
        at.heap().spend_elements(1);
        items.push_back(fill);
      }
    }
    out = at.heap().list(std::move(items));
    return true;
  });
}

Value filter_slice(In& in, const Value& input, const Value* a) {
  const int64_t slices = expect_int(a[0], "slice");
  const Value fill = a[1];
  auto items = std::make_shared<std::vector<Value>>();
  auto number = std::make_shared<int64_t>(-1);
  return make_generator(in, input, false, [=](In& at, IteratorObject& source, Value& out) {
    if (++*number == 0) {
      for (Value item; source.next(at, item);) {
        at.heap().spend_elements(1);
        items->push_back(std::move(item));
      }
    }
    if (slices == 0) fail("integer division or modulo by zero");
    if (*number >= slices) return false;
    const auto length = static_cast<int64_t>(items->size());
    const int64_t each = length / slices, extra = length % slices;
    const int64_t start = *number * each + std::min(*number, extra);
    const int64_t end = start + each + (*number < extra ? 1 : 0);
    std::vector<Value> part(items->begin() + start, items->begin() + end);
    if (!fill.missing() && !fill.is(Kind::kNone) && *number >= extra) part.push_back(fill);
    out = at.heap().list(std::move(part));
    return true;
  });
}

const auto kSequenceFilters = std::to_array<Filter>({
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"random", "", filter_random},
    {"list", "", filter_list},
    {"reverse", "", filter_reverse},
    {"join", "d? attribute?", filter_join},
    {"items", "", filter_items},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"unique", "case_sensitive? attribute?", filter_unique},
    {"min", "case_sensitive? attribute?", filter_min},
    {"max", "case_sensitive? attribute?", filter_max},
    {"sum", "attribute? start?", filter_sum},
    {"batch", "linecount fill_with?", filter_batch},
    {"slice", "slices fill_with?", filter_slice},
});

}  // namespace

std::span<const Filter> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace vernier::jinja
