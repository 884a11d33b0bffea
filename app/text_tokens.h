#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace vernier {

/// The file behind --text; the built-in text where none is named.
Result<std::string> read_text(const std::string& path);

struct TextTokens {
  std::vector<int32_t> text;    ///< without special tokens
  std::vector<int32_t> prefix;  ///< what the model's text begins with: at most one token
};

/// At most `limit` tokens of the text; 0: all.
Result<TextTokens> tokenise_text(const Tokenizer& tokenizer, const std::string& text, int64_t limit);

}  // namespace vernier
