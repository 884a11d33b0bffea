#include "grammar/grammar_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace vernier {
namespace {

void set_bit(std::span<uint32_t> bits, int32_t token) {
  bits[static_cast<size_t>(token / 32)] |= 1U << (token % 32);
}

bool has_bit(std::span<const uint32_t> bits, int32_t token) {
  return (bits[static_cast<size_t>(token / 32)] >> (token % 32) & 1U) != 0;
}

}  // namespace

CompiledGrammar::CompiledGrammar(std::shared_ptr<const GrammarVocabulary> vocabulary,
                                 std::shared_ptr<const Automaton> automaton, std::span<const int32_t> named)
    : vocabulary_(std::move(vocabulary)), automaton_(std::move(automaton)) {
  for (uint32_t word : vocabulary_->barred()) allowed_.push_back(~word);
  if (vocabulary_->logits() % 32 != 0) allowed_.back() &= (1U << (vocabulary_->logits() % 32)) - 1;
  for (int32_t id : named) set_bit(allowed_, id);
  for (int32_t id : vocabulary_->end_ids()) {
    if (std::ranges::find(named, id) == named.end()) end_ids_.push_back(id);
  }
}

Result<GrammarMatcher> GrammarMatcher::make(std::shared_ptr<const CompiledGrammar> grammar) {
  TRY_BIND(std::unique_ptr<AutomatonRun> run, grammar->automaton().start());
  return GrammarMatcher(std::move(grammar), std::move(run));
}

bool GrammarMatcher::may_end() const {
  return !terminated() && run_->is_complete() && !grammar_->end_ids().empty();
}

bool GrammarMatcher::accept(int32_t token, SharedWork* shared) {
  if (terminated() || token < 0 || token >= grammar_->vocabulary().logits()) return false;
  if (std::ranges::find(grammar_->end_ids(), token) != grammar_->end_ids().end()) {
    if (!may_end()) return false;
    end_ = End::kAfterText;
  } else {
    if (!has_bit(grammar_->allowed(), token)) return false;
    Result<bool> taken = run_->accept(token, shared);
    if (!taken.ok()) failure_ = Error(taken.error());
    if (!taken.ok() || !*taken) return false;
    if (grammar_->vocabulary().is_end(token)) end_ = End::kInText;
  }
  ++accepted_;
  return true;
}

Status GrammarMatcher::fill_mask(std::span<uint32_t> bits, SharedWork* shared) {
  CHECK(bits.size() == grammar_->vocabulary().mask_words(), "a mask of {} words, {} needed", bits.size(),
        grammar_->vocabulary().mask_words());
  if (terminated()) {
    std::ranges::fill(bits, 0);
    return {};
  }
  TRY_STATUS(run_->fill_mask(bits, shared));
  std::span<const uint32_t> allowed = grammar_->allowed();
  for (size_t i = 0; i < bits.size(); ++i) bits[i] &= allowed[i];
  if (run_->is_complete()) {
    for (int32_t id : grammar_->end_ids()) set_bit(bits, id);
  }
  return {};
}

Status GrammarMatcher::rollback(int tokens) {
  CHECK(tokens >= 0 && tokens <= accepted_, "rollback of {} tokens, {} were accepted", tokens, accepted_);
  if (tokens == 0) return {};
  TRY_STATUS(run_->rollback(end_ == End::kAfterText ? tokens - 1 : tokens));
  accepted_ -= tokens;
  end_ = End::kNone;
  return {};
}

}  // namespace vernier
