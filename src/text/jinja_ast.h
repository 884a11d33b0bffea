#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_value.h"

namespace vernier::jinja {

struct Filter;
struct Test;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

/// A variable's number in the template's table of names.
using NameId = uint32_t;

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kTuple,
  kList,
  kDict,
  kConditional,
  kOr,
  kAnd,
  kNot,
  kCompare,
  kArithmetic,
  kConcat,
  kNegative,
  kPositive,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNamespaceTarget,
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, star_star;
};

/// `operands` by kind: the parts in reading order; kDict alternates keys and values, kConditional holds test, value and
/// the else part (may be null), kSlice start, stop, step (may be null), kCall the callee, kFilter its input (null in a
/// filter block).
struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int height = 1;
  NameId name = 0;
  Value constant;    ///< kConstant; for kAttribute and kNamespaceTarget the attribute as a string
  std::string text;  ///< name of attribute, filter or test
  std::vector<Operator> operators;
  std::vector<ExpressionPtr> operands;
  std::unique_ptr<CallArguments> arguments;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

enum class StatementKind : uint8_t {
  kData,
  kPrint,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kAutoescape,
  kGeneration,
  kBlock,
  kBreak,
  kContinue,
  kLoad,
};

struct MacroSignature {
  std::vector<NameId> parameters;
  std::vector<Value> names;             ///< the same, as strings
  std::vector<ExpressionPtr> defaults;  ///< of the last parameters
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  int line = 0;
  std::vector<ExpressionPtr>
      expressions;  ///< kPrint; kWith: values; kIf: the tests; kFor: target, iterable, filter or null
  std::vector<ExpressionPtr> targets;  ///< kSet, kSetBlock, kWith
  Value data;                          ///< kData; kMacro and kBlock: the name as a string
  NameId name = 0;                     ///< kMacro
  Body body, otherwise;
  std::vector<Body> branches;  ///< kIf: one for each test; `otherwise` is the else
  std::unique_ptr<MacroSignature> signature;
  bool recursive = false, uses_loop = false, scoped = false, required = false;
};

/// A parsed template: immutable, may be rendered by many threads at once.
struct Program {
  // Before the body, whose values point into them: members go in reverse order.
  std::vector<std::unique_ptr<StringObject>> literals;
  std::vector<std::unique_ptr<WideObject>> wide_literals;
  Body body;
  std::vector<std::string> names;
  std::unordered_map<std::string, NameId> ids;
  std::unordered_map<std::string, const Statement*> blocks;

  NameId id(const std::string& name);
  Value literal(std::string text);
};

/// Throws Failure with the line.
std::unique_ptr<Program> parse_program(std::string_view source);

}  // namespace vernier::jinja
