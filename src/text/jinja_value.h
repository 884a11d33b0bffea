#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_range.h"

/// The values of a rendering: Python's types as far as a sandboxed template can reach them.
namespace vernier::jinja {

class Heap;
class Interpreter;
class Value;
struct Arguments;

using WideInteger = __int128;

/// Thrown inside the room only; JinjaTemplate turns it into an Error. `line` 0: not known yet.
struct Failure {
  std::string message;
  int line = 0;
  bool raised = false;  ///< by the template's own raise_exception
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

/// What one rendering may use; each limit ends it with a message.
struct Limits {
  uint64_t steps = 200'000'000;          ///< evaluated nodes, loop turns, copied elements, bytes / 64
  uint64_t string_bytes = 512ULL << 20;  ///< in all live strings together
  uint64_t elements = 32'000'000;        ///< of all lists, dictionaries and other objects ever made
  uint32_t nesting = 400;                ///< of data in data
  uint32_t recursion = 2500;             ///< of the evaluator: nested expressions, statements, macros
};

/// A text and which of its bytes came from a caller. Counted by the Values that hold it; never changed once shared.
struct StringObject {
  std::string text;
  std::vector<ByteRange> marks;  ///< unused when all_marked
  Heap* heap = nullptr;          ///< null for literals of a template, which outlive every rendering and are not counted
  mutable int64_t codes = -1;    ///< number of code points, -1 before it was asked for
  uint32_t references = 0;
  bool all_marked = false;
  bool markup = false;  ///< markupsafe.Markup: already escaped for HTML

  bool marked() const { return !text.empty() && (all_marked || !marks.empty()); }
  size_t length() const;
  bool is_ascii() const { return length() == text.size(); }
};

/// Anything that lives in the Heap until the rendering ends, so that cycles need no collector.
struct Object {
  virtual ~Object() = default;
};

enum class Kind : uint8_t {
  kMissing,
  kUndefined,
  kNone,
  kBool,
  kInt,
  kWide,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,
  kRange,
  kIterator,
  kNamespace,
  kNative,
};

/// 16 bytes. Strings are reference-counted (one thread), everything else of any size belongs to the Heap.
class Value {
 public:
  Value() = default;
  Value(const Value& other) : kind_(other.kind_), payload_(other.payload_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), payload_(other.payload_) { other.kind_ = Kind::kMissing; }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::kNone, Payload{}); }
  static Value boolean(bool value) { return Value(Kind::kBool, Payload{.integer = value}); }
  static Value integer(int64_t value) { return Value(Kind::kInt, Payload{.integer = value}); }
  static Value number(double value) { return Value(Kind::kFloat, Payload{.number = value}); }
  static Value string(StringObject* object) {
    Value value(Kind::kString, Payload{.string = object});
    value.retain();
    return value;
  }
  static Value object(Kind kind, Object* object) { return Value(kind, Payload{.object = object}); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_integer() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kWide; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  int64_t as_int() const { return payload_.integer; }  ///< kBool and kInt
  double as_float() const { return payload_.number; }  ///< kFloat
  const StringObject& str() const { return *payload_.string; }
  const std::string& text() const { return payload_.string->text; }
  Object* object() const { return payload_.object; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(payload_.object);
  }
  bool same_object(const Value& other) const {
    return kind_ == other.kind_ && payload_.integer == other.payload_.integer;
  }

 private:
  union Payload {
    int64_t integer;
    double number;
    StringObject* string;
    Object* object;
  };
  Value(Kind kind, Payload payload) : kind_(kind), payload_(payload) {}
  void retain() const {
    if (kind_ == Kind::kString && payload_.string->heap != nullptr) ++payload_.string->references;
  }
  void release() {
    if (kind_ == Kind::kString && payload_.string->heap != nullptr && --payload_.string->references == 0) destroy();
  }
  void destroy();

  Kind kind_ = Kind::kMissing;
  Payload payload_{.integer = 0};
};

struct WideObject : Object {
  WideInteger value = 0;
};

/// Why a value is not there, kept so that the message costs nothing until it is needed.
struct UndefinedObject : Object {
  std::string hint;             ///< the whole message, if not empty
  const char* owner = nullptr;  ///< such as "dict object"; null: a variable
  Value name;
};

struct ListObject : Object {  // kList and kTuple
  std::vector<Value> items;
  uint32_t nesting = 1;
  bool group = false;  ///< a tuple that groupby made: has .grouper and .list
};

/// Keeps the order of insertion; finds by hash once it is large.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;
  std::vector<int32_t> index;  ///< open addressing, -1 free; empty for small dictionaries
  uint32_t nesting = 1;
};

