#include <charconv>
#include <cmath>

#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// str() and repr() of Python, and HTML escapes.
namespace vernier::jinja {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const bool negative = text[0] == '-';
  if (negative) text.remove_prefix(1);
  const size_t mark = text.find('e');
  int exponent = 0;
  const size_t digits_at = mark + 1 + (text[mark + 1] == '+');
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (mark > 2) digits += text.substr(2, mark - 2);
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out.append(".").append(digits, 1);
    return out.append(fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent)));
  }
  if (exponent < 0) return out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out.append(digits).append(whole - digits.size(), '0').append(".0");
  return out.append(digits, 0, whole).append(".").append(digits, whole);
}

namespace {

const char* html_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

void repr_string(StringBuilder& out, const StringObject& string) {
  const bool marked = string.marked();
  const bool has_single = string.text.find('\'') != std::string::npos;
  const char quote = has_single && string.text.find('"') == std::string::npos ? '"' : '\'';
  std::string made;
  for (size_t position = 0; position < string.text.size();) {
    const size_t start = position;
    const uint32_t code = next_code(string.text, position);
    if (code == static_cast<uint32_t>(quote) || code == '\\') {
      made += {'\\', static_cast<char>(code)};
    } else if (code == '\n') {
      made += "\\n";
    } else if (code == '\r') {
      made += "\\r";
    } else if (code == '\t') {
      made += "\\t";
    } else if (traits_of(code).is_printable()) {
      made.append(string.text, start, position - start);
    } else if (code < 0x100) {
      made += fmt::format("\\x{:02x}", code);
    } else {
      made += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    }
  }
  const std::string_view mark(&quote, 1);
  if (string.markup) out.append("Markup(");
  out.append(mark);
  out.append(made, marked);
  out.append(mark);
  if (string.markup) out.append(")");
}

void repr_items(Interpreter& in, StringBuilder& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    in.repr(out, items[i]);
  }
}

void repr_dict(Interpreter& in, StringBuilder& out, const DictObject& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ");
    first = false;
    in.repr(out, key);
    out.append(": ");
    in.repr(out, value);
  }
  out.append("}");
}

void repr_view(Interpreter& in, StringBuilder& out, const ViewObject& view) {
  static constexpr const char* kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  out.append(kNames[static_cast<size_t>(view.part)]);
  bool first = true;
  for (const auto& [key, value] : view.dict->entries) {
    if (!first) out.append(", ");
    first = false;
    if (view.part == ViewObject::Part::kItems) out.append("(");
    if (view.part != ViewObject::Part::kValues) in.repr(out, key);
    if (view.part == ViewObject::Part::kItems) out.append(", ");
    if (view.part != ViewObject::Part::kKeys) in.repr(out, value);
    if (view.part == ViewObject::Part::kItems) out.append(")");
  }
  out.append("])");
}

}  // namespace

void Interpreter::repr(StringBuilder& out, const Value& value) {
  const Depth depth(*this);
  heap_.spend(1);
  heap_.check_bytes(out.size());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return out.append("Undefined");
    case Kind::kNone:
      return out.append("None");
    case Kind::kBool:
      return out.append(value.as_int() != 0 ? "True" : "False");
    case Kind::kInt:
      return out.append(fmt::to_string(value.as_int()));
    case Kind::kWide:
      return out.append(integer_text(wide(value)));
    case Kind::kFloat:
      return out.append(float_repr(value.as_float()));
    case Kind::kString:
      return repr_string(out, value.str());
    case Kind::kList:
    case Kind::kTuple: {
      const std::vector<Value>& items = value.as<ListObject>().items;
      const bool list = value.is(Kind::kList);
      out.append(list ? "[" : "(");
      repr_items(*this, out, items);
      return out.append(list ? "]" : items.size() == 1 ? ",)" : ")");
    }
    case Kind::kDict:
      return repr_dict(*this, out, value.as<DictObject>());
    case Kind::kView:
      return repr_view(*this, out, value.as<ViewObject>());
    case Kind::kRange: {
      const auto& range = value.as<RangeObject>();
      out.append(fmt::format("range({}, {}", range.start, range.stop));
      return out.append(range.step == 1 ? ")" : fmt::format(", {})", range.step));
    }
    case Kind::kIterator:
      return out.append(fmt::format("<{} object>", value.as<IteratorObject>().type));
    case Kind::kNamespace:
      out.append("<Namespace ");
      repr_dict(*this, out, *value.as<NamespaceObject>().attributes);
      return out.append(">");
    case Kind::kNative:
      return out.append(value.as<NativeObject>().repr(*this));
  }
}

void Interpreter::print(StringBuilder& out, const Value& value) {
  if (value.is_string()) return out.append(value.str());
  if (!value.undefined()) repr(out, value);
}

Value Interpreter::to_string(const Value& value) {
  if (value.is_string()) return value;
  StringBuilder out;
  print(out, value);
  return out.take(heap_);
}

std::string Interpreter::plain_repr(const Value& value) {
  StringBuilder out;
  repr(out, value);
  return out.text();
}

void Interpreter::append_escaped(StringBuilder& out, const Value& value) {
  if (!value.is_string()) {
    const Value text = to_string(value);
    return append_escaped(out, text);
  }
  const StringObject& string = value.str();
  if (string.markup) return out.append(string);
  MarkCursor cursor(string);
  size_t start = 0;
  for (size_t i = 0; i < string.text.size(); ++i) {
    const char* entity = html_entity(string.text[i]);
    if (entity == nullptr) continue;
    out.append_part(string, start, i);
    out.append(entity, cursor.marked(i));
    start = i + 1;
  }
  out.append_part(string, start, string.text.size());
}

Value Interpreter::escaped(const Value& value) {
  StringBuilder out;
  append_escaped(out, value);
  return out.take(heap_, true);
}

}  // namespace vernier::jinja
