#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "text/tokenizer.h"

namespace vernier::testing_text {

/// One of the small tokenizers in tests/data.
inline Tokenizer small_tokenizer(const std::string& name) {
  std::ifstream file(VERNIER_TEST_DATA "/tokenizers/" + name + ".json", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  auto tokenizer = Tokenizer::from_json(bytes);
  CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(tokenizer).value();
}

inline std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  CHECK(ids.ok(), "{}", ids.error().message);
  return *ids;
}

}  // namespace vernier::testing_text
