#include <algorithm>
#include <cmath>

#include "text/jinja_numbers.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// str.format and format specifications.
namespace vernier::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', group = 0, type = 0;
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
};

int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxFormatWidth) fail("a width or precision of the format is too large");
  }
  return number;
}

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  size_t after_first = 0;
  if (!text.empty()) next_code(text, after_first);
  if (after_first > 0 && after_first < text.size() && is_align(text[after_first])) {
    spec.fill = text.substr(0, after_first);
    spec.align = text[after_first];
    at = after_first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto take = [&](std::string_view set) {
    return at < text.size() && set.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  take("z");
  spec.alternate = take("#") != 0;
  if (take("0")) {
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
  }
  spec.width = read_number(text, at);
  spec.group = take(",_");
  if (take(".")) {
    const size_t start = at;
    spec.precision = read_number(text, at);
    if (at == start) fail("format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("invalid format specifier '{}'", text);
  return spec;
}

/// Puts separators between groups of `size` digits of the whole part.
std::string grouped(const std::string& digits, char separator, size_t size) {
  if (separator == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out.append(digits, whole);
}

void put_padded(Interpreter& in, StringBuilder& out, const std::string& sign, const StringObject& body,
                const Spec& spec, char usual) {
  const char align = spec.align != 0 ? spec.align : usual;
  const auto length = static_cast<int64_t>(sign.size() + body.length());
  const int64_t missing = std::max<int64_t>(0, spec.width - length);
  const int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  in.heap().check_bytes(out.size() + body.text.size() + static_cast<uint64_t>(missing) * spec.fill.size());
  if (align == '=') out.append(sign);
  for (int64_t i = 0; i < before; ++i) out.append(spec.fill);
  if (align != '=') out.append(sign);
  out.append(body);
  for (int64_t i = before; i < missing; ++i) out.append(spec.fill);
}

std::string sign_text(bool negative, const Spec& spec) {
  return negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
}

/// With zero padding and grouping, the zeros are grouped too.
void put_number(Interpreter& in, StringBuilder& out, const std::string& sign, std::string digits, const Spec& spec,
                size_t group_size) {
  if (spec.group != 0 && spec.fill == "0" && spec.align == '=') {
    const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    size_t wanted = std::max<size_t>(1, whole);
    const size_t rest = sign.size() + digits.size() - whole;
    while (wanted + (wanted - 1) / group_size + rest < static_cast<size_t>(spec.width)) ++wanted;
    in.heap().check_bytes(wanted * 2);
    if (whole > 0) digits.insert(0, wanted - whole, '0');
  }
  const Value body = in.heap().string(grouped(digits, spec.group, group_size));
  put_padded(in, out, sign, body.str(), spec, '>');
}

void format_float(Interpreter& in, StringBuilder& out, double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  if (spec.precision > kMaxFormatPrecision) fail("a precision above {} is not supported", kMaxFormatPrecision);
  const int precision = static_cast<int>(spec.precision);
  std::string digits;
  if (spec.type == 0 && precision < 0) {
    digits = float_repr(std::fabs(value));
  } else if (spec.type == 0) {
    // Like 'g', but with a digit behind the point.
    digits = float_digits(value, 'g', std::max(1, precision), spec.alternate);
    const bool plain = digits.find_first_not_of("0123456789") == std::string::npos;
    if (plain && digits.size() >= static_cast<size_t>(std::max(1, precision))) {
      digits = float_digits(value, 'e', std::max(1, precision) - 1, false);
      const size_t mark = digits.find('e');
      std::string mantissa = digits.substr(0, mark);
      while (mantissa.find('.') != std::string::npos && (mantissa.back() == '0' || mantissa.back() == '.'))
        mantissa.pop_back();
      digits = mantissa + digits.substr(mark);
    } else if (plain) {
      digits += ".0";
    }
  } else if (spec.type == '%') {
    digits = float_digits(value * 100, 'f', precision < 0 ? 6 : precision, spec.alternate) + "%";
  } else if (std::string_view("eEfFgGn").find(spec.type) != std::string_view::npos) {
    digits = float_digits(value, spec.type == 'n' ? 'g' : spec.type, precision < 0 ? 6 : precision, spec.alternate);
  } else {
    fail("unknown format code '{}' for object of type 'float'", spec.type);
  }
  put_number(in, out, sign_text(negative, spec), digits, spec, 3);
}

void format_integer(Interpreter& in, StringBuilder& out, const Value& value, const Spec& spec) {
  const WideInteger number = wide(value);
  if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
    return format_float(in, out, static_cast<double>(number), spec);
  }
  if (spec.precision >= 0) fail("precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (number < 0 || number >= 0x110000) fail("%c arg not in range(0x110000)");
    std::string text;
    append_code(text, static_cast<uint32_t>(number));
    return put_padded(in, out, "", in.heap().string(text).str(), spec, '<');
  }
  unsigned base = 10;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    case 'o':
      base = 8;
      break;
    case 'b':
      base = 2;
      break;
    default:
      fail("unknown format code '{}' for object of type 'int'", spec.type);
  }
  if (spec.group == ',' && base != 10) fail("cannot specify ',' with '{}'", spec.type);
  std::string sign = sign_text(number < 0, spec);
  if (spec.alternate && base != 10) sign += std::string("0") + spec.type;
  put_number(in, out, sign, digits_of(number, base, spec.type == 'X'), spec, base == 10 ? 3 : 4);
}

}  // namespace

void format_value(Interpreter& in, StringBuilder& out, const Value& value, std::string_view text) {
  if (text.empty()) return in.print(out, value);
  if (!value.is_number() && !value.is_string()) {
    fail("unsupported format string passed to {}.__format__", type_name(value));
  }
  const Spec spec = parse_spec(text);
  if (value.is(Kind::kFloat)) return format_float(in, out, value.as_float(), spec);
  if (value.is_integer()) return format_integer(in, out, value, spec);
  if (spec.type != 0 && spec.type != 's') fail("unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.sign != '-') fail("sign not allowed in string format specifier");
  if (spec.align == '=' && !spec.zero) fail("'=' alignment not allowed in string format specifier");
  if (spec.group != 0) fail("cannot specify '{}' with 's'", spec.group);
  Spec text_spec = spec;
  if (spec.align == '=') text_spec.align = '<';
  Value body = value;
  if (spec.precision >= 0) body = in.slice(value, Value::none(), Value::integer(spec.precision), Value::none());
  put_padded(in, out, "", body.str(), text_spec, '<');
}

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, Arguments& arguments, const DictObject* map)
      : in_(in), arguments_(arguments), map_(map) {}

  void format(StringBuilder& out, const StringObject& format, int depth) {
    if (depth == 0) fail("max string recursion exceeded");
    const std::string& text = format.text;
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append_part(format, at, brace);
      at = brace;
      if (at >= text.size()) return;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        out.append_part(format, at, at + 1);
        at += 2;
        continue;
      }
      if (text[at] == '}') fail("single '}}' encountered in format string");
      at = field(out, format, at + 1, depth);
      in_.heap().check_bytes(out.size());
    }
  }

 private:
  size_t field(StringBuilder& out, const StringObject& format, size_t start, int depth) {
    const std::string& text = format.text;
    // The field ends at its matching brace; a bracketed index may hold any character.
    size_t end = start, name_end = std::string::npos;
    int open = 1;
    bool bracket = false;
    for (; end < text.size(); ++end) {
      const char c = text[end];
      if (name_end == std::string::npos && c == '[') bracket = true;
      if (bracket && c == ']') bracket = false;
      if (bracket) continue;
      if (name_end == std::string::npos && (c == ':' || c == '!')) name_end = end;
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (end >= text.size()) fail("expected '}}' before end of string");
    name_end = std::min(name_end, end);
    Value value = lookup(text.substr(start, name_end - start));
    size_t spec = name_end;
    if (text[spec] == '!') {
      value = converted(value, spec + 1 < end ? text[spec + 1] : 0);
      spec += 2;
      if (spec < end && text[spec] != ':') fail("expected ':' after conversion specifier");
    }
    StringBuilder made;
    if (spec < end) BraceFormatter::format(made, in_.heap().part(format, spec + 1, end).str(), depth - 1);
    format_value(in_, out, value, made.text());
    return end + 1;
  }

  Value converted(const Value& value, char conversion) {
    if (conversion == 's') return in_.to_string(value);
    if (conversion != 'r' && conversion != 'a') fail("unknown conversion specifier {:?}", std::string(1, conversion));
    StringBuilder out;
    in_.repr(out, value);
    return out.take(in_.heap());
  }

  Value lookup(const std::string& name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    std::string first = name.substr(0, at);
    const bool number = !first.empty() && first.find_first_not_of("0123456789") == std::string::npos;
    if (first.empty() || number) {
      if (first.empty() ? manual_ : automatic_ > 0) {
        fail("cannot switch between manual field specification and automatic field numbering");
      }
      if (!first.empty()) manual_ = true;
    }
    Value value;
    if (first.empty()) {
      value = positional(automatic_++);
    } else if (number) {
      value = positional(first.size() > 9 ? SIZE_MAX : std::stoul(first));
    } else {
      value = named(first);
    }
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) fail("empty attribute in format string");
        value = in_.attribute(value, in_.heap().string(name.substr(at + 1, end - at - 1)));
        at = end;
      } else {
        const size_t end = name.find(']', at);
        if (name[at] != '[' || end == std::string::npos) fail("missing ']' in format string");
        const std::string key = name.substr(at + 1, end - at - 1);
        if (key.empty()) fail("empty attribute in format string");
        const bool index = key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
        value = in_.item(value, index ? Value::integer(std::stol(key)) : in_.heap().string(key));
        at = end + 1;
        if (at < name.size() && name[at] != '.' && name[at] != '[') {
          fail("only '.' or '[' may follow ']' in format field specifier");
        }
      }
    }
    return value;
  }

  Value positional(size_t index) {
    if (index >= arguments_.positional.size()) fail("replacement index out of range for positional args tuple");
    return arguments_.positional[index];
  }

  Value named(const std::string& name) {
    if (map_ != nullptr) {
      if (const Value* found = find(*map_, name)) return *found;
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail("KeyError: '{}'", name);
  }

  Interpreter& in_;
  Arguments& arguments_;
  const DictObject* map_;
  size_t automatic_ = 0;
  bool manual_ = false;
};

}  // namespace

Value brace_format(Interpreter& in, const StringObject& format, Arguments& arguments, bool map) {
  const DictObject* entries = nullptr;
  Value mapping;
  if (map) {
    if (!arguments.named.empty()) fail("format_map() takes no keyword arguments");
    if (arguments.positional.size() != 1) fail("format_map() takes exactly one argument");
    mapping = arguments.positional[0];
    if (!mapping.is(Kind::kDict)) fail("format_map() needs a mapping, not {}", type_name(mapping));
    entries = &mapping.as<DictObject>();
    arguments.positional.clear();
  }
  StringBuilder out;
  BraceFormatter(in, arguments, entries).format(out, format, 2);
  return out.take(in.heap(), format.markup);
}

}  // namespace vernier::jinja
