#include <array>
#include <memory>
#include <unordered_map>

#include "text/jinja_attribute_path.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_iterators.h"
#include "text/jinja_json.h"
#include "text/jinja_pprint.h"

// map, select and their kin; default, attr, tojson; and the look-up of all filters.
namespace vernier::jinja {
namespace {

using In = Interpreter;

const Filter& filter_named(const Value& name) {
  const Filter* found = name.is_string() ? find_filter(name.text()) : nullptr;
  if (found == nullptr) fail("no filter named '{}'", name.is_string() ? name.text() : type_name(name));
  return *found;
}

const Test& test_named(const Value& name) {
  const Test* found = name.is_string() ? find_test(name.text()) : nullptr;
  if (found == nullptr) fail("no test named '{}'", name.is_string() ? name.text() : type_name(name));
  return *found;
}

Value filter_map(In& in, const Value& input, Arguments& arguments) {
  // Arguments are checked when the first element is asked for.
  auto given = std::make_shared<Arguments>(std::move(arguments));
  if (given->positional.empty()) {
    auto path = std::make_shared<std::unique_ptr<AttributePath>>();
    auto otherwise = std::make_shared<Value>();
    return make_generator(in, input, true, [=](In& at, IteratorObject& source, Value& out) {
      if (*path == nullptr) {
        Value attribute;
        for (const auto& [name, value] : given->named) {
          if (name == "attribute") {
            attribute = value;
          } else if (name == "default") {
            *otherwise = value;
          } else {
            fail("unexpected keyword argument '{}'", name);
          }
        }
        if (attribute.missing()) fail("map requires a filter argument");
        *path = std::make_unique<AttributePath>(at, attribute);
      }
      if (!source.next(at, out)) return false;
      out = (*path)->get(at, std::move(out), *otherwise);
      return true;
    });
  }
  return make_generator(in, input, true, [=](In& at, IteratorObject& source, Value& out) {
    const Filter& filter = filter_named(given->positional[0]);
    if (!source.next(at, out)) return false;
    Arguments rest = *given;
    rest.positional.erase(rest.positional.begin());
    out = at.apply(filter, out, rest);
    return true;
  });
}

Value choose(In& in, const Value& input, Arguments& arguments, bool wanted, bool by_attribute) {
  auto given = std::make_shared<Arguments>(std::move(arguments));
  auto path = std::make_shared<std::unique_ptr<AttributePath>>();
  const size_t name_at = by_attribute ? 1 : 0;
  return make_generator(in, input, true, [=](In& at, IteratorObject& source, Value& out) {
    if (by_attribute && *path == nullptr) {
      if (given->positional.empty()) fail("missing parameter for attribute name");
      *path = std::make_unique<AttributePath>(at, given->positional[0]);
    }
    const bool tested = given->positional.size() > name_at;
    const Test* test = tested ? &test_named(given->positional[name_at]) : nullptr;
    while (source.next(at, out)) {
      at.heap().spend(1);
      const Value subject = by_attribute ? (*path)->get(at, out) : out;
      bool chosen = false;
      if (test == nullptr) {
        chosen = truthy(subject);
      } else {
        Arguments rest = *given;
        rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<ptrdiff_t>(name_at) + 1);
        chosen = at.apply(*test, subject, rest);
      }
      if (chosen == wanted) return true;
    }
    return false;
  });
}
Value filter_select(In& in, const Value& input, Arguments& a) {
  return choose(in, input, a, true, false);
}
Value filter_reject(In& in, const Value& input, Arguments& a) {
  return choose(in, input, a, false, false);
}
Value filter_selectattr(In& in, const Value& input, Arguments& a) {
  return choose(in, input, a, true, true);
}
Value filter_rejectattr(In& in, const Value& input, Arguments& a) {
  return choose(in, input, a, false, true);
}

Value filter_default(In& in, const Value& input, const Value* a) {
  if (!input.undefined() && !(flag(a[1]) && !truthy(input))) return input;
  return a[0].missing() ? in.heap().string("") : a[0];
}

/// Like `.name`, but never an item.
Value filter_attr(In& in, const Value& input, const Value* a) {
  expect_string(a[0], "attribute name");
  if (input.undefined()) fail_undefined(input);
  if (!input.is(Kind::kDict)) return in.attribute(input, a[0]);
  const Value attribute = in.attribute(Value::object(Kind::kDict, in.heap().dict()), a[0]);
  if (!attribute.is(Kind::kNative)) return in.heap().undefined_name(a[0], "dict");
  return in.attribute(input, a[0]);
}

Value filter_tojson(In& in, const Value& input, const Value* a) {
  return dump_json(in, input, a);
}

const auto kSelectionFilters = std::to_array<Filter>({
    {"map", "*", nullptr, filter_map},
    {"select", "*", nullptr, filter_select},
    {"reject", "*", nullptr, filter_reject},
    {"selectattr", "*", nullptr, filter_selectattr},
    {"rejectattr", "*", nullptr, filter_rejectattr},
    {"default", "default_value? boolean?", filter_default},
    {"d", "default_value? boolean?", filter_default},
    {"attr", "name", filter_attr},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson},
    {"pprint", "", pretty_print},
});

}  // namespace

std::span<const Filter> selection_filters() {
  return kSelectionFilters;
}

const Filter* find_filter(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Filter*> made;
    for (const auto& filters :
         {text_filters(), markup_filters(), number_filters(), sequence_filters(), selection_filters()}) {
      for (const Filter& filter : filters) made.emplace(filter.name, &filter);
    }
    return made;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace vernier::jinja
