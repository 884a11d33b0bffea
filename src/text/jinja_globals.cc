#include <algorithm>
#include <array>

#include "text/jinja_interpreter.h"

// The names a template finds without being given them: range, dict, namespace, cycler, joiner and transformers' own.
namespace vernier::jinja {

std::string NativeObject::repr(Interpreter&) const {
  return std::string("<") + type() + " object>";
}

Value NativeObject::call(Interpreter&, Arguments&) {
  fail("'{}' object is not callable", type());
}

Value NativeObject::attribute(Interpreter&, std::string_view) {
  return {};
}

Value FunctionObject::call(Interpreter& in, Arguments& arguments) {
  return in.apply(*function, self, arguments);
}

namespace {

Value call_range(Interpreter& in, const Value&, const Value* a) {
  constexpr int64_t kMaxRange = 100'000;
  auto* range = in.heap().make<RangeObject>();
  range->start = a[1].missing() ? 0 : expect_int(a[0], "range()");
  range->stop = expect_int(a[1].missing() ? a[0] : a[1], "range()");
  range->step = int_or(a[2], 1, "range()");
  if (range->step == 0) fail("range() arg 3 must not be zero");
  if (range->length() > kMaxRange || range->length() < 0) {
    fail("range too big: the sandbox blocks ranges larger than {}", kMaxRange);
  }
  return Value::object(Kind::kRange, range);
}

/// dict(mapping or pairs, **named), which namespace() takes too.
DictObject* make_dict(Interpreter& in, Arguments& arguments) {
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument, got {}", arguments.positional.size());
  DictObject* made = in.heap().dict();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.as<DictObject>().entries) in.heap().insert(*made, key, value);
    } else {
      in.for_each(source, [&](const Value& pair) {
        std::vector<Value> parts = in.collect(pair);
        if (parts.size() != 2) fail("dictionary update sequence element has length {}; 2 is required", parts.size());
        in.heap().insert(*made, std::move(parts[0]), std::move(parts[1]));
        return true;
      });
    }
  }
  for (const auto& [name, value] : arguments.named) in.heap().insert(*made, in.heap().string(std::string(name)), value);
  return made;
}

void check_attribute_name(std::string_view name) {
  if (!name.starts_with('_')) return;
  fail("a chat template cannot store underscore-prefixed attributes on a namespace, but got '{}'", name);
}

Value call_namespace(Interpreter& in, const Value&, Arguments& arguments) {
  auto* made = in.heap().make<NamespaceObject>();
  made->attributes = make_dict(in, arguments);
  for (const auto& entry : made->attributes->entries) {
    if (entry.first.is_string()) check_attribute_name(entry.first.text());
  }
  return Value::object(Kind::kNamespace, made);
}

struct DictType : NativeObject {
  const char* type() const override { return "TemplateDict"; }
  Value call(Interpreter& in, Arguments& arguments) override {
    return Value::object(Kind::kDict, make_dict(in, arguments));
  }
  Value attribute(Interpreter& in, std::string_view name) override {
    if (name != "fromkeys") return {};
    auto* bound = in.heap().make<FunctionObject>();
    bound->function = find_method(Value::object(Kind::kDict, in.heap().dict()), name);
    return Value::object(Kind::kNative, bound);
  }
};

struct CyclerObject : NativeObject {
  std::vector<Value> items;
  size_t position = 0;
  const char* type() const override { return "Cycler"; }
  bool callable() const override { return false; }
  Value attribute(Interpreter& in, std::string_view name) override;
};

Value cycler_next(Interpreter&, const Value& self, const Value*) {
  auto& cycler = self.as<CyclerObject>();
  Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}
Value cycler_reset(Interpreter&, const Value& self, const Value*) {
  self.as<CyclerObject>().position = 0;
  return Value::none();
}
constexpr Filter kCyclerNext{"next", "/", cycler_next}, kCyclerReset{"reset", "/", cycler_reset};

