#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_loop.h"

// Statements and scopes.
namespace vernier::jinja {

Interpreter::Interpreter(const Program& program, const Limits& limits, const CivilTime& now, Lookup lookup)
    : program_(program), heap_(limits), now_(now), lookup_(std::move(lookup)) {
  root_.resize(program.names.size());
  context_.resize(program.names.size());
  resolved_.resize(program.names.size());
}

void Interpreter::run(std::string& text, std::vector<ByteRange>& marks) {
  StringBuilder out;
  out_ = &out;
  execute(program_.body);
  out.take(text, marks);
}

Scope* Interpreter::enter(Scope* parent) {
  Scope* scope = nullptr;
  if (spare_scopes_.empty()) {
    scope = heap_.make<Scope>();
  } else {
    scope = spare_scopes_.back();
    spare_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::leave(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  spare_scopes_.push_back(scope);
}

void Interpreter::capture(Scope* scope) {
  for (; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
}

void Interpreter::store(NameId name, Value value, Scope* scope) {
  if (scope == nullptr) {
    root_[name] = std::move(value);
    return;
  }
  for (auto& [known, slot] : scope->variables) {
    if (known == name) {
      slot = std::move(value);
      return;
    }
  }
  scope->variables.emplace_back(name, std::move(value));
}

void Interpreter::assign(const Expression& target, const Value& value, Scope* scope) {
  if (target.kind == ExpressionKind::kName) return store(target.name, value, scope);
  if (target.kind == ExpressionKind::kNamespaceTarget) {
    const Value object = lookup(target.name);
    if (!object.is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
    if (target.text.starts_with('_')) {
      fail("a chat template cannot store underscore-prefixed attributes on a namespace, but got '{}'", target.text);
    }
    return heap_.insert(*object.as<NamespaceObject>().attributes, target.constant, value);
  }
  const std::vector<Value> items = collect(value);
  if (items.size() > target.operands.size()) fail("too many values to unpack (expected {})", target.operands.size());
  if (items.size() < target.operands.size()) {
    fail("not enough values to unpack (expected {}, got {})", target.operands.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.operands[i], items[i], scope);
}

void Interpreter::emit(const Value& value) {
  if (autoescape_) {
    append_escaped(*out_, value);
  } else {
    print(*out_, value);
  }
  heap_.check_bytes(out_->size());
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const StatementPtr& statement : body) {
    if (const Flow flow = execute(*statement); flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Depth depth(*this);
  heap_.spend(1);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kData:
      out_->append(statement.data.text());
      heap_.check_bytes(out_->size());
      return Flow::kNormal;
    case StatementKind::kPrint:
      for (const ExpressionPtr& expression : statement.expressions) emit(evaluate(*expression));
      return Flow::kNormal;
    case StatementKind::kFor:
      return execute_for(statement);
    case StatementKind::kIf:
      return execute_if(statement);
    case StatementKind::kSet:
      check_namespaces(*statement.targets[0]);
      assign(*statement.targets[0], evaluate(*statement.expressions[0]), scope_);
      return Flow::kNormal;
    case StatementKind::kSetBlock:
      execute_set_block(statement);
      return Flow::kNormal;
    case StatementKind::kMacro:
      store(statement.name, make_macro(statement), scope_);
      return Flow::kNormal;
    case StatementKind::kCallBlock:
      execute_call_block(statement);
      return Flow::kNormal;
    case StatementKind::kFilterBlock:
      execute_filter_block(statement);
      return Flow::kNormal;
    case StatementKind::kWith:
      return execute_with(statement);
    case StatementKind::kAutoescape: {
      const bool outer = autoescape_;
      autoescape_ = truthy(evaluate(*statement.expressions[0]));
      Scope* scope = enter(scope_);
      Scope* previous = swap_scope(scope);
      const Flow flow = execute(statement.body);
      swap_scope(previous);
      leave(scope);
      autoescape_ = outer;
      return flow;
    }
    case StatementKind::kGeneration: {
      Flow flow = Flow::kNormal;
      const Value text = capture_body(statement.body, flow);
      out_->append(text.str());
      return flow;
    }
    case StatementKind::kBlock:
      if (statement.required) fail("required block '{}' not found", statement.data.text());
      out_->append(render_block(statement, statement.scoped ? scope_ : nullptr).str());
      return Flow::kNormal;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kLoad:
      break;
  }
  (void)evaluate(*statement.expressions[0]);
  fail("{{% {} %}} is not supported: a chat template stands alone and loads no other", statement.data.text());
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement) {
  for (size_t i = 0; i < statement.branches.size(); ++i) {
    if (truthy(evaluate(*statement.expressions[i]))) return execute(statement.branches[i]);
  }
  return execute(statement.otherwise);
}

void Interpreter::check_namespaces(const Expression& target) {
  if (target.kind == ExpressionKind::kNamespaceTarget && !lookup(target.name).is(Kind::kNamespace)) {
    fail("cannot assign attribute on non-namespace object");
  }
  for (const ExpressionPtr& part : target.operands) check_namespaces(*part);
}

Value Interpreter::capture_body(const Body& body, Flow& flow) {
  StringBuilder buffer;
  StringBuilder* const outer = std::exchange(out_, &buffer);
  Scope* scope = enter(scope_);
  Scope* previous = swap_scope(scope);
  flow = execute(body);
  swap_scope(previous);
  leave(scope);
  out_ = outer;
  return buffer.take(heap_, autoescape_);
}

void Interpreter::execute_set_block(const Statement& statement) {
  Flow flow = Flow::kNormal;
  Value text = capture_body(statement.body, flow);
  if (statement.expressions[0] != nullptr) text = evaluate_filter(*statement.expressions[0], &text);
  assign(*statement.targets[0], text, scope_);
}

void Interpreter::execute_filter_block(const Statement& statement) {
  Flow flow = Flow::kNormal;
  const Value text = capture_body(statement.body, flow);
  emit(evaluate_filter(*statement.expressions[0], &text));
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  Scope* scope = enter(scope_);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    assign(*statement.targets[i], evaluate(*statement.expressions[i]), scope);
  }
  Scope* previous = swap_scope(scope);
  const Flow flow = execute(statement.body);
  swap_scope(previous);
  leave(scope);
  return flow;
}

Value Interpreter::make_macro(const Statement& statement) {
  capture(scope_);
  auto* macro = heap_.make<MacroObject>();
  macro->definition = &statement;
  macro->closure = scope_;
  macro->name = statement.data.missing() ? Value::none() : statement.data;
  macro->autoescape = autoescape_;
  return Value::object(Kind::kNative, macro);
}

void Interpreter::execute_call_block(const Statement& statement) {
  const Value caller = make_macro(statement);
  emit(evaluate_call(*statement.expressions[0], &caller));
}

Value Interpreter::render_block(const Statement& block, Scope* parent) {
  Flow flow = Flow::kNormal;
  Scope* previous = swap_scope(parent);
  Value text = capture_body(block.body, flow);
  swap_scope(previous);
  return text;
}

}  // namespace vernier::jinja
