#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "text/jinja_unicode.h"

namespace vernier::jinja {

std::string Token::describe() const {
  switch (type) {
    case TokenType::kData:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEnd:
      return "end of template";
    default:
      return text;
  }
}

namespace {

std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Appends the characters that "\x", "\u" and "\U" stand for; `position` is behind the letter.
void append_hex(std::string& out, std::string_view body, size_t& position, size_t digits) {
  uint32_t code = 0;
  const char* first = body.data() + position;
  const char* last = first + std::min(digits, body.size() - position);
  const auto [end, error] = std::from_chars(first, last, code, 16);
  if (error != std::errc{} || end != first + digits) fail("truncated \\x, \\u or \\U escape in a string");
  if (code >= 0x110000) fail("illegal Unicode character in a string");
  append_code(out, code);
  position += digits;
}

void append_escape(std::string& out, std::string_view body, size_t& position) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = body[position];
  if (c == '\n') {
    ++position;
  } else if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
    out.push_back(kMeanings[known]);
    ++position;
  } else if (c >= '0' && c <= '7') {
    uint32_t code = 0;
    for (int i = 0; i < 3 && position < body.size() && body[position] >= '0' && body[position] <= '7'; ++i) {
      code = code * 8 + static_cast<uint32_t>(body[position++] - '0');
    }
    append_code(out, code);
  } else if (c == 'x' || c == 'u' || c == 'U') {
    append_hex(out, body, ++position, c == 'x' ? 2 : c == 'u' ? 4 : 8);
  } else if (c == 'N') {
    fail("\\N escapes name a character and are not supported: write it as it is");
  } else if (static_cast<uint8_t>(c) >= 0x80) {
    // Python escapes such a character before it decodes escapes, and so finds an escaped backslash.
    const uint32_t code = next_code(body, position);
    out += code < 0x100     ? fmt::format("\\x{:02x}", code)
           : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                            : fmt::format("\\U{:08x}", code);
  } else {
    out.push_back('\\');
  }
}

