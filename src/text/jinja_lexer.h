#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace vernier::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  ///< data, name, decoded string or operator
  WideInteger integer = 0;
  double number = 0;

  bool is_operator(std::string_view symbol) const { return type == TokenType::kOperator && text == symbol; }
  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
  std::string describe() const;
};

/// Jinja's tokens with trim_blocks, lstrip_blocks and no trailing newline kept. Throws Failure.
std::vector<Token> tokenize(std::string_view source);

}  // namespace vernier::jinja
