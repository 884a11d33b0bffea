#pragma once

#include <memory>
#include <string>

#include "api/load_tokenizer.h"
#include "grammar/grammar_vocabulary.h"

namespace vernier::testing {

/// A tokenizer's vocabulary as grammars see it: added tokens are markers, and the `<|im_end|>` and `<|endoftext|>`
/// among them end an answer.
inline Result<std::shared_ptr<const GrammarVocabulary>> model_vocabulary(const std::string& path) {
  TRY_BIND(Tokenizer tokenizer, load_tokenizer(path));
  GrammarVocabularyParts parts;
  for (size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    parts.token_bytes.push_back(tokenizer.token_bytes(static_cast<TokenId>(id)).value_or(""));
  }
  for (const AddedToken& token : tokenizer.added_tokens()) {
    auto id = tokenizer.find_token(token.text);
    if (!id) continue;
    parts.token_bytes[static_cast<size_t>(*id)] = token.text;
    const bool ends = token.text == "<|im_end|>" || token.text == "<|endoftext|>";
    (ends ? parts.end_ids : parts.marker_ids).push_back(*id);
  }
  parts.logits = static_cast<int64_t>(parts.token_bytes.size());
  return GrammarVocabulary::make(std::move(parts));
}

}  // namespace vernier::testing
