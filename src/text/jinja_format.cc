#include <cmath>

#include "text/jinja_numbers.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

// The numbers of printf-style % and of format specifications.
namespace vernier::jinja {

std::string digits_of(WideInteger value, unsigned base, bool capital) {
  unsigned __int128 rest = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  const std::string_view marks = capital ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), marks[static_cast<size_t>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  return digits;
}

std::string float_digits(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : "inf";
    return type >= 'A' && type <= 'Z' ? map_case(text, CaseMapping::kUpper) : text;
  }
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, std::fabs(value));
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), precision, std::fabs(value));
  text.pop_back();
  return text;
}

namespace {

struct Conversion {
  bool alternate = false, zero = false, left = false, space = false, plus = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

/// printf-style formatting of one text.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, const StringObject& format, const Value& values)
      : in_(in), format_(format), values_(values), named_(values.is(Kind::kDict)) {}

  Value run() {
    const std::string& text = format_.text;
    while (position_ < text.size()) {
      const size_t percent = std::min(text.find('%', position_), text.size());
      out_.append_part(format_, position_, percent);
      position_ = percent;
      if (position_ < text.size()) {
        ++position_;
        convert();
      }
      in_.heap().check_bytes(out_.size());
    }
    const bool tuple = values_.is(Kind::kTuple);
    const size_t given = tuple ? values_.as<ListObject>().items.size() : 1;
    // A lone value that is a mapping or a list may stay unused.
    const bool may_stay =
        !tuple && (named_ || values_.is(Kind::kList) || values_.is(Kind::kRange) || values_.undefined());
    if (used_ < given && !may_stay) fail("not all arguments converted during string formatting");
    return out_.take(in_.heap(), format_.markup);
  }

 private:
  char peek() const {
    if (position_ >= format_.text.size()) fail("incomplete format");
    return format_.text[position_];
  }

  Value next_value() {
    if (values_.is(Kind::kTuple)) {
      const std::vector<Value>& items = values_.as<ListObject>().items;
      if (used_ >= items.size()) fail("not enough arguments for format string");
      return items[used_++];
    }
    if (used_++ > 0) fail("not enough arguments for format string");
    return values_;
  }

  int64_t number_or_star() {
    if (peek() == '*') {
      ++position_;
      const Value given = next_value();
      if (!given.is_integer()) fail("* wants int");
      const int64_t number = expect_int(given, "width");
      if (number > kMaxFormatWidth || number < -kMaxFormatWidth) fail("a width of {} is too large", number);
      return number;
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (format_.text[position_++] - '0');
      if (number > kMaxFormatWidth) fail("a width or precision of the format is too large");
    }
    return number;
  }

  Value key_value() {
    if (!named_) fail("format requires a mapping");
    const size_t start = ++position_;
    for (int open = 1; open > 0; ++position_) open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    const Value key = in_.heap().part(format_, start, position_ - 1);
    const Value* found = find(in_.heap(), values_.as<DictObject>(), key);
    if (found == nullptr) fail("KeyError: {}", in_.plain_repr(key));
    return *found;
  }

