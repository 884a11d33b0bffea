#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace vernier {

struct GrammarVocabularyParts;

/// The work of one step's masks and tokens, in units of the matching library. Any thread, but for `refill`.
class SharedWork {
 public:
  static constexpr int64_t kMostOwn = 50'000;

  /// `own` is what each mask has for itself and each token a tenth of; beyond it all draw on `units`.
  explicit SharedWork(int64_t units, int64_t own = kMostOwn) : units_(units), own_(own), left_(units) {}

  /// As many units as are left, up to `units`.
  int64_t take(int64_t units) {
    const int64_t left = left_.fetch_sub(units, std::memory_order_relaxed);
    return left <= 0 ? 0 : left < units ? left : units;
  }
  /// For the next step; nobody draws meanwhile.
  void refill(int64_t units, int64_t own) {
    units_ = units;
    own_ = own;
    left_.store(units, std::memory_order_relaxed);
  }
  int64_t units() const { return units_; }
  int64_t own() const { return own_; }

 private:
  int64_t units_;
  int64_t own_;
  std::atomic<int64_t> left_;
};

/// A walk through an automaton. One thread at a time.
class AutomatonRun {
 public:
  virtual ~AutomatonRun() = default;
  /// False changes nothing. Ids are in range and exist. After an error, as after one of `fill_mask`, nothing more may
  /// be asked: the work of a call is bounded, and what takes more is such an error (GRAMMAR-6). `shared` may be null:
  /// nobody else then asks in the same step.
  virtual Result<bool> accept(int32_t token, SharedWork* shared) = 0;
  /// Writes every word; marker tokens may be set beyond those that the grammar names.
  virtual Status fill_mask(std::span<uint32_t> bits, SharedWork* shared) = 0;
  /// What was accepted is a whole text of the grammar.
  virtual bool is_complete() const = 0;
  /// An error where a call has failed before.
  virtual Status rollback(int tokens) = 0;
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
  /// `gbnf` starts at its rule `v_root`. Its work is bounded, whatever the machine's load, and ends early once `stop`
  /// is set. Thread-safe.
  virtual Result<std::shared_ptr<const Automaton>> compile(const std::string& gbnf,
                                                           const std::atomic<bool>& stop) const = 0;

  static bool is_built();
  static Result<std::shared_ptr<const AutomatonCompiler>> make(const GrammarVocabularyParts& parts);
};

}  // namespace vernier
