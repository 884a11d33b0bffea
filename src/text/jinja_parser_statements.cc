#include <algorithm>

#include "text/jinja_parser.h"

namespace vernier::jinja {

std::unique_ptr<Program> parse_program(std::string_view source) {
  auto program = std::make_unique<Program>();
  Parser parser(tokenize(source), *program);
  try {
    parser.parse();
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = parser.line();
    throw;
  }
  return program;
}

void Parser::parse() {
  program_.body = statements({});
  if (!unknown_.empty()) throw unknown_.front();
}

void Parser::fail_tag(std::string_view tag) const {
  std::string message = tag.empty() ? "unexpected end of template." : fmt::format("encountered unknown tag '{}'.", tag);
  if (!end_tags_.empty()) {
    std::string expected;
    for (const std::string_view name : end_tags_.back()) {
      expected += (expected.empty() ? "'" : " or '") + std::string(name) + "'";
    }
    message += " Jinja was looking for the following tags: " + expected + ".";
  }
  if (!open_tags_.empty()) message += " The innermost block that needs to be closed is '" + open_tags_.back() + "'.";
  throw Failure{message};
}

/// Statements up to one of the end tags, whose name is then the current token; up to the end of the template if none.
Body Parser::statements(Names end_tags) {
  if (++depth_ > 100) fail("the template nests more than 100 blocks");
  Body body;
  while (current().type != TokenType::kEnd) {
    if (current().type == TokenType::kData) {
      StatementPtr data = make(StatementKind::kData);
      data->data = program_.literal(advance().text);
      body.push_back(std::move(data));
    } else if (current().type == TokenType::kVariableBegin) {
      StatementPtr print = make(StatementKind::kPrint);
      advance();
      print->expressions.push_back(tuple({}));
      if (current().type != TokenType::kVariableEnd) fail_expected("end of print statement");
      advance();
      body.push_back(std::move(print));
    } else {
      advance();
      for (const std::string_view tag : end_tags) {
        if (current().is_name(tag)) {
          --depth_;
          return body;
        }
      }
      body.push_back(statement());
      if (current().type != TokenType::kBlockEnd) fail_expected("end of statement block");
      advance();
    }
  }
  if (end_tags.size() != 0) fail_tag("");
  --depth_;
  return body;
}

/// What stands between the opening tag, whose end is next, and one of the end tags.
Body Parser::block_body(Names end_tags) {
  skip_operator(":");
  if (current().type != TokenType::kBlockEnd) fail_expected("end of statement block");
  advance();
  end_tags_.push_back(end_tags);
  Body body = statements(end_tags);
  end_tags_.pop_back();
  return body;
}

StatementPtr Parser::make(StatementKind kind) {
  auto made = std::make_unique<Statement>();
  made->kind = kind;
  made->line = current().line;
  return made;
}

StatementPtr Parser::statement() {
  using Parse = StatementPtr (Parser::*)();
  static const std::unordered_map<std::string_view, Parse> kTags = {{"for", &Parser::parse_for},
                                                                    {"if", &Parser::parse_if},
                                                                    {"set", &Parser::parse_set},
                                                                    {"with", &Parser::parse_with},
                                                                    {"macro", &Parser::parse_macro},
                                                                    {"call", &Parser::parse_call_block},
                                                                    {"block", &Parser::parse_block},
                                                                    {"filter", &Parser::parse_filter_block},
                                                                    {"print", &Parser::parse_print},
                                                                    {"autoescape", &Parser::parse_autoescape},
                                                                    {"include", &Parser::parse_load},
                                                                    {"import", &Parser::parse_load},
                                                                    {"extends", &Parser::parse_load},
                                                                    {"from", &Parser::parse_load},
                                                                    {"break", &Parser::parse_jump},
                                                                    {"continue", &Parser::parse_jump},
                                                                    {"generation", &Parser::parse_generation}};
  if (current().type != TokenType::kName) fail("tag name expected, got '{}'", current().describe());
  const auto tag = kTags.find(current().text);
  if (tag == kTags.end()) fail_tag(current().text);
  open_tags_.push_back(current().text);
  StatementPtr made = (this->*tag->second)();
  open_tags_.pop_back();
  return made;
}

bool Parser::used_since(size_t mark, std::string_view name) const {
  const auto known = program_.ids.find(std::string(name));
  return known != program_.ids.end() &&
         std::find(loads_.begin() + static_cast<ptrdiff_t>(mark), loads_.end(), known->second) != loads_.end();
}

void Parser::check_target(const Expression& target) const {
  if (target.kind == ExpressionKind::kTuple) {
    for (const ExpressionPtr& part : target.operands) check_target(*part);
  } else if (target.kind != ExpressionKind::kName && target.kind != ExpressionKind::kNamespaceTarget) {
    fail("can't assign to this expression: a name or names were expected");
  }
}

ExpressionPtr Parser::assign_target(bool with_namespace, std::string_view end_name) {
  const size_t mark = loads_.size();
  ExpressionPtr target = tuple({.simplified = true, .with_namespace = with_namespace, .end_name = end_name});
  check_target(*target);
  loads_.resize(mark);  // assigned, not read
  return target;
}

StatementPtr Parser::parse_for() {
  StatementPtr made = make(StatementKind::kFor);
  advance();
  made->expressions.push_back(assign_target(false, "in"));
  expect_name("in");
  made->expressions.push_back(tuple({.with_conditional = false, .end_name = "recursive"}));
  const bool soft = std::exchange(soft_, false);
  made->expressions.push_back(skip_name("if") ? expression() : nullptr);
  made->recursive = skip_name("recursive");
  const size_t mark = loads_.size();
  ++loops_;
  made->body = block_body({"endfor", "else"});
  --loops_;
  made->uses_loop = made->recursive || used_since(mark, "loop");
  if (advance().text == "else") {
    made->otherwise = block_body({"endfor"});
    advance();
  }
  soft_ = soft;
  const auto stores_loop = [&](const auto& self, const Expression& target) -> bool {
    if (target.kind == ExpressionKind::kName) return program_.names[target.name] == "loop";
    return std::any_of(target.operands.begin(), target.operands.end(),
                       [&](const ExpressionPtr& part) { return self(self, *part); });
  };
  if (stores_loop(stores_loop, *made->expressions[0])) fail("can't assign to special loop variable in for-loop target");
  return made;
}

StatementPtr Parser::parse_if() {
  StatementPtr made = make(StatementKind::kIf);
  const bool soft = std::exchange(soft_, true);
  do {
    advance();
    made->expressions.push_back(tuple({.with_conditional = false}));
    made->branches.push_back(block_body({"elif", "else", "endif"}));
  } while (current().is_name("elif"));
  if (advance().text == "else") {
    made->otherwise = block_body({"endif"});
    advance();
  }
  soft_ = soft;
  return made;
}

StatementPtr Parser::parse_set() {
  StatementPtr made = make(StatementKind::kSet);
  advance();
  made->targets.push_back(assign_target(true));
  if (skip_operator("=")) {
    made->expressions.push_back(tuple({}));
    return made;
  }
  made->kind = StatementKind::kSetBlock;
  const bool soft = std::exchange(soft_, false);
  made->expressions.push_back(filter(nullptr, false));
  made->body = block_body({"endset"});
  soft_ = soft;
  advance();
  return made;
}

StatementPtr Parser::parse_with() {
  StatementPtr made = make(StatementKind::kWith);
  advance();
  while (current().type != TokenType::kBlockEnd) {
    if (!made->targets.empty()) expect_operator(",");
    made->targets.push_back(assign_target(false));
    expect_operator("=");
    made->expressions.push_back(expression());
  }
  const bool soft = std::exchange(soft_, false);
  made->body = block_body({"endwith"});
  soft_ = soft;
  advance();
  return made;
}

StatementPtr Parser::parse_autoescape() {
  StatementPtr made = make(StatementKind::kAutoescape);
  advance();
  made->expressions.push_back(expression());
  const bool soft = std::exchange(soft_, false);
  made->body = block_body({"endautoescape"});
  soft_ = soft;
  advance();
  return made;
}

StatementPtr Parser::parse_block() {
  StatementPtr made = make(StatementKind::kBlock);
  advance();
  const std::string name = expect_any_name();
  made->data = program_.literal(name);
  made->scoped = skip_name("scoped");
  made->required = skip_name("required");
  const int loops = std::exchange(loops_, 0);
  const bool soft = std::exchange(soft_, false);
  made->body = block_body({"endblock"});
  soft_ = soft;
  loops_ = loops;
  advance();
  skip_name(name);
  if (!program_.blocks.emplace(name, made.get()).second) fail("block '{}' defined twice", name);
  return made;
}

void Parser::signature(Statement& statement) {
  MacroSignature& made = *statement.signature;
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!made.parameters.empty()) expect_operator(",");
    const std::string name = expect_any_name();
    const NameId id = program_.id(name);
    if (std::find(made.parameters.begin(), made.parameters.end(), id) != made.parameters.end()) {
      fail("duplicate argument '{}' in macro definition", name);
    }
    if (skip_operator("=")) {
      made.defaults.push_back(expression());
    } else if (!made.defaults.empty()) {
      fail("non-default argument follows default argument");
    }
    made.parameters.push_back(id);
    made.names.push_back(program_.literal(name));
  }
  expect_operator(")");
}

