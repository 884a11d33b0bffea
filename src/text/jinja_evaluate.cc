#include <algorithm>

#include "text/jinja_interpreter.h"

// Expressions.
namespace vernier::jinja {

Value Interpreter::lookup(NameId name) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (!root_[name].missing()) return root_[name];
  if (!resolved_[name]) {
    resolved_[name] = 1;
    context_[name] = lookup_(*this, program_.names[name]);
    if (context_[name].missing()) context_[name] = global_value(*this, program_.names[name]);
  }
  if (!context_[name].missing()) return context_[name];
  return heap_.undefined_name(heap_.string(program_.names[name]));
}

Value Interpreter::evaluate(const Expression& node) {
  const Depth depth(*this);
  heap_.spend(1);
  const auto operand = [&](size_t i) { return evaluate(*node.operands[i]); };
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return lookup(node.name);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList: {
      std::vector<Value> items;
      items.reserve(node.operands.size());
      for (size_t i = 0; i < node.operands.size(); ++i) items.push_back(operand(i));
      return heap_.list(std::move(items), node.kind == ExpressionKind::kList ? Kind::kList : Kind::kTuple);
    }
    case ExpressionKind::kDict: {
      DictObject* dict = heap_.dict();
      for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
        Value key = operand(i);
        heap_.insert(*dict, std::move(key), operand(i + 1));
      }
      return Value::object(Kind::kDict, dict);
    }
    case ExpressionKind::kConditional:
      if (truthy(operand(0))) return operand(1);
      if (node.operands[2] != nullptr) return operand(2);
      return heap_.undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.", node.line));
    case ExpressionKind::kOr: {
      Value left = operand(0);
      return truthy(left) ? left : operand(1);
    }
    case ExpressionKind::kAnd: {
      Value left = operand(0);
      return truthy(left) ? operand(1) : left;
    }
    case ExpressionKind::kNot:
      return Value::boolean(!truthy(operand(0)));
    case ExpressionKind::kCompare:
      return evaluate_compare(node);
    case ExpressionKind::kArithmetic: {
      const Value left = operand(0), right = operand(1);
      line_ = node.line;
      return arithmetic(node.operators[0], left, right);
    }
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kNegative:
      return negate(operand(0));
    case ExpressionKind::kPositive: {
      const Value value = operand(0);
      if (value.undefined()) fail_undefined(value);
      if (!value.is_number()) fail("bad operand type for unary +: '{}'", type_name(value));
      return value.is(Kind::kBool) ? Value::integer(value.as_int()) : value;
    }
    case ExpressionKind::kAttribute: {
      const Value object = operand(0);
      line_ = node.line;
      return attribute(object, node.constant);
    }
    case ExpressionKind::kItem:
      return evaluate_item(node);
    case ExpressionKind::kCall:
      return evaluate_call(node, nullptr);
    case ExpressionKind::kFilter:
      return evaluate_filter(node, nullptr);
    case ExpressionKind::kTest: {
      if (node.test == nullptr) fail("no test named '{}' found", node.text);
      const Value subject = operand(0);
      Arguments arguments = evaluate_arguments(node.arguments.get());
      line_ = node.line;
      return Value::boolean(apply(*node.test, subject, arguments));
    }
    case ExpressionKind::kSlice:
    case ExpressionKind::kNamespaceTarget:
      break;
  }
  fail("this expression has no value");
}

Value Interpreter::evaluate_compare(const Expression& node) {
  Value left = evaluate(*node.operands[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.operands[i + 1]);
    line_ = node.line;
    if (!compare(node.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Expression& node) {
  std::vector<Value> values;
  values.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) values.push_back(evaluate(*operand));
  StringBuilder out;
  // Inside an autoescape block one Markup makes the whole safe, and the rest is escaped.
  const bool markup = autoescape_ && std::any_of(values.begin(), values.end(), [](const Value& value) {
                        return value.is_string() && value.str().markup;
                      });
  for (const Value& value : values) {
    if (markup) {
      append_escaped(out, value);
    } else {
      print(out, value);
    }
    heap_.check_bytes(out.size());
  }
  return out.take(heap_, markup);
}

Value Interpreter::evaluate_item(const Expression& node) {
  const Value object = evaluate(*node.operands[0]);
  const Expression& key = *node.operands[1];
  if (key.kind != ExpressionKind::kSlice) {
    const Value index = evaluate(key);
    line_ = node.line;
    return item(object, index);
  }
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = key.operands[i] == nullptr ? Value::none() : evaluate(*key.operands[i]);
  }
  line_ = node.line;
  return slice(object, parts[0], parts[1], parts[2]);
}

Arguments Interpreter::evaluate_arguments(const CallArguments* arguments) {
  Arguments made;
  if (arguments == nullptr) return made;
  for (const ExpressionPtr& argument : arguments->positional) made.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments->named) made.named.emplace_back(name, evaluate(*argument));
  if (arguments->star != nullptr) {
    for (Value& value : collect(evaluate(*arguments->star))) made.positional.push_back(std::move(value));
  }
  if (arguments->star_star != nullptr) {
    const Value more = evaluate(*arguments->star_star);
    if (more.undefined()) fail_undefined(more);
    if (!more.is(Kind::kDict)) fail("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [key, value] : more.as<DictObject>().entries) {
      if (!key.is_string()) fail("keywords must be strings");
      for (const auto& known : made.named) {
        if (known.first == key.text()) fail("got multiple values for keyword argument '{}'", key.text());
      }
      made.named.emplace_back(key.text(), value);
    }
  }
  return made;
}

