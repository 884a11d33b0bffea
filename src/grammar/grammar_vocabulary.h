#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

class AutomatonCompiler;

/// What the grammar room must know of a tokenizer and a model's head.
struct GrammarVocabularyParts {
  /// token_bytes[id]: the bytes that the id adds to an answer; empty for an id that does not exist.
  std::vector<std::string> token_bytes = {};
  /// Control and marker tokens (`<|im_end|>`, `<tool_call>`, ...). Never part of a text: allowed only where a grammar
  /// names them, whatever their bytes spell.
  std::vector<int32_t> marker_ids = {};
  /// The tokens that end an answer. Allowed exactly where the grammar may end.
  std::vector<int32_t> end_ids = {};
  /// Columns of the model's head; ids from token_bytes.size() on are never allowed.
  int64_t logits = 0;
};

/// The tokens as grammars see them. Built once for each tokenizer; immutable; any thread.
class GrammarVocabulary {
 public:
  /// Refuses ids out of range and a head narrower than the tokens.
  static Result<std::shared_ptr<const GrammarVocabulary>> make(GrammarVocabularyParts parts);

  /// The marker token with this text, if there is one.
  std::optional<int32_t> find_marker(std::string_view text) const;
  const std::string& token_bytes(int32_t id) const { return parts_.token_bytes[static_cast<size_t>(id)]; }
  std::span<const int32_t> end_ids() const { return parts_.end_ids; }
  bool is_end(int32_t id) const;
  int64_t logits() const { return parts_.logits; }
  /// 32-bit words of a mask over the logits.
  size_t mask_words() const { return static_cast<size_t>((parts_.logits + 31) / 32); }

  /// One bit for each logit: what no text may hold. Markers, end tokens, and ids that do not exist.
  std::span<const uint32_t> barred() const { return barred_; }
  /// What compiles grammars for these tokens; made on the first call, which may take a second.
  Result<std::shared_ptr<const AutomatonCompiler>> compiler() const;

 private:
  explicit GrammarVocabulary(GrammarVocabularyParts parts);

  GrammarVocabularyParts parts_;
  std::vector<uint32_t> barred_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const AutomatonCompiler> compiler_;
};

}  // namespace vernier
