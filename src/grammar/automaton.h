#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace vernier {

struct GrammarVocabularyParts;

/// A walk through an automaton. One thread at a time.
class AutomatonRun {
 public:
  virtual ~AutomatonRun() = default;
  /// False changes nothing. Ids are in range and exist.
  virtual bool accept(int32_t token) = 0;
  /// Writes every word; marker tokens may be set beyond those that the grammar names.
  virtual Status fill_mask(std::span<uint32_t> bits) = 0;
  /// What was accepted is a whole text of the grammar.
  virtual bool is_complete() const = 0;
  virtual void rollback(int tokens) = 0;
};

/// A grammar bound to a vocabulary, in the words of the library that matches it. Any thread.
class Automaton {
 public:
  virtual ~Automaton() = default;
  virtual Result<std::unique_ptr<AutomatonRun>> start() const = 0;
  virtual size_t bytes() const = 0;
};

/// All that this room asks of a matching library: the folder that is linked, xgrammar/ or absent/, defines it. No
/// exception leaves it. End tokens are none of its business.
class AutomatonCompiler {
 public:
  virtual ~AutomatonCompiler() = default;
  /// `gbnf` starts at its rule `v_root`. Thread-safe.
  virtual Result<std::shared_ptr<const Automaton>> compile(const std::string& gbnf) const = 0;

  static bool is_built();
  static Result<std::shared_ptr<const AutomatonCompiler>> make(const GrammarVocabularyParts& parts);
};

}  // namespace vernier
