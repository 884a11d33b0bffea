#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/civil_time.h"
#include "text/jinja_ast.h"
#include "text/jinja_filters.h"
#include "text/jinja_value.h"

namespace vernier::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

/// The variables of one frame: a loop turn, a macro call, a with or the like. Those of the root stand in the
/// Interpreter.
struct Scope : Object {
  Scope* parent = nullptr;  ///< null: the root
  bool captured = false;    ///< a macro refers to it, so it must outlive its statement
  std::vector<std::pair<NameId, Value>> variables;
};

struct MacroObject : NativeObject {
  const Statement* definition = nullptr;
  Scope* closure = nullptr;
  Value name;
  bool autoescape = false;
  const char* type() const override { return "Macro"; }
  std::string repr(Interpreter& in) const override;
  Value call(Interpreter& in, Arguments& arguments) override;
  Value attribute(Interpreter& in, std::string_view name) override;
};

/// A method bound to its object, or a global function (self missing).
struct FunctionObject : NativeObject {
  const Filter* function = nullptr;
  Value self;
  const char* type() const override { return "builtin_function_or_method"; }
  Value call(Interpreter& in, Arguments& arguments) override;
};

/// Evaluates one rendering of one program. One thread; throws Failure.
class Interpreter {
 public:
  /// Gives a variable of the context by name, missing if there is none.
  using Lookup = std::function<Value(Interpreter&, const std::string&)>;

  Interpreter(const Program& program, const Limits& limits, const CivilTime& now, Lookup lookup);
  void run(std::string& text, std::vector<ByteRange>& marks);
  int line() const { return line_; }

  Heap& heap() { return heap_; }
  const Program& program() const { return program_; }
  const CivilTime& now() const { return now_; }
  bool autoescape() const { return autoescape_; }

  // Python's operations (jinja_evaluate.cc, jinja_arithmetic.cc, jinja_access.cc, jinja_iterate.cc).
  Value evaluate(const Expression& expression);
  Value arithmetic(Operator op, const Value& a, const Value& b);
  bool compare(Operator op, const Value& a, const Value& b);
  bool contains(const Value& container, const Value& item);
  Value negate(const Value& value);
  Value attribute(const Value& object, const Value& name);
  Value item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& callee, Arguments& arguments);
  Value apply(const Filter& filter, const Value& input, Arguments& arguments);
  bool apply(const Test& test, const Value& input, Arguments& arguments);
  /// Fails where the value is not iterable.
  IteratorObject* iterate(const Value& value);
  std::vector<Value> collect(const Value& value);
  /// Calls `visit` for each element until it returns false.
  void for_each(const Value& value, const std::function<bool(const Value&)>& visit);

  // Texts (jinja_print.cc).
  void print(StringBuilder& out, const Value& value);
  void repr(StringBuilder& out, const Value& value);
  Value to_string(const Value& value);  ///< str(value); a string stays itself, marks and all
  std::string plain_repr(const Value& value);
  void append_escaped(StringBuilder& out, const Value& value);
  Value escaped(const Value& value);

  // Statements (jinja_execute.cc).
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  Value call_macro(MacroObject& macro, Arguments& arguments);
  Value run_recursive(const Statement& loop, const Value& iterable, int64_t depth, Scope* scope);
  Value render_block(const Statement& block, Scope* parent);
  bool has_block(std::string_view name) const { return program_.blocks.count(std::string(name)) != 0; }

  /// Counts one level of the evaluator's recursion for as long as it lives.
  struct Depth {
    explicit Depth(Interpreter& in) : depth(in.depth_) {
      if (++depth > in.heap_.limits().recursion) {
        --depth;
        fail("maximum recursion depth exceeded: the template calls itself too often or nests too deep");
      }
    }
    ~Depth() { --depth; }
    uint32_t& depth;
  };

  Scope* enter(Scope* parent);
  void leave(Scope* scope);
  void assign(const Expression& target, const Value& value, Scope* scope);
  Scope* swap_scope(Scope* scope) { return std::exchange(scope_, scope); }

 private:
  Value lookup(NameId name);
  void store(NameId name, Value value, Scope* scope);
  static void capture(Scope* scope);

  Value evaluate_compare(const Expression& expression);
  Value evaluate_call(const Expression& expression, const Value* caller);
  Value evaluate_filter(const Expression& expression, const Value* input);
  Value evaluate_item(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Arguments evaluate_arguments(const CallArguments* arguments);

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_if(const Statement& statement);
  Flow execute_for(const Statement& statement);
  Flow run_loop(const Statement& statement, const Value& iterable, int64_t depth);
  void execute_set_block(const Statement& statement);
  Flow execute_with(const Statement& statement);
  void execute_filter_block(const Statement& statement);
  void execute_call_block(const Statement& statement);
  void check_namespaces(const Expression& target);
  Value make_macro(const Statement& statement);
  /// Runs the body in a scope of its own and returns what it wrote.
  Value capture_body(const Body& body, Flow& flow);
  void bind_parameters(MacroObject& macro, Arguments& arguments, Scope* scope);
  void emit(const Value& value);

  const Program& program_;
  Heap heap_;
  CivilTime now_;
  Lookup lookup_;
  std::vector<Value> root_;     ///< set at the top level, by NameId
  std::vector<Value> context_;  ///< of the caller, looked up once
  std::vector<uint8_t> resolved_;
  std::vector<Scope*> spare_scopes_;
  Scope* scope_ = nullptr;
  StringBuilder* out_ = nullptr;
  uint32_t depth_ = 0;
  int line_ = 0;
  bool autoescape_ = false;
};

/// Puts arguments into `out` by the parameters of a Filter ("old new count?"), absent ones missing. At most 8.
void bind(const char* function, std::string_view parameters, Arguments& arguments, Value* out);

// Checked reading of arguments.
const StringObject& expect_string(const Value& value, const char* where);
int64_t expect_int(const Value& value, const char* where);
int64_t int_or(const Value& value, int64_t otherwise, const char* where);  ///< `otherwise` if missing

// jinja_access.cc, jinja_string_methods.cc, jinja_container_methods.cc
const Filter* find_method(const Value& object, std::string_view name);
const Filter* find_string_method(std::string_view name);
const Filter* find_global(std::string_view name);
Value global_value(Interpreter& in, std::string_view name);

// jinja_print.cc, jinja_json.cc, jinja_format.cc
std::string float_repr(double value);
Value percent_format(Interpreter& in, const StringObject& format, const Value& values);
Value brace_format(Interpreter& in, const StringObject& format, Arguments& arguments, bool map);
/// format(value, spec); shared by {} and the number filters.
void format_value(Interpreter& in, StringBuilder& out, const Value& value, std::string_view spec);
Value dump_json(Interpreter& in, const Value& value, const Value* options);
/// float(text) of Python; false if it is not a number.
bool parse_float(std::string_view text, double& value);
bool parse_integer(std::string_view text, int base, WideInteger& value);

}  // namespace vernier::jinja