void Parser::macro_body(Statement& statement, std::string_view end_tag) {
  MacroSignature& made = *statement.signature;
  const size_t mark = loads_.size();
  const int loops = std::exchange(loops_, 0);
  const bool soft = std::exchange(soft_, false);
  statement.body = end_tag == "endmacro"  ? block_body({"endmacro"})
                   : end_tag == "endcall" ? block_body({"endcall"})
                                          : block_body({"endgeneration"});
  soft_ = soft;
  loops_ = loops;
  advance();
  const auto special = [&](std::string_view name) {
    const auto is_name = [&](const Value& parameter) { return parameter.text() == name; };
    return used_since(mark, name) && std::none_of(made.names.begin(), made.names.end(), is_name);
  };
  made.uses_caller = special("caller");
  made.uses_kwargs = special("kwargs");
  made.uses_varargs = special("varargs");
  for (size_t i = 0; i < made.names.size(); ++i) {
    if (made.names[i].text() == "caller" && used_since(mark, "caller") &&
        i + made.defaults.size() < made.names.size()) {
      fail("the special \"caller\" argument of a macro must be omitted or be given a default");
    }
  }
}

StatementPtr Parser::parse_macro() {
  StatementPtr made = make(StatementKind::kMacro);
  advance();
  const std::string name = expect_any_name();
  made->name = program_.id(name);
  made->data = program_.literal(name);
  made->signature = std::make_unique<MacroSignature>();
  signature(*made);
  macro_body(*made, "endmacro");
  return made;
}