struct ViewObject : Object {
  enum class Part { kKeys, kValues, kItems } part;
  DictObject* dict;
};

struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t length() const;
};

/// Python's generators and iterators: consumed once.
struct IteratorObject : Object {
  virtual bool next(Interpreter& in, Value& out) = 0;
  const char* type = "generator";
  uint32_t nesting = 1;
};

struct NamespaceObject : Object {
  DictObject* attributes = nullptr;
};

/// Functions, bound methods, macros, loops, cyclers: what has attributes or can be called.
struct NativeObject : Object {
  virtual const char* type() const = 0;
  virtual std::string repr(Interpreter& in) const;
  virtual bool callable() const { return true; }
  virtual Value call(Interpreter& in, Arguments& arguments);
  virtual Value attribute(Interpreter& in, std::string_view name);  ///< missing if there is none
};

/// Builds a text together with its marks.
class StringBuilder {
 public:
  void append(std::string_view text, bool marked = false);
  void append(const StringObject& other) { append_part(other, 0, other.text.size()); }
  void append_part(const StringObject& other, size_t begin, size_t end);
  void append_code_point(uint32_t code, bool marked);
  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  Value take(Heap& heap, bool markup = false);
  void take(std::string& text, std::vector<ByteRange>& marks);
  void clear();

 private:
  void mark(size_t begin, size_t end);
  std::string text_;
  std::vector<ByteRange> marks_;
};

/// Owns every object of one rendering and counts what it uses. One thread.
class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  template <class T, class... Args>
  T* make(Args&&... args) {
    spend_elements(1);
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  Value string(std::string text, bool marked = false, bool markup = false);
  Value string(std::string text, std::vector<ByteRange> marks, bool markup);
  Value part(const StringObject& whole, size_t begin, size_t end);
  Value integer(WideInteger value);
  Value list(std::vector<Value> items, Kind kind = Kind::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), Kind::kTuple); }
  Value undefined(std::string hint);
  Value undefined_name(Value name, const char* owner = nullptr);
  DictObject* dict() { return make<DictObject>(); }
  void insert(DictObject& dict, Value key, Value value);
  uint32_t check_nesting(uint32_t nesting) const;

  void spend(uint64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) [[unlikely]]
      fail_steps();
  }
  void spend_elements(uint64_t count);
  void check_bytes(uint64_t bytes) const;  ///< before a string of that size is made
  void forget(const StringObject& string) { string_bytes_ -= string.text.capacity(); }
  const Limits& limits() const { return limits_; }

 private:
  [[noreturn]] void fail_steps() const;
  StringObject* adopt(std::string text);

  Limits limits_;
  uint64_t steps_ = 0, string_bytes_ = 0, elements_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

// Python's protocols. Those that can meet nested data spend steps of the heap.
const char* type_name(const Value& value);
bool truthy(const Value& value);
bool equal(Heap& heap, const Value& a, const Value& b);
bool less(Heap& heap, const Value& a, const Value& b, const char* operation = "<");
size_t hash_of(Heap& heap, const Value& value);
const Value* find(Heap& heap, const DictObject& dict, const Value& key);
const Value* find(const DictObject& dict, std::string_view key);
/// len(); false if the type has none.
bool length_of(const Value& value, int64_t& length);
uint32_t nesting_of(const Value& value);
WideInteger wide(const Value& value);  ///< of an integer kind
double to_double(const Value& value);  ///< of a number kind
[[noreturn]] void fail_undefined(const Value& value);
std::string undefined_message(const Value& value);
std::string type_repr(const Value& value);  ///< "dict object", "None"
/// The bytes of a marked string are those of its marks; [0, size) for all.
std::vector<ByteRange> marks_of(const StringObject& string);
std::string integer_text(WideInteger value);

}  // namespace vernier::jinja
