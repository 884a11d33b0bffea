#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "grammar/grammar_matcher.h"
#include "grammar/grammar_spec.h"
#include "grammar/grammar_vocabulary.h"

namespace vernier {

struct GrammarLimits {
  size_t text_bytes = 256 << 10;   ///< of one schema, pattern or grammar, of all choices, of all functions together
  size_t nesting = 100;            ///< of the JSON of a schema
  size_t rules = 20000;            ///< of the grammar made of it
  size_t cache_bytes = 128 << 20;  ///< of compiled grammars kept; the least recently used go first
  int64_t compile_ms = 60000;      ///< that `compile` waits; the work, which is bounded, ends on its own thread
};

/// Makes grammars and keeps them, keyed by content. Thread-safe; equal specs compile once, also when asked for at the
/// same time. What cannot be enforced exactly is an error whose `where` is the JSON pointer of the offending place: a
/// constraint is never weakened (GRAMMAR-1).
class GrammarCompiler {
 public:
  /// Whether this program was built with a matching library; without one every `compile` is kUnsupported and says so.
  static bool is_built();

  explicit GrammarCompiler(std::shared_ptr<const GrammarVocabulary> vocabulary, GrammarLimits limits = {});
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  /// May take seconds: for HTTP threads, never the engine's. The work is bounded by what it does, not by the clock, so
  /// whether a grammar is taken does not depend on the machine's load. A grammar that allows nothing, or takes too much
  /// work for its first tokens, is refused.
  /// Where `wanted` is given it is asked now and then, under a lock: once it says no, nobody waits here any more.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec,
                                                         const std::function<bool()>& wanted = {});
  /// Ends what compiles and what waits for it; from now on nothing compiles.
  void stop();

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  size_t cached_bytes() const;

 private:
  struct State;
  struct Job;

  /// Waits for its end; false once the caller wants it no more.
  bool wait_for(std::unique_lock<std::mutex>& lock, Job& job, const std::function<bool()>& wanted);
  void run_job(const GrammarSpec& spec, const std::string& key, const std::shared_ptr<Job>& job);

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  GrammarLimits limits_;
  std::unique_ptr<State> state_;
};

}  // namespace vernier