Value Interpreter::evaluate_call(const Expression& node, const Value* caller) {
  const Expression& callee = *node.operands[0];
  if (callee.kind == ExpressionKind::kAttribute) {
    // A method is called without a bound object in between.
    const Value object = evaluate(*callee.operands[0]);
    line_ = callee.line;
    const Filter* method = find_method(object, callee.text);
    const Value function = method == nullptr ? attribute(object, callee.constant) : Value();
    Arguments arguments = evaluate_arguments(node.arguments.get());
    if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
    line_ = node.line;
    return method != nullptr ? apply(*method, object, arguments) : call(function, arguments);
  }
  const Value function = evaluate(callee);
  Arguments arguments = evaluate_arguments(node.arguments.get());
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = node.line;
  return call(function, arguments);
}

Value Interpreter::evaluate_filter(const Expression& node, const Value* input) {
  if (node.filter == nullptr) fail("no filter named '{}' found", node.text);
  const bool innermost = node.operands[0] == nullptr;
  const bool chained = !innermost && node.operands[0]->kind == ExpressionKind::kFilter;
  const Value value = innermost ? *input
                      : chained ? evaluate_filter(*node.operands[0], input)
                                : evaluate(*node.operands[0]);
  heap_.spend(1);
  Arguments arguments = evaluate_arguments(node.arguments.get());
  line_ = node.line;
  return apply(*node.filter, value, arguments);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (callee.undefined()) fail_undefined(callee);
  if (!callee.is(Kind::kNative) || !callee.as<NativeObject>().callable()) {
    fail("'{}' object is not callable", type_name(callee));
  }
  const Depth depth(*this);
  return callee.as<NativeObject>().call(*this, arguments);
}

Value Interpreter::apply(const Filter& filter, const Value& input, Arguments& arguments) {
  if (filter.variadic != nullptr) return filter.variadic(*this, input, arguments);
  Value bound[8];
  bind(filter.name, filter.parameters, arguments, bound);
  return filter.plain(*this, input, bound);
}

bool Interpreter::apply(const Test& test, const Value& input, Arguments& arguments) {
  Value bound[8];
  bind(test.name, test.parameters, arguments, bound);
  return test.plain(*this, input, bound);
}

void bind(const char* function, std::string_view parameters, Arguments& arguments, Value* out) {
  size_t count = 0, taken = 0, named = 0;
  const bool positional_only = !parameters.empty() && parameters[0] == '/';
  if (positional_only) parameters.remove_prefix(1);
  for (size_t start = parameters.find_first_not_of(' '); start < parameters.size(); ++count) {
    size_t end = std::min(parameters.find(' ', start), parameters.size());
    std::string_view name = parameters.substr(start, end - start);
    const bool optional = name.back() == '?';
    if (optional) name.remove_suffix(1);
    if (taken < arguments.positional.size()) out[count] = std::move(arguments.positional[taken++]);
    for (auto& [key, value] : arguments.named) {
      if (key != name || positional_only) continue;
      if (!out[count].missing()) fail("{}() got multiple values for argument '{}'", function, name);
      out[count] = std::move(value);
      ++named;
    }
    if (out[count].missing() && !optional) fail("{}() missing required argument '{}'", function, name);
    start = end + 1;
  }
  if (taken < arguments.positional.size()) {
    fail("{}() takes at most {} arguments ({} given)", function, count, arguments.positional.size());
  }
  if (named < arguments.named.size()) {
    if (positional_only) fail("{}() takes no keyword arguments", function);
    for (const auto& [key, value] : arguments.named) {
      if (!value.missing()) fail("{}() got an unexpected keyword argument '{}'", function, key);
    }
  }
}

const StringObject& expect_string(const Value& value, const char* where) {
  if (!value.is_string()) fail("{} must be str, not {}", where, type_name(value));
  return value.str();
}

int64_t expect_int(const Value& value, const char* where) {
  if (value.is(Kind::kWide)) fail("{} is too large", where);
  if (!value.is_integer()) fail("{}: '{}' object cannot be interpreted as an integer", where, type_name(value));
  return value.as_int();
}

int64_t int_or(const Value& value, int64_t otherwise, const char* where) {
  return value.missing() ? otherwise : expect_int(value, where);
}

}  // namespace vernier::jinja
