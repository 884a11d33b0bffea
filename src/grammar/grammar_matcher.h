#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar_vocabulary.h"

namespace vernier {

/// A grammar bound to a vocabulary. Immutable; shared by any number of matchers on any threads.
class CompiledGrammar {
 public:
  /// `named`: the marker and end tokens that the grammar itself spells by id. The other end tokens may follow where the
  /// text is whole.
  CompiledGrammar(std::shared_ptr<const GrammarVocabulary> vocabulary, std::shared_ptr<const Automaton> automaton,
                  std::span<const int32_t> named);

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  const Automaton& automaton() const { return *automaton_; }
  std::span<const uint32_t> allowed() const { return allowed_; }
  std::span<const int32_t> end_ids() const { return end_ids_; }
  size_t bytes() const { return automaton_->bytes() + allowed_.size() * sizeof(uint32_t); }

 private:
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::shared_ptr<const Automaton> automaton_;
  std::vector<uint32_t> allowed_;  // what any text of this grammar may hold
  std::vector<int32_t> end_ids_;
};

/// Where one choice of one request stands in its grammar. One thread at a time; filling a mask beside a forward pass on
/// another thread is such a use as long as nobody else calls in between.
class GrammarMatcher {
 public:
  static Result<GrammarMatcher> make(std::shared_ptr<const CompiledGrammar> grammar);

  /// Whether the grammar allows the token here; if so it is taken. False changes nothing. An end token is taken where
  /// the grammar may end, and then the matcher is `terminated`. False for ids that do not exist and once terminated;
  /// and where the library failed, or the grammar took too much work, which `failure` then says.
  bool accept(int32_t token, SharedWork* shared = nullptr);

  /// Bit i % 32 of bits[i / 32] says whether token i may come next; vocabulary().mask_words() words. All zero once
  /// terminated. An error is the library's own failure or a grammar that takes too much work (kInvalidArgument), never
  /// the state of the text; the request must end with it.
  Status fill_mask(std::span<uint32_t> bits, SharedWork* shared = nullptr);

  /// Of the last `accept`: after one, only the request can end.
  const Status& failure() const { return failure_; }

  /// An end token was taken; nothing more may follow.
  bool terminated() const { return end_ != End::kNone; }
  /// The text so far is whole: an end token may come next.
  bool may_end() const;
  /// Takes back the last `tokens` accepted tokens, an end token among them. At most `accepted()`. An error where a mask
  /// or a token failed before.
  Status rollback(int tokens);
  /// Tokens taken and not taken back.
  int accepted() const { return accepted_; }
  const CompiledGrammar& grammar() const { return *grammar_; }

 private:
  enum class End : uint8_t {
    kNone,
    kAfterText,  // the automaton knows nothing of the end token
    kInText,     // the grammar spelled it
  };

  GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar, std::unique_ptr<AutomatonRun> run)
      : grammar_(std::move(grammar)), run_(std::move(run)) {}

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::unique_ptr<AutomatonRun> run_;
  int accepted_ = 0;
  End end_ = End::kNone;
  Status failure_;
};

}  // namespace vernier
