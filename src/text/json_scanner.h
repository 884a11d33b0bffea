#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace vernier {

/// Checks one JSON object, byte by byte, as strictly as RFC 8259 and with bounded depth. Linear; keeps no text.
class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 256;
  enum class State : uint8_t { kGoing, kDone, kBroken };

  /// After kDone or kBroken nothing may be pushed. A byte that breaks the text has changed nothing that matters.
  State push(char c);

  State state() const { return state_; }
  size_t depth() const { return is_object_.size(); }
  bool in_string() const { return lexeme_ == Lexeme::kString; }
  /// The next thing must be, or has begun to be, the key of a member.
  bool at_key() const { return expect_ == Expect::kKey || expect_ == Expect::kKeyOrEnd; }
  /// What is being read is the value of a member of the outermost object, or comes before it.
  bool wants_value() const { return expect_ == Expect::kValue; }

 private:
  enum class Expect : uint8_t { kObject, kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };
  enum class Lexeme : uint8_t { kNone, kString, kEscape, kUnicode, kNumber, kWord };
  enum class Digits : uint8_t { kMinus, kZero, kWhole, kPoint, kFraction, kExponent, kSign, kPower };

  bool string_byte(char c);
  bool number_byte(char c, bool& belongs);
  bool begin_value(char c);
  bool structural(char c);
  bool open(bool object);
  bool close(bool object);
  void after_value() { expect_ = Expect::kCommaOrEnd; }

  State state_ = State::kGoing;
  Expect expect_ = Expect::kObject;
  Lexeme lexeme_ = Lexeme::kNone;
  Digits digits_ = Digits::kMinus;
  uint8_t hex_digits_ = 0;
  std::string_view word_;        // what is left of true, false or null
  std::vector<bool> is_object_;  // [depth]
};

}  // namespace vernier
