#include "app/text_tokens.h"

#include <fstream>
#include <iterator>

#include "audit/evaluate.h"

namespace vernier {

Result<std::string> read_text(const std::string& path) {
  if (path.empty()) return std::string(built_in_text());
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("--text {}: cannot be read; leave it out for the built-in text", path);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

Result<TextTokens> tokenise_text(const Tokenizer& tokenizer, const std::string& text, int64_t limit) {
  TextTokens tokens;
  TRY_BIND(tokens.text, tokenizer.encode(text, {.add_special = false}));
  TRY_BIND(tokens.prefix, tokenizer.encode("", {.add_special = true}));
  if (tokens.prefix.size() > 1) tokens.prefix.resize(1);  // what ends a text would end every window
  if (limit > 0 && static_cast<int64_t>(tokens.text.size()) > limit) tokens.text.resize(static_cast<size_t>(limit));
  return tokens;
}

}  // namespace vernier
