#include "text/jinja_loop.h"

#include "text/jinja_iterators.h"

// Loops and macros.
namespace vernier::jinja {

bool LoopObject::peek(Interpreter& in) {
  if (!peeked) {
    peeked = true;
    ended = !iterator->next(in, after);
    if (ended) after = Value();
  }
  return !ended;
}

bool LoopObject::advance(Interpreter& in) {
  if (!peek(in)) return false;
  peeked = false;
  before = std::move(current);
  current = std::move(after);
  ++index0;
  return true;
}

int64_t LoopObject::length(Interpreter& in) {
  if (known_length >= 0) return known_length;
  if (length_of(iterable, known_length)) return known_length;
  // A generator is read to its end, and goes on from what was read.
  std::vector<Value> rest;
  Value item;
  if (!(peeked && ended)) {
    while (iterator->next(in, item)) {
      in.heap().spend_elements(1);
      rest.push_back(std::move(item));
    }
  }
  known_length = static_cast<int64_t>(rest.size()) + index0 + 1 + (peeked && !ended);
  iterator = in.iterate(in.heap().list(std::move(rest)));
  return known_length;
}

std::string LoopObject::repr(Interpreter& in) const {
  return fmt::format("<LoopContext {}/{}>", index0 + 1, const_cast<LoopObject*>(this)->length(in));
}

Value LoopObject::call(Interpreter& in, Arguments& arguments) {
  Value bound[1];
  bind("loop", "iterable", arguments, bound);
  if (recursive == nullptr) fail("the loop must have the 'recursive' marker to be called recursively");
  return in.run_recursive(*recursive, bound[0], depth0 + 1, scope);
}

namespace {

Value loop_cycle(Interpreter&, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) fail("cycle() takes no keyword arguments");
  if (arguments.positional.empty()) fail("no items for cycling given");
  const auto& loop = self.as<LoopObject>();
  return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
}

Value loop_changed(Interpreter& in, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) fail("changed() takes no keyword arguments");
  auto& loop = self.as<LoopObject>();
  Value now = in.heap().tuple(std::move(arguments.positional));
  const bool changed = !loop.asked_changed || !equal(in.heap(), loop.last_changed, now);
  loop.asked_changed = true;
  loop.last_changed = std::move(now);
  return Value::boolean(changed);
}

constexpr Filter kCycle{"cycle", "*", nullptr, loop_cycle}, kChanged{"changed", "*", nullptr, loop_changed};

}  // namespace

Value LoopObject::attribute(Interpreter& in, std::string_view name) {
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!peek(in));
  if (name == "length") return Value::integer(length(in));
  if (name == "revindex") return Value::integer(length(in) - index0);
  if (name == "revindex0") return Value::integer(length(in) - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "previtem") return index0 == 0 ? in.heap().undefined("there is no previous item") : before;
  if (name == "nextitem") return peek(in) ? after : in.heap().undefined("there is no next item");
  if (name != "cycle" && name != "changed") return {};
  auto* bound = in.heap().make<FunctionObject>();
  bound->function = name == "cycle" ? &kCycle : &kChanged;
  bound->self = Value::object(Kind::kNative, this);
  return Value::object(Kind::kNative, bound);
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement) {
  const Value iterable = evaluate(*statement.expressions[1]);
  line_ = statement.line;
  return run_loop(statement, iterable, 0);
}

Value Interpreter::run_recursive(const Statement& loop, const Value& iterable, int64_t depth, Scope* scope) {
  StringBuilder buffer;
  StringBuilder* const outer = std::exchange(out_, &buffer);
  Scope* previous = swap_scope(scope);
  run_loop(loop, iterable, depth);
  swap_scope(previous);
  out_ = outer;
  return buffer.take(heap_, autoescape_);
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement, const Value& given, int64_t depth) {
  const Depth guard(*this);
  Scope* const outer = scope_;
  Value iterable = given;
  if (const Expression* condition = statement.expressions[2].get()) {
    if (!given.undefined()) (void)iterate(given);
    // Elements are judged as the loop comes to them, in the scope around it.
    iterable = make_generator(*this, given, false,
                              [&statement, outer, condition](Interpreter& in, IteratorObject& source, Value& out) {
                                while (source.next(in, out)) {
                                  in.heap().spend(1);
                                  Scope* scope = in.enter(outer);
                                  Scope* previous = in.swap_scope(scope);
                                  in.assign(*statement.expressions[0], out, scope);
                                  const bool chosen = truthy(in.evaluate(*condition));
                                  in.swap_scope(previous);
                                  in.leave(scope);
                                  if (chosen) return true;
                                }
                                return false;
                              });
  }
  IteratorObject* iterator = iterate(iterable);
  LoopObject* loop = nullptr;
  static const std::string kLoop = "loop";
  NameId loop_name = 0;
  if (statement.uses_loop) {
    loop = heap_.make<LoopObject>();
    loop->iterable = iterable;
    loop->iterator = iterator;
    loop->depth0 = depth;
    loop->scope = outer;
    if (statement.recursive) {
      loop->recursive = &statement;
      capture(outer);
    }
    const auto known = program_.ids.find(kLoop);
    if (known != program_.ids.end()) loop_name = known->second;
  }
  bool empty = true;
  Value element;
  while (loop != nullptr ? loop->advance(*this) : iterator->next(*this, element)) {
    heap_.spend(1);
    empty = false;
    Scope* scope = enter(outer);
    assign(*statement.expressions[0], loop != nullptr ? loop->current : element, scope);
    if (loop != nullptr) store(loop_name, Value::object(Kind::kNative, loop), scope);
    scope_ = scope;
    const Flow flow = execute(statement.body);
    scope_ = outer;
    leave(scope);
    if (flow == Flow::kBreak) return Flow::kNormal;
  }
  if (!empty || statement.otherwise.empty()) return Flow::kNormal;
  Scope* scope = enter(outer);
  scope_ = scope;
  const Flow flow = execute(statement.otherwise);
  scope_ = outer;
  leave(scope);
  return flow;
}

