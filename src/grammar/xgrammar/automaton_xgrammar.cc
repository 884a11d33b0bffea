#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/log.h"
#include "grammar/automaton.h"
#include "grammar/grammar_vocabulary.h"

// XGrammar reports what it refuses by exceptions; each call into it stands in a `guarded`, so none leaves this file.

namespace xgrammar {

// Its log goes where ours goes: XGRAMMAR_LOG_CUSTOMIZE asks for these two.
[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning) vernier::log_warning("xgrammar: {}", message);
}

}  // namespace xgrammar

namespace vernier {
namespace {

// In units of what the edited sources report, some tens of nanoseconds each. A mask or a token takes its own part
// whatever other requests take, and beyond it what the step's shared work has left, up to `kMostWork`. A run takes no
// more than it has gained: `kFirstWork` at its begin and `kWorkOfToken` with each token, so that none costs that much
// in every step.
constexpr int64_t kTokensPart = 10;  // of a mask's own part: taking in a token costs less
constexpr int64_t kMostWork = 1'000'000;
constexpr int64_t kFirstWork = 4'000'000;
constexpr int64_t kWorkOfToken = 400'000;
constexpr int64_t kCompileWork = 60'000'000;
// What a token adds to a run's memory goes with its work.
constexpr int64_t kFirstKept = 5'000'000;
constexpr int64_t kKeptOfToken = 2'000;

constexpr const char* kLimitOfCall = "1000000 steps for one token";
constexpr const char* kLimitOnAverage = "400000 steps for each token on average";
constexpr const char* kLimitOfCompilation = "60000000 steps to compile";

/// What this thread may still spend on the call that is under way.
struct GrammarWork {
  int64_t left = 0;
  int64_t more = 0;  // that may be taken from `shared`
  SharedWork* shared = nullptr;
  const std::atomic<bool>* stop = nullptr;
  int64_t granted = 0;
  int64_t taken = 0;  // from `shared` in this step, with earlier calls of the same run
  const char* limit = "";
};
constinit thread_local GrammarWork grammar_work;

struct WorkSpent {};
struct WorkStopped {};

/// Takes more for a call that has spent what it was given; false where no more is to be had.
bool grant_more(GrammarWork& work) {
  constexpr int64_t kPart = 1 << 14;
  const int64_t wanted = std::min(work.more, std::max(kPart, -work.left));
  const int64_t taken = work.shared == nullptr ? wanted : work.shared->take(wanted);
  work.left += taken;
  work.more -= taken;
  work.granted += taken;
  work.taken += taken;
  return work.left >= 0;
}

Error too_much_work(const GrammarWork& work) {
  constexpr const char* kWhat = "the grammar is too ambiguous or too large";
  if (work.more == 0) return invalid_argument("{}: it takes more than {}; simplify it", kWhat, work.limit);
  if (2 * work.taken > work.shared->units()) {
    return invalid_argument("{}: it takes most of the work that a step has for all grammars; simplify it", kWhat);
  }
  return make_error(ErrorCode::kOverloaded,
                    "the grammars of the requests that run now take too much work together; simplify the grammar, or "
                    "try again later");
}

template <class Call>
auto guarded(ErrorCode code, Call&& call) -> Result<decltype(call())> {
  try {
    return call();
  } catch (const WorkSpent&) {
    return too_much_work(grammar_work);
  } catch (const WorkStopped&) {
    return make_error(ErrorCode::kUnavailable,
                      "the compilation was stopped: the server is shutting down, or nobody waits for it");
  } catch (const std::exception& error) {
    std::string message = error.what();
    while (!message.empty() && message.back() == '\n') message.pop_back();
    return make_error(code, "{}", message);
  } catch (...) {
    return make_error(code, "XGrammar failed without a message");
  }
}

/// The library takes a third of them, for the masks of rules, which grammars share: a bounded string compiles once, not
/// in each schema.
constexpr int64_t kCacheBytes = 48 << 20;

/// The bytes under which the library knows a marker token: no UTF-8 text holds 0xFF, so no grammar's text matches it
/// and only its id does.
std::string marker_bytes(int32_t id) {
  return "\xFF" + std::to_string(id);
}

class XGrammarRun final : public AutomatonRun {
 public:
  explicit XGrammarRun(xgrammar::GrammarMatcher matcher) : matcher_(std::move(matcher)) {}

  Result<bool> accept(int32_t token, SharedWork* shared) override {
    const int64_t before = gained_;
    const int64_t own = (shared == nullptr ? SharedWork::kMostOwn : shared->own()) / kTokensPart;
    Result<bool> taken = bounded(shared, own, [&] { return matcher_.AcceptToken(token); });
    if (!taken.ok() || !*taken) return taken;
    const Gain gain = {std::min(kWorkOfToken, kFirstWork - gained_), kKeptOfToken - (before - gained_)};
    gained_ += gain.work;
    kept_ += gain.kept;
    gains_.push_back(gain);
    if (kept_ < 0) {
      broken_ = true;
      return invalid_argument(
          "the grammar is too ambiguous: an answer of this length has too many readings; simplify it");
    }
    return taken;
  }

