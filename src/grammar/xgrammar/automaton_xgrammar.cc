#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <exception>
#include <optional>
#include <stdexcept>
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

template <class Call>
auto guarded(ErrorCode code, Call&& call) -> Result<decltype(call())> {
  try {
    return call();
  } catch (const std::exception& error) {
    std::string message = error.what();
    while (!message.empty() && message.back() == '\n') message.pop_back();
    return make_error(code, "{}", message);
  } catch (...) {
    return make_error(code, "XGrammar failed without a message");
  }
}

/// A third of them for the masks of rules, which grammars share: a bounded string compiles once, not in each schema.
constexpr int64_t kCacheBytes = 48 << 20;

/// The bytes under which the library knows a marker token: no UTF-8 text holds 0xFF, so no grammar's text matches it
/// and only its id does.
std::string marker_bytes(int32_t id) {
  return "\xFF" + std::to_string(id);
}

class XGrammarRun final : public AutomatonRun {
 public:
  explicit XGrammarRun(xgrammar::GrammarMatcher matcher) : matcher_(std::move(matcher)) {}

  bool accept(int32_t token) override {
    Result<bool> taken = guarded(ErrorCode::kInternal, [&] { return matcher_.AcceptToken(token); });
    if (!taken.ok()) log_error("xgrammar: {}", taken.error().message);
    return taken.ok() && *taken;
  }

  Status fill_mask(std::span<uint32_t> bits) override {
    int64_t shape[1] = {static_cast<int64_t>(bits.size())};
    DLTensor tensor{};
    tensor.data = bits.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = shape;
    TRY_STATUS(guarded(ErrorCode::kInternal, [&] { return matcher_.FillNextTokenBitmask(&tensor); }));
    return {};
  }

  bool is_complete() const override { return matcher_.IsCompleted(); }

  void rollback(int tokens) override {
    Result<bool> done = guarded(ErrorCode::kInternal, [&] {
      matcher_.Rollback(tokens);
      return true;
    });
    CHECK(done.ok(), "xgrammar refuses to roll back {} tokens: {}", tokens, done.error().message);
  }

 private:
  xgrammar::GrammarMatcher matcher_;
};

class XGrammarAutomaton final : public Automaton {
 public:
  explicit XGrammarAutomaton(xgrammar::CompiledGrammar grammar)
      : grammar_(std::move(grammar)), bytes_(grammar_.MemorySizeBytes()) {}

  Result<std::unique_ptr<AutomatonRun>> start() const override {
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

  Result<std::shared_ptr<const Automaton>> compile(const std::string& gbnf) const override {
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

bool AutomatonCompiler::is_built() {
  return true;
}

Result<std::shared_ptr<const AutomatonCompiler>> AutomatonCompiler::make(const GrammarVocabularyParts& parts) {
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