std::string MacroObject::repr(Interpreter& in) const {
  return name.is_string() ? "<Macro " + in.plain_repr(name) + ">" : "<Macro anonymous>";
}

Value MacroObject::call(Interpreter& in, Arguments& arguments) {
  return in.call_macro(*this, arguments);
}

Value MacroObject::attribute(Interpreter& in, std::string_view attribute) {
  const MacroSignature& signature = *definition->signature;
  if (attribute == "name") return name;
  if (attribute == "arguments") return in.heap().tuple(signature.names);
  if (attribute == "catch_kwargs") return Value::boolean(signature.uses_kwargs);
  if (attribute == "catch_varargs") return Value::boolean(signature.uses_varargs);
  if (attribute == "caller") return Value::boolean(signature.uses_caller);
  return {};
}

void Interpreter::bind_parameters(MacroObject& macro, Arguments& arguments, Scope* scope) {
  const MacroSignature& signature = *macro.definition->signature;
  const size_t count = signature.parameters.size(), given = arguments.positional.size();
  const std::string name = macro.name.is_string() ? "'" + macro.name.text() + "'" : "None";
  const auto take_named = [&](std::string_view wanted) {
    for (auto entry = arguments.named.begin(); entry != arguments.named.end(); ++entry) {
      if (entry->first != wanted) continue;
      Value value = std::move(entry->second);
      arguments.named.erase(entry);
      return value;
    }
    return Value();
  };
  std::vector<Value> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = i < given ? arguments.positional[i] : take_named(signature.names[i].text());
  }
  Value caller;
  if (signature.uses_caller) {
    caller = take_named("caller");
    if (caller.missing()) caller = heap_.undefined("No caller defined");
  }
  if (!signature.uses_kwargs && !arguments.named.empty()) {
    fail("macro {} takes no keyword argument '{}'", name, arguments.named[0].first);
  }
  if (!signature.uses_varargs && given > count) fail("macro {} takes not more than {} argument(s)", name, count);
  const auto store_special = [&](const char* special, Value value) {
    store(program_.ids.at(special), std::move(value), scope);
  };
  if (signature.uses_caller) store_special("caller", caller);
  if (signature.uses_kwargs) {
    DictObject* kwargs = heap_.dict();
    for (auto& [key, value] : arguments.named) heap_.insert(*kwargs, heap_.string(std::string(key)), std::move(value));
    store_special("kwargs", Value::object(Kind::kDict, kwargs));
  }
  if (signature.uses_varargs) {
    std::vector<Value> rest(arguments.positional.begin() + static_cast<ptrdiff_t>(std::min(count, given)),
                            arguments.positional.end());
    store_special("varargs", heap_.tuple(std::move(rest)));
  }
  const size_t first_default = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    if (!values[i].missing()) store(signature.parameters[i], std::move(values[i]), scope);
  }
  // Defaults see the parameters before them.
  for (size_t i = 0; i < count; ++i) {
    const auto stored = [&](const auto& variable) { return variable.first == signature.parameters[i]; };
    if (std::any_of(scope->variables.begin(), scope->variables.end(), stored)) continue;
    store(signature.parameters[i],
          i >= first_default
              ? evaluate(*signature.defaults[i - first_default])
              : heap_.undefined(fmt::format("parameter {} was not provided", plain_repr(signature.names[i]))),
          scope);
  }
}

Value Interpreter::call_macro(MacroObject& macro, Arguments& arguments) {
  const Depth guard(*this);
  const bool markup = autoescape_;
  StringBuilder buffer;
  StringBuilder* const outer_out = std::exchange(out_, &buffer);
  Scope* scope = enter(macro.closure);
  Scope* previous = swap_scope(scope);
  autoescape_ = macro.autoescape;
  bind_parameters(macro, arguments, scope);
  execute(macro.definition->body);
  autoescape_ = markup;
  swap_scope(previous);
  leave(scope);
  out_ = outer_out;
  return buffer.take(heap_, markup);
}

}  // namespace vernier::jinja