  Status fill_mask(std::span<uint32_t> bits, SharedWork* shared) override {
    int64_t shape[1] = {static_cast<int64_t>(bits.size())};
    DLTensor tensor{};
    tensor.data = bits.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = shape;
    taken_ = 0;  // a mask begins a step
    const int64_t own = shared == nullptr ? SharedWork::kMostOwn : shared->own();
    TRY_STATUS(bounded(shared, own, [&] { return matcher_.FillNextTokenBitmask(&tensor); }));
    return {};
  }

  bool is_complete() const override { return matcher_.IsCompleted(); }

  /// The memory is free again; the work was done, and what the tokens gained for it goes with them.
  Status rollback(int tokens) override {
    TRY_STATUS(bounded(nullptr, SharedWork::kMostOwn, [&] {
      matcher_.Rollback(tokens);
      return true;
    }));
    for (; tokens > 0; --tokens) {
      gained_ -= gains_.back().work;
      kept_ -= gains_.back().kept;
      gains_.pop_back();
    }
    return {};
  }

 private:
  /// What a token added.
  struct Gain {
    int64_t work;
    int64_t kept;
  };

  /// A run of which a call threw stands in the middle of something: it is not asked again.
  template <class Call>
  auto bounded(SharedWork* shared, int64_t own, Call&& call) -> Result<decltype(call())> {
    if (broken_) return make_error(ErrorCode::kInternal, "a grammar that failed was asked again");
    const int64_t most = std::clamp<int64_t>(gained_, 0, kMostWork);
    own = std::min(own, most);
    grammar_work = {own, most - own, shared, nullptr, own, taken_, most < kMostWork ? kLimitOnAverage : kLimitOfCall};
    auto result = guarded(ErrorCode::kInternal, std::forward<Call>(call));
    gained_ -= grammar_work.granted - std::max<int64_t>(0, grammar_work.left);
    taken_ = grammar_work.taken;
    broken_ = !result.ok();
    return result;
  }

  xgrammar::GrammarMatcher matcher_;
  int64_t gained_ = kFirstWork;
  int64_t kept_ = kFirstKept;
  std::vector<Gain> gains_;  // of the tokens that were accepted
  int64_t taken_ = 0;        // of the step's shared work
  bool broken_ = false;
};

class XGrammarAutomaton final : public Automaton {
 public:
  explicit XGrammarAutomaton(xgrammar::CompiledGrammar grammar)
      : grammar_(std::move(grammar)), bytes_(grammar_.MemorySizeBytes()) {}

  Result<std::unique_ptr<AutomatonRun>> start() const override {
    grammar_work = {kMostWork, 0, nullptr, nullptr, kMostWork, 0, kLimitOfCall};
    return guarded(ErrorCode::kInternal, [&]() -> std::unique_ptr<AutomatonRun> {
      return std::make_unique<XGrammarRun>(xgrammar::GrammarMatcher(grammar_, std::nullopt, true));
    });
  }
  size_t bytes() const override { return bytes_; }

 private:
  xgrammar::CompiledGrammar grammar_;
  size_t bytes_;
};

class XGrammarCompiler final : public AutomatonCompiler {
 public:
  explicit XGrammarCompiler(xgrammar::TokenizerInfo tokens)
      : tokens_(std::move(tokens)), compiler_(tokens_, /*max_threads=*/1, /*cache_enabled=*/true, kCacheBytes) {}

  Result<std::shared_ptr<const Automaton>> compile(const std::string& gbnf,
                                                   const std::atomic<bool>& stop) const override {
    grammar_work = {kCompileWork, 0, nullptr, &stop, kCompileWork, 0, kLimitOfCompilation};
    return guarded(ErrorCode::kInvalidArgument, [&]() -> std::shared_ptr<const Automaton> {
      xgrammar::GrammarCompiler compiler = compiler_;  // a handle; its calls are not const
      return std::make_shared<XGrammarAutomaton>(compiler.CompileGrammar(xgrammar::Grammar::FromEBNF(gbnf, "v_root")));
    });
  }

 private:
  xgrammar::TokenizerInfo tokens_;
  xgrammar::GrammarCompiler compiler_;
};

}  // namespace

/// The edited sources of the library call this (cmake/XGrammarEdits.cmake).
void spend_grammar_work(size_t units) {
  if (grammar_work.stop != nullptr && grammar_work.stop->load(std::memory_order_relaxed)) throw WorkStopped();
  grammar_work.left -= static_cast<int64_t>(units);
  if (grammar_work.left < 0 && !grant_more(grammar_work)) throw WorkSpent();
}

bool AutomatonCompiler::is_built() {
  return true;
}

Result<std::shared_ptr<const AutomatonCompiler>> AutomatonCompiler::make(const GrammarVocabularyParts& parts) {
  grammar_work = {kCompileWork, 0, nullptr, nullptr, kCompileWork, 0, kLimitOfCompilation};
  return guarded(ErrorCode::kInternal, [&]() -> std::shared_ptr<const AutomatonCompiler> {
    std::vector<std::string> tokens = parts.token_bytes;
    for (int32_t id : parts.marker_ids) tokens[static_cast<size_t>(id)] = marker_bytes(id);
    for (int32_t id : parts.end_ids) tokens[static_cast<size_t>(id)] = marker_bytes(id);
    xgrammar::TokenizerInfo info(tokens, xgrammar::VocabType::RAW, static_cast<int>(parts.logits),
                                 std::vector<int32_t>{});
    return std::make_shared<XGrammarCompiler>(std::move(info));
  });
}

}  // namespace vernier
