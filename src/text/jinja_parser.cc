#include "text/jinja_parser.h"

#include <algorithm>

#include "text/jinja_filters.h"

namespace vernier::jinja {
namespace {

constexpr int kMaxDepth = 200, kMaxHeight = 500;

}  // namespace

struct Parser::Nesting {
  explicit Nesting(Parser& parser) : depth(parser.depth_) {
    if (++depth > kMaxDepth) fail("the template nests more than {} levels", kMaxDepth);
  }
  ~Nesting() { --depth; }
  int& depth;
};

NameId Program::id(const std::string& name) {
  const auto [entry, added] = ids.emplace(name, static_cast<NameId>(names.size()));
  if (added) names.push_back(name);
  return entry->second;
}

Value Program::literal(std::string text) {
  auto object = std::make_unique<StringObject>();
  object->text = std::move(text);
  object->codes = static_cast<int64_t>(object->length());
  literals.push_back(std::move(object));
  return Value::string(literals.back().get());
}

const Token& Parser::advance() {
  const Token& token = tokens_[position_];
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::skip_operator(std::string_view symbol) {
  if (!current().is_operator(symbol)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  advance();
  return true;
}

void Parser::fail_expected(std::string_view what) const {
  if (current().type == TokenType::kEnd) fail("unexpected end of template, expected '{}'", what);
  fail("expected token '{}', got '{}'", what, current().describe());
}

void Parser::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) fail_expected(symbol);
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(name);
}

std::string Parser::expect_any_name() {
  if (current().type != TokenType::kName) fail_expected("name");
  return advance().text;
}

ExpressionPtr Parser::node(ExpressionKind kind, int line) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

void Parser::adopt(Expression& parent, ExpressionPtr child) const {
  if (child != nullptr) parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight) fail("an expression nests more than {} levels", kMaxHeight);
  parent.operands.push_back(std::move(child));
}

ExpressionPtr Parser::constant(Value value, int line) const {
  ExpressionPtr made = node(ExpressionKind::kConstant, line);
  made->constant = std::move(value);
  return made;
}

ExpressionPtr Parser::expression(bool with_conditional) {
  return with_conditional ? conditional() : either();
}

ExpressionPtr Parser::conditional() {
  const Nesting nesting(*this);
  const int line = current().line;
  // Unknown filters anywhere in a conditional fail only when they are reached.
  const size_t unknown = unknown_.size();
  ExpressionPtr value = either();
  while (skip_name("if")) {
    ExpressionPtr made = node(ExpressionKind::kConditional, line);
    adopt(*made, either());
    adopt(*made, std::move(value));
    adopt(*made, skip_name("else") ? conditional() : nullptr);
    value = std::move(made);
    unknown_.resize(unknown);
  }
  return value;
}

ExpressionPtr Parser::either() {
  ExpressionPtr left = both();
  while (current().is_name("or")) {
    ExpressionPtr made = node(ExpressionKind::kOr, advance().line);
    adopt(*made, std::move(left));
    adopt(*made, both());
    left = std::move(made);
  }
  return left;
}

ExpressionPtr Parser::both() {
  ExpressionPtr left = negation();
  while (current().is_name("and")) {
    ExpressionPtr made = node(ExpressionKind::kAnd, advance().line);
    adopt(*made, std::move(left));
    adopt(*made, negation());
    left = std::move(made);
  }
  return left;
}

ExpressionPtr Parser::negation() {
  if (!current().is_name("not")) return comparison();
  const Nesting nesting(*this);
  ExpressionPtr made = node(ExpressionKind::kNot, advance().line);
  adopt(*made, negation());
  return made;
}

ExpressionPtr Parser::comparison() {
  static const std::pair<std::string_view, Operator> kSymbols[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  const int line = current().line;
  ExpressionPtr first = sum();
  ExpressionPtr made;
  while (true) {
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](const auto& entry) { return current().is_operator(entry.first); });
    Operator op = Operator::kIn;
    if (symbol != std::end(kSymbols)) {
      op = symbol->second;
      advance();
    } else if (current().is_name("not") && look().is_name("in")) {
      op = Operator::kNotIn;
      advance();
      advance();
    } else if (!skip_name("in")) {
      break;
    }
    if (made == nullptr) {
      made = node(ExpressionKind::kCompare, line);
      adopt(*made, std::move(first));
    }
    made->operators.push_back(op);
    adopt(*made, sum());
  }
  return made != nullptr ? std::move(made) : std::move(first);
}

ExpressionPtr Parser::arithmetic(ExpressionPtr left, Operator op, ExpressionPtr right) const {
  ExpressionPtr made = node(ExpressionKind::kArithmetic, left->line);
  made->operators.push_back(op);
  adopt(*made, std::move(left));
  adopt(*made, std::move(right));
  return made;
}

ExpressionPtr Parser::sum() {
  ExpressionPtr left = concatenation();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Operator op = advance().text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = arithmetic(std::move(left), op, concatenation());
  }
  return left;
}