std::string unescaped(std::string_view body) {
  std::string out;
  for (size_t position = 0; position < body.size();) {
    if (body[position] != '\\') {
      out.push_back(body[position++]);
    } else {
      append_escape(out, body, ++position);
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalized(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) lex_data();
    push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

  int line() const { return line_; }

 private:
  void push(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  /// Moves on, counting lines, and remembers whether a line starts here.
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(position_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    if (end > position_) line_starting_ = source_[end - 1] == '\n';
    position_ = end;
  }

  size_t skip_spaces(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(next_code(source_, next))) break;
      at = next;
    }
    return at;
  }

  bool at(size_t place, std::string_view text) const {
    return source_.substr(std::min(place, source_.size()), text.size()) == text;
  }

  /// The end of the tag `%}` or `#}` (with its sign and the space it takes) if one stands at `place`.
  size_t tag_end(size_t place, std::string_view closing) const {
    const bool trims_newline = closing != "}}";
    if (trims_newline && at(place, "+") && at(place + 1, closing)) return place + 3;
    if (at(place, "-") && at(place + 1, closing)) return skip_spaces(place + 3);
    if (!at(place, closing)) return 0;
    return trims_newline && at(place + 2, "\n") ? place + 3 : place + 2;
  }

  /// Text up to a tag, which may take white space before it.
  void push_data(size_t end, char sign, bool variable) {
    std::string_view text = source_.substr(position_, end - position_);
    if (sign == '-') {
      size_t length = text.size();
      while (length > 0) {
        size_t start = length;
        step_back(text, start);
        size_t next = start;
        if (!is_space(next_code(text, next))) break;
        length = start;
      }
      text = text.substr(0, length);
    } else if (sign != '+' && !variable) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && skip_spaces(position_ + start) >= end) text = text.substr(0, start);
    }
    if (!text.empty()) push(TokenType::kData, std::string(text));
    advance(end);
  }

  void lex_data() {
    size_t tag = position_;
    do {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 == source_.size()) {
        push(TokenType::kData, std::string(source_.substr(position_)));
        return advance(source_.size());
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    } while (true);
    const char kind = source_[tag + 1];
    const char sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : 0;
    const size_t inside = tag + 2 + (sign != 0);
    push_data(tag, sign, kind == '{');
    const size_t raw = kind == '%' ? raw_body(inside) : 0;
    if (raw != 0) return lex_raw(raw);
    if (kind == '#') return lex_comment(inside);
    push(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    advance(inside);
    lex_code(kind == '{');
  }

  /// Where the body of a raw block starts if `{%` is followed by `raw %}`.
  size_t raw_body(size_t inside) const {
    size_t place = skip_spaces(inside);
    if (!at(place, "raw")) return 0;
    place = skip_spaces(place + 3);
    if (at(place, "-%}")) return skip_spaces(place + 3);
    return at(place, "%}") ? place + 2 : 0;
  }

  void lex_raw(size_t body) {
    advance(body);
    for (size_t tag = source_.find("{%", position_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      const char sign = at(tag + 2, "-") ? '-' : at(tag + 2, "+") ? '+' : 0;
      size_t place = skip_spaces(tag + 2 + (sign != 0));
      if (!at(place, "endraw")) continue;
      const size_t end = tag_end(skip_spaces(place + 6), "%}");
      if (end == 0) continue;
      push_data(tag, sign, false);
      return advance(end);
    }
    fail("missing end of raw directive");
  }

  void lex_comment(size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == std::string_view::npos) fail("missing end of comment tag");
    const bool signed_close = close > inside && (source_[close - 1] == '-' || source_[close - 1] == '+');
    advance(tag_end(signed_close ? close - 1 : close, "#}"));
  }

  void lex_code(bool variable) {
    const std::string_view closing = variable ? "}}" : "%}";
    std::string balance;
    while (position_ < source_.size()) {
      if (balance.empty()) {
        if (const size_t end = tag_end(position_, closing); end != 0) {
          push(variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
          return advance(end);
        }
      }
      const size_t word = skip_spaces(position_);
      if (word != position_) {
        advance(word);
        continue;
      }
      lex_token(balance);
    }
  }

  void lex_token(std::string& balance) {
    const char c = source_[position_];
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    size_t next = position_;
    const uint32_t code = next_code(source_, next);
    if (c == '_' || (code < 0x80 ? std::isalpha(c) != 0 : traits_of(code).starts_identifier())) return lex_name();
    lex_operator(balance);
  }

  void lex_name() {
    size_t end = position_;
    while (end < source_.size()) {
      size_t next = end;
      const uint32_t code = next_code(source_, next);
      if (code < 0x80 ? !(std::isalnum(static_cast<int>(code)) || code == '_')
                      : !traits_of(code).continues_identifier()) {
        break;
      }
      end = next;
    }
    push(TokenType::kName, std::string(source_.substr(position_, end - position_)));
    advance(end);
  }

  void lex_string(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      fail("unexpected char {:?} at {}: the string has no end", std::string(1, quote), position_);
    push(TokenType::kString, unescaped(source_.substr(position_ + 1, end - position_ - 1)));
    advance(end + 1);
  }

  /// (\d+_)*\d+ from `at`; returns its end, `at` if there is none.
  size_t digits(size_t from) const {
    size_t end = from;
    while (end < source_.size() &&
           (is_digit(source_[end]) || (source_[end] == '_' && end > from && is_digit(source_[end - 1]) &&
                                       end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
    return end;
  }

  void lex_number() {
    if (position_ == 0 || source_[position_ - 1] != '.') {
      size_t end = digits(position_);
      const size_t whole = end;
      if (at(end, ".") && digits(end + 1) > end + 1) end = digits(end + 1);
      size_t exponent = end;
      if (at(end, "e") || at(end, "E")) {
        exponent = end + 1 + (at(end + 1, "+") || at(end + 1, "-"));
        exponent = digits(exponent) > exponent ? digits(exponent) : end;
      }
      if (exponent > whole) return push_float(exponent);
    }
    lex_integer();
  }

  void push_float(size_t end) {
    std::string text(source_.substr(position_, end - position_));
    std::erase(text, '_');
    push(TokenType::kFloat, "");
    tokens_.back().number = std::strtod(text.c_str(), nullptr);
    advance(end);
  }

  void lex_integer() {
    int base = 10;
    size_t end = position_;
    if (source_[end] == '0' && end + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[end + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    const auto value_of = [&](size_t place) {
      if (place >= source_.size()) return 99;
      const char c = static_cast<char>(source_[place] | (source_[place] >= 'A' ? 0x20 : 0));
      return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
    };
    const auto more = [&](size_t place) { return value_of(place + (at(place, "_") ? 1 : 0)) < base; };
    if (base != 10 && more(end + 2)) {
      end += 2;
    } else {
      base = 10;
    }
    // A decimal number that starts with 0 is only zeros.
    const bool zeros = base == 10 && source_[end] == '0';
    WideInteger value = 0;
    bool first = base == 10;
    while (first ? value_of(end) < base : more(end)) {
      if (!first && at(end, "_")) {
        if (zeros && !at(end + 1, "0")) break;
        ++end;
      }
      if (zeros && source_[end] != '0') break;
      first = false;
      if (__builtin_mul_overflow(value, WideInteger{base}, &value) ||
          __builtin_add_overflow(value, WideInteger{value_of(end)}, &value)) {
        fail("an integer of the template needs more than 127 bits");
      }
      ++end;
    }
    push(TokenType::kInteger, "");
    tokens_.back().integer = value;
    advance(end);
  }

  void lex_operator(std::string& balance) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view symbol = source_.substr(position_, 1);
    for (const std::string_view two : kTwo) {
      if (at(position_, two)) symbol = two;
    }
    if (symbol.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(symbol[0]) == std::string_view::npos) {
      fail("unexpected char {:?} at {}", std::string(symbol), position_);
    }
    static constexpr std::string_view kOpen = "{([", kClose = "})]";
    if (const size_t open = kOpen.find(symbol[0]); open != std::string_view::npos) {
      balance.push_back(kClose[open]);
    } else if (kClose.find(symbol[0]) != std::string_view::npos) {
      if (balance.empty()) fail("unexpected '{}'", symbol);
      if (balance.back() != symbol[0]) fail("unexpected '{}', expected '{}'", symbol, balance.back());
      balance.pop_back();
    }
    push(TokenType::kOperator, std::string(symbol));
    advance(position_ + symbol.size());
  }

  std::string owned_;
  std::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  Lexer lexer(source);
  try {
    return lexer.run();
  } catch (Failure& failure) {
    failure.line = lexer.line();
    throw;
  }
}

}  // namespace vernier::jinja
