#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_compiler.h"

namespace vernier::testing {

/// A vocabulary in which every text can be spelled: the 256 bytes (id = byte), pieces that cross the borders of JSON
/// and of UTF-8 characters, markers, an end token, and five columns of the head that no token has.
inline std::shared_ptr<const GrammarVocabulary> toy_vocabulary(const std::vector<std::string>& markers = {},
                                                               const std::vector<std::string>& ends = {"<end>"}) {
  GrammarVocabularyParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.token_bytes.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* piece :
       {"{\"",   "\":",    "\": \"", "\", \"",   "\"}",      "}}",  "]}",       "],",   "[[",   "true", "fal",
        "se",    "null",   "nu",     "10",       "00",       "123", "-1",       "0.",   ".5",   "e+",   "  ",
        "\n  ",  "\t\t",   "the",    " name",    "na",       "me",  "\\u00",    "\\\"", "\\\\", "\\n",  "é",
        "ü\"",   "東",     "京\"",   "\xF0\x9F", "\x98\x80", "😀",   "\xE6\x9D", "</",   "ool",  "abc",  "a\",",
        "\"a\"", "name\"", "\":{",   "\":[",     "{}",       "[]",  ", ",       ": ",   "\"\"", "\"",   "<tool"}) {
    parts.token_bytes.emplace_back(piece);
  }
  parts.token_bytes.emplace_back();  // an id that does not exist
  for (const std::string& marker : markers) {
    parts.marker_ids.push_back(static_cast<int32_t>(parts.token_bytes.size()));
    parts.token_bytes.push_back(marker);
  }
  for (const std::string& end : ends) {
    parts.end_ids.push_back(static_cast<int32_t>(parts.token_bytes.size()));
    parts.token_bytes.push_back(end);
  }
  parts.logits = static_cast<int64_t>(parts.token_bytes.size()) + 5;
  return GrammarVocabulary::make(std::move(parts)).value();
}

/// The id of a marker or end token.
inline int32_t marker_id(const GrammarVocabulary& vocabulary, std::string_view text) {
  return vocabulary.find_marker(text).value();
}

inline bool accept_text(GrammarMatcher& matcher, std::string_view text) {
  for (char c : text) {
    if (!matcher.accept(static_cast<uint8_t>(c))) return false;
  }
  return true;
}

/// Whether the text, byte by byte, is a whole answer.
inline bool matches(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text) {
  GrammarMatcher matcher = GrammarMatcher::make(grammar).value();
  return accept_text(matcher, text) && matcher.may_end();
}

inline std::vector<uint32_t> mask_of(GrammarMatcher& matcher) {
  std::vector<uint32_t> bits(matcher.grammar().vocabulary().mask_words());
  CHECK(matcher.fill_mask(bits).ok(), "no mask");
  return bits;
}

inline bool allows(std::span<const uint32_t> mask, int64_t token) {
  return (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1U) != 0;
}

}  // namespace vernier::testing