  void convert() {
    Value value;
    if (peek() == '(') value = key_value();
    Conversion how;
    for (;; ++position_) {
      const char c = peek();
      if (c == '#')
        how.alternate = true;
      else if (c == '0')
        how.zero = true;
      else if (c == '-')
        how.left = true;
      else if (c == ' ')
        how.space = true;
      else if (c == '+')
        how.plus = true;
      else
        break;
    }
    how.width = number_or_star();
    if (how.width < 0) {
      how.left = true;
      how.width = -how.width;
    }
    if (peek() == '.') {
      ++position_;
      how.precision = std::max<int64_t>(0, number_or_star());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++position_;
    how.type = peek();
    ++position_;
    if (how.type == '%') return out_.append("%");
    if (value.missing()) value = next_value();
    put(value, how);
  }

  void put(const Value& value, const Conversion& how) {
    StringBuilder body;
    switch (how.type) {
      case 's':
        if (format_.markup) {
          in_.append_escaped(body, value);
        } else {
          in_.print(body, value);
        }
        return put_text(body, how);
      case 'r':
      case 'a':
        in_.repr(body, value);
        return put_text(body, how);
      case 'c':
        put_character(body, value);
        return put_text(body, how);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return put_integer(value, how);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return put_float(value, how);
      default:
        fail("unsupported format character {:?}", std::string(1, how.type));
    }
  }

  void put_character(StringBuilder& body, const Value& value) {
    if (value.is_string() && value.str().length() == 1) return body.append(value.str());
    if (!value.is_integer()) fail("%c requires int or char");
    const int64_t code = expect_int(value, "%c");
    if (code < 0 || code >= 0x110000) fail("%c arg not in range(0x110000)");
    body.append_code_point(static_cast<uint32_t>(code), false);
  }

  void put_text(StringBuilder& body, const Conversion& how) {
    Value text = body.take(in_.heap());
    if (how.precision >= 0) text = in_.slice(text, Value::none(), Value::integer(how.precision), Value::none());
    out_.append(pad(in_, text.str(), how.width, {}, how.left ? Sides::kLeft : Sides::kRight).str());
  }

  void put_number(const std::string& sign, std::string digits, const Conversion& how) {
    const auto missing = how.width - static_cast<int64_t>(sign.size() + digits.size());
    in_.heap().check_bytes(out_.size() + static_cast<uint64_t>(std::max<int64_t>(0, missing)));
    const std::string fill(static_cast<size_t>(std::max<int64_t>(0, missing)), how.zero && !how.left ? '0' : ' ');
    if (how.left) return out_.append(sign + digits + fill);
    out_.append(how.zero ? sign + fill + digits : fill + sign + digits);
  }

  static std::string sign_of(bool negative, const Conversion& how) {
    return negative ? "-" : how.plus ? "+" : how.space ? " " : "";
  }

  void put_integer(const Value& value, const Conversion& how) {
    const bool decimal = how.type == 'd' || how.type == 'i' || how.type == 'u';
    if (value.undefined()) fail_undefined(value);
    if (!value.is_integer() && !(decimal && value.is(Kind::kFloat))) {
      fail("%{} format: {} is required, not {}", how.type, decimal ? "a real number" : "an integer", type_name(value));
    }
    if (value.is(Kind::kFloat) && !(std::fabs(value.as_float()) < 1e38))
      fail("cannot convert a float to an integer of more than 127 bits");
    const WideInteger number = value.is(Kind::kFloat) ? static_cast<WideInteger>(value.as_float()) : wide(value);
    const unsigned base = decimal ? 10 : how.type == 'o' ? 8 : 16;
    std::string digits = digits_of(number, base, how.type == 'X');
    if (static_cast<int64_t>(digits.size()) < how.precision) {
      in_.heap().check_bytes(static_cast<uint64_t>(how.precision));
      digits.insert(0, static_cast<size_t>(how.precision) - digits.size(), '0');
    }
    std::string sign = sign_of(number < 0, how);
    if (how.alternate && !decimal) sign += std::string("0") + how.type;
    put_number(sign, digits, how);
  }

  void put_float(const Value& value, const Conversion& how) {
    if (value.undefined()) fail_undefined(value);
    if (!value.is_number()) fail("must be real number, not {}", type_name(value));
    if (how.precision > kMaxFormatPrecision) fail("a precision above {} is not supported", kMaxFormatPrecision);
    const double number = to_double(value);
    const int precision = how.precision < 0 ? 6 : static_cast<int>(how.precision);
    put_number(sign_of(std::signbit(number) && !std::isnan(number), how),
               float_digits(number, how.type, precision, how.alternate), how);
  }

  Interpreter& in_;
  const StringObject& format_;
  const Value& values_;
  bool named_;
  size_t position_ = 0, used_ = 0;
  StringBuilder out_;
};

}  // namespace

Value percent_format(Interpreter& in, const StringObject& format, const Value& values) {
  return PercentFormatter(in, format, values).run();
}

}  // namespace vernier::jinja