ExpressionPtr Parser::concatenation() {
  const int line = current().line;
  ExpressionPtr first = product();
  if (!current().is_operator("~")) return first;
  ExpressionPtr made = node(ExpressionKind::kConcat, line);
  adopt(*made, std::move(first));
  while (skip_operator("~")) adopt(*made, product());
  return made;
}

ExpressionPtr Parser::product() {
  static const std::pair<std::string_view, Operator> kSymbols[] = {
      {"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}};
  ExpressionPtr left = power();
  while (true) {
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](const auto& entry) { return current().is_operator(entry.first); });
    if (symbol == std::end(kSymbols)) return left;
    advance();
    left = arithmetic(std::move(left), symbol->second, power());
  }
}

ExpressionPtr Parser::power() {
  ExpressionPtr left = unary();
  while (skip_operator("**")) left = arithmetic(std::move(left), Operator::kPower, unary());
  return left;
}

ExpressionPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  ExpressionPtr made;
  if (current().is_operator("-") || current().is_operator("+")) {
    const bool negative = current().is_operator("-");
    made = node(negative ? ExpressionKind::kNegative : ExpressionKind::kPositive, advance().line);
    adopt(*made, unary(false));
  } else {
    made = primary();
  }
  made = postfix(std::move(made));
  return with_filter ? filters_and_tests(std::move(made)) : std::move(made);
}

ExpressionPtr Parser::primary(bool with_namespace) {
  const Token& token = current();
  const int line = token.line;
  switch (token.type) {
    case TokenType::kName: {
      const std::string& name = advance().text;
      if (name == "true" || name == "True") return constant(Value::boolean(true), line);
      if (name == "false" || name == "False") return constant(Value::boolean(false), line);
      if (name == "none" || name == "None") return constant(Value::none(), line);
      const bool attribute = with_namespace && skip_operator(".");
      ExpressionPtr made = node(attribute ? ExpressionKind::kNamespaceTarget : ExpressionKind::kName, line);
      made->name = program_.id(name);
      if (attribute) {
        made->text = expect_any_name();
        made->constant = program_.literal(made->text);
      }
      loads_.push_back(made->name);
      return made;
    }
    case TokenType::kString: {
      std::string text;
      while (current().type == TokenType::kString) text += advance().text;
      return constant(program_.literal(std::move(text)), line);
    }
    case TokenType::kInteger: {
      const WideInteger value = advance().integer;
      if (static_cast<int64_t>(value) == value) return constant(Value::integer(static_cast<int64_t>(value)), line);
      auto owner = std::make_unique<WideObject>();
      owner->value = value;
      program_.wide_literals.push_back(std::move(owner));
      return constant(Value::object(Kind::kWide, program_.wide_literals.back().get()), line);
    }
    case TokenType::kFloat:
      return constant(Value::number(advance().number), line);
    default:
      break;
  }
  if (skip_operator("(")) {
    ExpressionPtr made = tuple({.parenthesised = true});
    expect_operator(")");
    return made;
  }
  if (token.is_operator("[")) return list();
  if (token.is_operator("{")) return dict();
  fail("unexpected '{}'", token.describe());
}

bool Parser::at_tuple_end(const TupleRules& rules) const {
  const Token& token = current();
  return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd || token.is_operator(")") ||
         (!rules.end_name.empty() && token.is_name(rules.end_name));
}

ExpressionPtr Parser::tuple(const TupleRules& rules) {
  ExpressionPtr made = node(ExpressionKind::kTuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!made->operands.empty()) expect_operator(",");
    if (at_tuple_end(rules)) break;
    adopt(*made, rules.simplified ? primary(rules.with_namespace) : expression(rules.with_conditional));
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!made->operands.empty()) return std::move(made->operands[0]);
    if (!rules.parenthesised) fail("expected an expression, got '{}'", current().describe());
  }
  return made;
}

ExpressionPtr Parser::list() {
  ExpressionPtr made = node(ExpressionKind::kList, advance().line);
  while (!current().is_operator("]")) {
    if (!made->operands.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    adopt(*made, expression());
  }
  expect_operator("]");
  return made;
}

ExpressionPtr Parser::dict() {
  ExpressionPtr made = node(ExpressionKind::kDict, advance().line);
  while (!current().is_operator("}")) {
    if (!made->operands.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    adopt(*made, expression());
    expect_operator(":");
    adopt(*made, expression());
  }
  expect_operator("}");
  return made;
}

ExpressionPtr Parser::postfix(ExpressionPtr expression) {
  while (true) {
    if (current().is_operator(".") || current().is_operator("[")) {
      expression = subscript(std::move(expression));
    } else if (current().is_operator("(")) {
      expression = call(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr expression) {
  while (true) {
    if (current().is_operator("|")) {
      expression = filter(std::move(expression), false);
    } else if (current().is_name("is")) {
      expression = test(std::move(expression));
    } else if (current().is_operator("(")) {
      expression = call(std::move(expression));
    } else {
      return expression;
    }
  }
}

}  // namespace vernier::jinja
