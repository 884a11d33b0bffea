#include "text/json_scanner.h"

namespace vernier {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

JsonScanner::State JsonScanner::push(char c) {
  bool fine = true;
  switch (lexeme_) {
    case Lexeme::kString:
    case Lexeme::kEscape:
    case Lexeme::kUnicode:
      fine = string_byte(c);
      break;
    case Lexeme::kWord:
      fine = c == word_.front();
      word_.remove_prefix(1);
      if (word_.empty()) {
        lexeme_ = Lexeme::kNone;
        after_value();
      }
      break;
    case Lexeme::kNumber: {
      bool belongs = true;
      fine = number_byte(c, belongs);
      if (fine && !belongs) {
        lexeme_ = Lexeme::kNone;
        after_value();
        fine = structural(c);
      }
      break;
    }
    case Lexeme::kNone:
      fine = structural(c);
      break;
  }
  if (!fine) state_ = State::kBroken;
  return state_;
}

bool JsonScanner::string_byte(char c) {
  if (lexeme_ == Lexeme::kUnicode) {
    if (--hex_digits_ == 0) lexeme_ = Lexeme::kString;
    return is_hex(c);
  }
  if (lexeme_ == Lexeme::kEscape) {
    lexeme_ = c == 'u' ? Lexeme::kUnicode : Lexeme::kString;
    hex_digits_ = 4;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos;
  }
  if (c == '\\') {
    lexeme_ = Lexeme::kEscape;
  } else if (c == '"') {
    lexeme_ = Lexeme::kNone;
    expect_ = at_key() ? Expect::kColon : Expect::kCommaOrEnd;
  }
  return static_cast<unsigned char>(c) >= 0x20;
}

bool JsonScanner::number_byte(char c, bool& belongs) {
  auto go = [&](Digits next) {
    digits_ = next;
    return true;
  };
  bool exponent = c == 'e' || c == 'E';
  switch (digits_) {
    case Digits::kMinus:
      return is_digit(c) && go(c == '0' ? Digits::kZero : Digits::kWhole);
    case Digits::kZero:
    case Digits::kWhole:
      if (digits_ == Digits::kWhole && is_digit(c)) return true;
      if (c == '.') return go(Digits::kPoint);
      if (exponent) return go(Digits::kExponent);
      break;
    case Digits::kPoint:
      return is_digit(c) && go(Digits::kFraction);
    case Digits::kFraction:
      if (is_digit(c)) return true;
      if (exponent) return go(Digits::kExponent);
      break;
    case Digits::kExponent:
      if (c == '+' || c == '-') return go(Digits::kSign);
      return is_digit(c) && go(Digits::kPower);
    case Digits::kSign:
      return is_digit(c) && go(Digits::kPower);
    case Digits::kPower:
      if (is_digit(c)) return true;
      break;
  }
  belongs = false;
  return true;
}

bool JsonScanner::begin_value(char c) {
  if (c == '{') return open(true);
  if (c == '[') return open(false);
  if (c == '"') {
    lexeme_ = Lexeme::kString;
    expect_ = Expect::kValue;
    return true;
  }
  if (c == '-' || is_digit(c)) {
    lexeme_ = Lexeme::kNumber;
    digits_ = c == '-' ? Digits::kMinus : c == '0' ? Digits::kZero : Digits::kWhole;
    return true;
  }
  for (std::string_view word : {"true", "false", "null"}) {
    if (c != word.front()) continue;
    lexeme_ = Lexeme::kWord;
    word_ = word.substr(1);
    return true;
  }
  return false;
}

bool JsonScanner::structural(char c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return true;
  switch (expect_) {
    case Expect::kObject:
      return c == '{' && open(true);
    case Expect::kValueOrEnd:
      if (c == ']') return close(false);
      return begin_value(c);
    case Expect::kValue:
      return begin_value(c);
    case Expect::kKeyOrEnd:
      if (c == '}') return close(true);
      [[fallthrough]];
    case Expect::kKey:
      lexeme_ = Lexeme::kString;
      return c == '"';
    case Expect::kColon:
      expect_ = Expect::kValue;
      return c == ':';
    case Expect::kCommaOrEnd:
      if (c == '}' || c == ']') return close(c == '}');
      expect_ = is_object_.back() ? Expect::kKey : Expect::kValue;
      return c == ',';
  }
  return false;
}

bool JsonScanner::open(bool object) {
  if (is_object_.size() == kMaxDepth) return false;
  is_object_.push_back(object);
  expect_ = object ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  return true;
}

bool JsonScanner::close(bool object) {
  if (is_object_.back() != object) return false;
  is_object_.pop_back();
  after_value();
  if (is_object_.empty()) state_ = State::kDone;
  return true;
}

}  // namespace vernier
