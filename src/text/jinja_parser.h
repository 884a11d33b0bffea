#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace vernier::jinja {

/// Recursive descent over the tokens of one template. Nesting is bounded, so that neither parsing nor evaluating can
/// exhaust the stack.
class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}
  void parse();
  int line() const { return current().line; }

 private:
  using Names = std::initializer_list<std::string_view>;
  struct Nesting;  ///< counts one level for as long as it lives

  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  const Token& advance();
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  [[noreturn]] void fail_expected(std::string_view what) const;
  [[noreturn]] void fail_tag(std::string_view tag) const;

  // jinja_parser.cc: expressions
  ExpressionPtr node(ExpressionKind kind, int line) const;
  void adopt(Expression& parent, ExpressionPtr child) const;
  ExpressionPtr constant(Value value, int line) const;
  ExpressionPtr expression(bool with_conditional = true);
  ExpressionPtr conditional();
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary(bool with_namespace = false);
  ExpressionPtr postfix(ExpressionPtr expression);
  ExpressionPtr filters_and_tests(ExpressionPtr expression);
  ExpressionPtr arithmetic(ExpressionPtr left, Operator op, ExpressionPtr right) const;
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr subscribed();
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr filter(ExpressionPtr input, bool start_inline);
  ExpressionPtr test(ExpressionPtr subject);
  void call_arguments(Expression& node);
  std::string dotted_name();
  void note_unknown(const char* what, const std::string& name, int line);
  struct TupleRules {
    bool simplified = false, with_conditional = true, parenthesised = false, with_namespace = false;
    std::string_view end_name = {};
  };
  ExpressionPtr tuple(const TupleRules& rules);
  bool at_tuple_end(const TupleRules& rules) const;

  // jinja_parser_statements.cc
  Body statements(Names end_tags);
  Body block_body(Names end_tags);
  StatementPtr statement();
  StatementPtr make(StatementKind kind);
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_set();
  StatementPtr parse_with();
  StatementPtr parse_autoescape();
  StatementPtr parse_block();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_generation();
  StatementPtr parse_print();
  StatementPtr parse_load();
  StatementPtr parse_jump();
  ExpressionPtr assign_target(bool with_namespace, std::string_view end_name = {});
  void check_target(const Expression& target) const;
  void signature(Statement& statement);
  void macro_body(Statement& statement, std::string_view end_tag);
  bool used_since(size_t mark, std::string_view name) const;

  std::vector<Token> tokens_;
  Program& program_;
  size_t position_ = 0;
  int depth_ = 0;
  int loops_ = 0;                 ///< loops around this place within the same macro
  bool soft_ = false;             ///< directly in an if: an unknown filter fails only when it is reached
  std::vector<Failure> unknown_;  ///< filters and tests that do not exist and are not soft
  std::vector<NameId> loads_;     ///< every name read so far, in order
  std::vector<std::string> open_tags_;
  std::vector<Names> end_tags_;
};

}  // namespace vernier::jinja
