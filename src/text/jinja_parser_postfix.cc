#include "text/jinja_filters.h"
#include "text/jinja_parser.h"

// Subscripts, calls, filters and tests: what follows a primary expression.
namespace vernier::jinja {

ExpressionPtr Parser::subscript(ExpressionPtr object) {
  const int line = current().line;
  if (skip_operator(".")) {
    const Token& token = advance();
    if (token.type == TokenType::kName) {
      ExpressionPtr made = node(ExpressionKind::kAttribute, line);
      made->text = token.text;
      made->constant = program_.literal(token.text);
      adopt(*made, std::move(object));
      return made;
    }
    if (token.type != TokenType::kInteger) fail("expected name or number, got '{}'", token.describe());
    ExpressionPtr made = node(ExpressionKind::kItem, line);
    adopt(*made, std::move(object));
    adopt(*made, constant(Value::integer(static_cast<int64_t>(token.integer)), line));
    return made;
  }
  advance();
  ExpressionPtr made = node(ExpressionKind::kItem, line);
  adopt(*made, std::move(object));
  std::vector<ExpressionPtr> parts;
  while (!current().is_operator("]")) {
    if (!parts.empty()) expect_operator(",");
    parts.push_back(subscribed());
  }
  expect_operator("]");
  if (parts.size() == 1) {
    adopt(*made, std::move(parts[0]));
    return made;
  }
  ExpressionPtr tuple = node(ExpressionKind::kTuple, line);
  for (ExpressionPtr& part : parts) {
    if (part->kind == ExpressionKind::kSlice) fail("a slice among several subscripts is not valid");
    adopt(*tuple, std::move(part));
  }
  adopt(*made, std::move(tuple));
  return made;
}

ExpressionPtr Parser::subscribed() {
  ExpressionPtr start;
  const int line = current().line;
  if (!current().is_operator(":")) {
    start = expression();
    if (!current().is_operator(":")) return start;
  }
  advance();
  const auto part = [&]() -> ExpressionPtr {
    if (current().is_operator(":") || current().is_operator("]") || current().is_operator(",")) return nullptr;
    return expression();
  };
  ExpressionPtr made = node(ExpressionKind::kSlice, line);
  adopt(*made, std::move(start));
  adopt(*made, part());
  adopt(*made, skip_operator(":") ? part() : nullptr);
  return made;
}

ExpressionPtr Parser::call(ExpressionPtr callee) {
  ExpressionPtr made = node(ExpressionKind::kCall, current().line);
  adopt(*made, std::move(callee));
  call_arguments(*made);
  return made;
}

void Parser::call_arguments(Expression& node) {
  const auto measured = [&](ExpressionPtr argument) {
    node.height = std::max(node.height, argument->height + 1);
    return argument;
  };
  const auto ensure = [](bool condition) {
    if (!condition) fail("invalid syntax for function call expression");
  };
  expect_operator("(");
  node.arguments = std::make_unique<CallArguments>();
  CallArguments& made = *node.arguments;
  bool comma = false;
  while (!current().is_operator(")")) {
    if (comma) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    comma = true;
    if (skip_operator("*")) {
      ensure(made.star == nullptr && made.star_star == nullptr);
      made.star = measured(expression());
    } else if (skip_operator("**")) {
      ensure(made.star_star == nullptr);
      made.star_star = measured(expression());
    } else if (current().type == TokenType::kName && look().is_operator("=")) {
      ensure(made.star_star == nullptr);
      std::string name = advance().text;
      advance();
      for (const auto& known : made.named) {
        if (known.first == name) fail("keyword argument repeated: {}", name);
      }
      made.named.emplace_back(std::move(name), measured(expression()));
    } else {
      ensure(made.star == nullptr && made.star_star == nullptr && made.named.empty());
      made.positional.push_back(measured(expression()));
    }
  }
  expect_operator(")");
}

std::string Parser::dotted_name() {
  std::string name = expect_any_name();
  while (skip_operator(".")) name.append(1, '.').append(expect_any_name());
  return name;
}

void Parser::note_unknown(const char* what, const std::string& name, int line) {
  if (!soft_) unknown_.push_back({fmt::format("no {} named '{}'", what, name), line});
}

ExpressionPtr Parser::filter(ExpressionPtr input, bool start_inline) {
  while (start_inline || current().is_operator("|")) {
    if (!start_inline) advance();
    start_inline = false;
    ExpressionPtr made = node(ExpressionKind::kFilter, current().line);
    made->text = dotted_name();
    made->filter = find_filter(made->text);
    if (made->filter == nullptr) note_unknown("filter", made->text, made->line);
    adopt(*made, std::move(input));
    if (current().is_operator("(")) call_arguments(*made);
    input = std::move(made);
  }
  return input;
}

ExpressionPtr Parser::test(ExpressionPtr subject) {
  ExpressionPtr made = node(ExpressionKind::kTest, advance().line);
  const bool negated = skip_name("not");
  made->text = dotted_name();
  made->test = find_test(made->text);
  if (made->test == nullptr) note_unknown("test", made->text, made->line);
  adopt(*made, std::move(subject));
  const Token& token = current();
  const bool operand = token.type == TokenType::kName || token.type == TokenType::kString ||
                       token.type == TokenType::kInteger || token.type == TokenType::kFloat || token.is_operator("[") ||
                       token.is_operator("{");
  if (token.is_operator("(")) {
    call_arguments(*made);
  } else if (operand && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) fail("you cannot chain multiple tests with is");
    made->arguments = std::make_unique<CallArguments>();
    ExpressionPtr argument = postfix(primary());
    made->height = std::max(made->height, argument->height + 1);
    made->arguments->positional.push_back(std::move(argument));
  }
  if (!negated) return made;
  ExpressionPtr inverse = node(ExpressionKind::kNot, made->line);
  adopt(*inverse, std::move(made));
  return inverse;
}

}  // namespace vernier::jinja
