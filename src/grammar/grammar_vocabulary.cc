#include "grammar/grammar_vocabulary.h"

#include <algorithm>

#include "grammar/automaton.h"

namespace vernier {
namespace {

Status check_ids(std::span<const int32_t> ids, const char* kind, size_t tokens) {
  for (int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokens) {
      return invalid_argument("{} token {} is not one of the {} tokens", kind, id, tokens);
    }
  }
  return {};
}

void sort_unique(std::vector<int32_t>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

}  // namespace

Result<std::shared_ptr<const GrammarVocabulary>> GrammarVocabulary::make(GrammarVocabularyParts parts) {
  const size_t tokens = parts.token_bytes.size();
  if (tokens == 0) return invalid_argument("a grammar needs a vocabulary; this one has no tokens");
  if (parts.logits < static_cast<int64_t>(tokens) || parts.logits > (int64_t{1} << 24)) {
    return invalid_argument(
        "the model's head has {} columns, the tokenizer {} tokens; expected at least as many columns", parts.logits,
        tokens);
  }
  TRY_STATUS(check_ids(parts.marker_ids, "marker", tokens));
  TRY_STATUS(check_ids(parts.end_ids, "end", tokens));
  sort_unique(parts.marker_ids);
  sort_unique(parts.end_ids);
  return std::shared_ptr<const GrammarVocabulary>(new GrammarVocabulary(std::move(parts)));
}

GrammarVocabulary::GrammarVocabulary(GrammarVocabularyParts parts)
    : parts_(std::move(parts)), barred_(mask_words(), 0) {
  auto bar = [&](int64_t id) { barred_[static_cast<size_t>(id / 32)] |= 1U << (id % 32); };
  for (int32_t id : parts_.marker_ids) bar(id);
  for (int32_t id : parts_.end_ids) bar(id);
  for (size_t id = 0; id < parts_.token_bytes.size(); ++id) {
    if (parts_.token_bytes[id].empty()) bar(static_cast<int64_t>(id));
  }
  for (int64_t id = static_cast<int64_t>(parts_.token_bytes.size()); id < parts_.logits; ++id) bar(id);
}

std::optional<int32_t> GrammarVocabulary::find_marker(std::string_view text) const {
  auto spells = [&](int32_t id) { return token_bytes(id) == text; };
  for (std::span<const int32_t> ids : {std::span(parts_.marker_ids), std::span(parts_.end_ids)}) {
    auto found = std::ranges::find_if(ids, spells);
    if (found != ids.end()) return *found;
  }
  return std::nullopt;
}

bool GrammarVocabulary::is_end(int32_t id) const {
  return std::ranges::binary_search(parts_.end_ids, id);
}

Result<std::shared_ptr<const AutomatonCompiler>> GrammarVocabulary::compiler() const {
  std::lock_guard lock(mutex_);
  if (compiler_ == nullptr) {
    TRY_BIND(compiler_, AutomatonCompiler::make(parts_));
  }
  return compiler_;
}

}  // namespace vernier