StatementPtr Parser::parse_call_block() {
  StatementPtr made = make(StatementKind::kCallBlock);
  advance();
  made->signature = std::make_unique<MacroSignature>();
  if (current().is_operator("(")) signature(*made);
  made->expressions.push_back(expression());
  if (made->expressions[0]->kind != ExpressionKind::kCall) fail("expected call");
  macro_body(*made, "endcall");
  return made;
}

StatementPtr Parser::parse_generation() {
  StatementPtr made = make(StatementKind::kGeneration);
  advance();
  made->signature = std::make_unique<MacroSignature>();
  macro_body(*made, "endgeneration");
  return made;
}

StatementPtr Parser::parse_filter_block() {
  StatementPtr made = make(StatementKind::kFilterBlock);
  advance();
  const bool soft = std::exchange(soft_, false);
  made->expressions.push_back(filter(nullptr, true));
  made->body = block_body({"endfilter"});
  soft_ = soft;
  advance();
  return made;
}

StatementPtr Parser::parse_print() {
  StatementPtr made = make(StatementKind::kPrint);
  advance();
  while (current().type != TokenType::kBlockEnd) {
    if (!made->expressions.empty()) expect_operator(",");
    made->expressions.push_back(expression());
  }
  return made;
}

/// include, import, from and extends: a chat template stands alone, so they fail where they are reached.
StatementPtr Parser::parse_load() {
  StatementPtr made = make(StatementKind::kLoad);
  const std::string tag = advance().text;
  made->data = program_.literal(tag);
  made->expressions.push_back(expression());
  while (current().type == TokenType::kName || current().is_operator(",")) advance();
  return made;
}

StatementPtr Parser::parse_jump() {
  StatementPtr made = make(current().is_name("break") ? StatementKind::kBreak : StatementKind::kContinue);
  const std::string tag = advance().text;
  if (loops_ == 0) fail("'{}' outside loop", tag);
  return made;
}

}  // namespace vernier::jinja
