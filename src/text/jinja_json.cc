#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "text/jinja_json.h"
#include "text/jinja_unicode.h"

// json.dumps, and values from parsed JSON.
namespace vernier::jinja {
namespace {

struct DumpOptions {
  bool ascii = false, sorted = false, indented = false;
  Value indent, item_separator, key_separator;
};

class Dumper {
 public:
  Dumper(Interpreter& in, DumpOptions options) : in_(in), options_(std::move(options)) {}

  void dump(const Value& value) {
    const Interpreter::Depth depth(in_);
    in_.heap().spend(1);
    in_.heap().check_bytes(out_.size());
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null");
      case Kind::kBool:
        return out_.append(value.as_int() != 0 ? "true" : "false");
      case Kind::kInt:
      case Kind::kWide:
        return out_.append(integer_text(wide(value)));
      case Kind::kFloat:
        return out_.append(number(value.as_float()));
      case Kind::kString:
        return dump_string(value.str());
      case Kind::kList:
      case Kind::kTuple:
        return dump_list(value.as<ListObject>().items);
      case Kind::kDict:
        return dump_dict(value.as<DictObject>());
      default:
        fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  Value take() { return out_.take(in_.heap()); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void new_line(size_t level) {
    out_.append("\n");
    for (size_t i = 0; i < level; ++i) out_.append(options_.indent.str());
  }

  void dump_list(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(options_.item_separator.str());
      if (options_.indented) new_line(level_);
      dump(items[i]);
    }
    --level_;
    if (options_.indented) new_line(level_);
    out_.append("]");
  }

  void dump_dict(const DictObject& dict) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sorted) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(in_.heap(), a->first, b->first); });
    }
    out_.append("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(options_.item_separator.str());
      if (options_.indented) new_line(level_);
      dump_key(entries[i]->first);
      out_.append(options_.key_separator.str());
      dump(entries[i]->second);
    }
    --level_;
    if (options_.indented) new_line(level_);
    out_.append("}");
  }

  void dump_key(const Value& key) {
    if (key.is_string()) return dump_string(key.str());
    out_.append("\"");
    if (key.is_number() || key.is(Kind::kNone)) {
      dump(key);
    } else {
      fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out_.append("\"");
  }

  void dump_string(const StringObject& string) {
    MarkCursor cursor(string);
    const std::string& text = string.text;
    out_.append("\"");
    size_t start = 0;
    for (size_t position = 0; position < text.size();) {
      const size_t at = position;
      const auto byte = static_cast<uint8_t>(text[position]);
      if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
        ++position;
        continue;
      }
      const uint32_t code = next_code(text, position);
      if (code >= 0x7f && !options_.ascii) continue;
      out_.append_part(string, start, at);
      out_.append(escape(code), cursor.marked(at));
      start = position;
    }
    out_.append_part(string, start, text.size());
    out_.append("\"");
  }

  static std::string escape(uint32_t code) {
    static constexpr std::string_view kCodes = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t known = code < 0x80 ? kCodes.find(static_cast<char>(code)) : std::string_view::npos;
    if (known != std::string_view::npos) return {'\\', kLetters[known]};
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    code -= 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
  }

  Interpreter& in_;
  DumpOptions options_;
  StringBuilder out_;
  size_t level_ = 0;
};

}  // namespace

Value dump_json(Interpreter& in, const Value& value, const Value* a) {
  Heap& heap = in.heap();
  DumpOptions options;
  options.ascii = !a[0].missing() && truthy(a[0]);
  options.sorted = !a[3].missing() && truthy(a[3]);
  options.indented = !a[1].missing() && !a[1].is(Kind::kNone);
  if (options.indented) {
    if (a[1].is_string()) {
      options.indent = a[1];
    } else {
      const int64_t width = std::max<int64_t>(0, expect_int(a[1], "indent"));
      heap.check_bytes(static_cast<uint64_t>(width));
      options.indent = heap.string(std::string(static_cast<size_t>(width), ' '));
    }
  }
  options.item_separator = heap.string(options.indented ? "," : ", ");
  options.key_separator = heap.string(": ");
  if (!a[2].missing() && !a[2].is(Kind::kNone)) {
    const std::vector<Value> separators = in.collect(a[2]);
    if (separators.size() != 2) fail("separators: expected (item, key), got {} values", separators.size());
    expect_string(separators[0], "item separator");
    expect_string(separators[1], "key separator");
    options.item_separator = separators[0];
    options.key_separator = separators[1];
  }
  Dumper dumper(in, std::move(options));
  dumper.dump(value);
  return dumper.take();
}

namespace {

/// The value of a field. The usual names of roles count as the template's own text: templates build control tokens from
/// them, and nothing can be smuggled into a closed list.
bool is_role(const std::string& key, const nlohmann::ordered_json& value) {
  static const std::unordered_set<std::string> kRoles = {
      "system", "user", "assistant", "tool", "developer", "function", "ipython", "model", "observation", "environment"};
  return key == "role" && value.is_string() && kRoles.count(value.get_ref<const std::string&>()) != 0;
}

}  // namespace

Value from_json(Heap& heap, const nlohmann::ordered_json& json, bool marked, uint32_t depth) {
  using Type = nlohmann::ordered_json::value_t;
  heap.check_nesting(depth);
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned:
      return heap.integer(json.get<uint64_t>());
    case Type::number_float:
      return Value::number(json.get<double>());
    case Type::string:
      return heap.string(json.get_ref<const std::string&>(), marked);
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(heap, item, marked, depth + 1));
      return heap.list(std::move(items));
    }
    case Type::object: {
      DictObject* dict = heap.dict();
      for (const auto& [key, item] : json.items()) {
        heap.insert(*dict, heap.string(key, marked), from_json(heap, item, marked && !is_role(key, item), depth + 1));
      }
      return Value::object(Kind::kDict, dict);
    }
    default:
      return Value::none();
  }
}

}  // namespace vernier::jinja