Value CyclerObject::attribute(Interpreter& in, std::string_view name) {
  if (name == "current") return items[position];
  if (name == "pos") return Value::integer(static_cast<int64_t>(position));
  if (name == "items") return in.heap().tuple(items);
  if (name != "next" && name != "reset") return {};
  auto* bound = in.heap().make<FunctionObject>();
  bound->function = name == "next" ? &kCyclerNext : &kCyclerReset;
  bound->self = Value::object(Kind::kNative, this);
  return Value::object(Kind::kNative, bound);
}

Value call_cycler(Interpreter& in, const Value&, Arguments& arguments) {
  if (!arguments.named.empty()) fail("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  auto* made = in.heap().make<CyclerObject>();
  made->items = std::move(arguments.positional);
  return Value::object(Kind::kNative, made);
}

struct JoinerObject : NativeObject {
  Value separator;
  bool used = false;
  const char* type() const override { return "Joiner"; }
  Value call(Interpreter& in, Arguments& arguments) override {
    bind("joiner", "", arguments, nullptr);
    if (std::exchange(used, true)) return separator;
    return in.heap().string("");
  }
  Value attribute(Interpreter&, std::string_view name) override {
    return name == "sep" ? separator : name == "used" ? Value::boolean(used) : Value();
  }
};

Value call_joiner(Interpreter& in, const Value&, const Value* a) {
  auto* made = in.heap().make<JoinerObject>();
  made->separator = a[0].missing() ? in.heap().string(", ") : a[0];
  return Value::object(Kind::kNative, made);
}

Value call_raise_exception(Interpreter& in, const Value&, const Value* a) {
  throw Failure{.message = in.to_string(a[0]).text(), .raised = true};
}

Value call_strftime_now(Interpreter& in, const Value&, const Value* a) {
  const StringObject& format = expect_string(a[0], "strftime() argument 1");
  return in.heap().string(in.now().format(format.text), format.marked());
}

Value call_lipsum(Interpreter&, const Value&, Arguments&) {
  fail("lipsum() is not supported: its text is random");
}

const auto kGlobals = std::to_array<Filter>({
    {"range", "/start stop? step?", call_range},
    {"namespace", "*", nullptr, call_namespace},
    {"cycler", "*", nullptr, call_cycler},
    {"joiner", "sep?", call_joiner},
    {"raise_exception", "message", call_raise_exception},
    {"strftime_now", "format", call_strftime_now},
    {"lipsum", "*", nullptr, call_lipsum},
});

Value call_block(Interpreter& in, const Value& self, Arguments& arguments) {
  bind("block", "", arguments, nullptr);
  return in.render_block(*in.program().blocks.at(self.text()), nullptr);
}
constexpr Filter kCallBlock{"block", "*", nullptr, call_block};

/// `self`: the template's blocks by name.
struct TemplateReference : NativeObject {
  const char* type() const override { return "TemplateReference"; }
  bool callable() const override { return false; }
  Value attribute(Interpreter& in, std::string_view name) override {
    if (!in.has_block(name)) return {};
    auto* bound = in.heap().make<FunctionObject>();
    bound->function = &kCallBlock;
    bound->self = in.heap().string(std::string(name));
    return Value::object(Kind::kNative, bound);
  }
};

}  // namespace

Value global_value(Interpreter& in, std::string_view name) {
  if (name == "dict") return Value::object(Kind::kNative, in.heap().make<DictType>());
  if (name == "self") return Value::object(Kind::kNative, in.heap().make<TemplateReference>());
  const auto* found =
      std::find_if(kGlobals.begin(), kGlobals.end(), [&](const Filter& entry) { return entry.name == name; });
  if (found == kGlobals.end()) return {};
  auto* bound = in.heap().make<FunctionObject>();
  bound->function = found;
  return Value::object(Kind::kNative, bound);
}

}  // namespace vernier::jinja
