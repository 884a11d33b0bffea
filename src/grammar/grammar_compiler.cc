#include "grammar/grammar_compiler.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "grammar/grammar_text.h"

namespace vernier {
namespace {

using CompileResult = Result<std::shared_ptr<const CompiledGrammar>>;

constexpr int kMostThreads = 2;  // that compile at once
constexpr int kMostJobs = 64;    // that compile or wait for their turn

/// Lengths stand before the parts, so that no two specs have one key.
std::string cache_key(const GrammarSpec& spec) {
  std::string key;
  auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ":" + part; };
  auto add_number = [&](size_t number) { add(std::to_string(number)); };
  add_number(static_cast<size_t>(spec.kind));
  add_number(static_cast<size_t>(spec.dialect));
  add_number(static_cast<size_t>(spec.reasoning));
  add(spec.text);
  add_number(spec.choices.size());
  for (const std::string& choice : spec.choices) add(choice);
  add_number(static_cast<size_t>(spec.tools.choice));
  add_number(spec.tools.parallel ? 1 : 0);
  add(spec.tools.named);
  for (const GrammarFunction& function : spec.tools.functions) {
    add(function.name);
    add(function.parameters);
    add_number(function.strict ? 1 : 0);
  }
  return key;
}

CompileResult compile_now(const GrammarSpec& spec, const std::shared_ptr<const GrammarVocabulary>& vocabulary,
                          const GrammarLimits& limits) {
  TRY_BIND(std::shared_ptr<const AutomatonCompiler> compiler, vocabulary->compiler());
  TRY_BIND(GrammarText text, write_grammar(spec, *vocabulary, limits));
  TRY_BIND(std::shared_ptr<const Automaton> automaton, compiler->compile(text.gbnf));
  return std::shared_ptr<const CompiledGrammar>(
      std::make_shared<CompiledGrammar>(vocabulary, std::move(automaton), text.named));
}

}  // namespace

struct GrammarCompiler::Job {
  std::optional<CompileResult> result;
  size_t bytes = 0;
  std::list<std::string>::iterator use = {};  // once it is kept
};

struct GrammarCompiler::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<std::string, std::shared_ptr<Job>> jobs;  // running, or kept
  std::list<std::string> uses;                                 // keys of the kept, latest first
  size_t bytes = 0;
  int threads = 0;  // started and not ended
  int compiling = 0;

  void keep(const std::string& key, Job& job, size_t limit);
};

void GrammarCompiler::State::keep(const std::string& key, Job& job, size_t limit) {
  job.bytes = job.result->value()->bytes() + 2 * key.size();
  uses.push_front(key);
  job.use = uses.begin();
  bytes += job.bytes;
  while (bytes > limit) {
    auto oldest = jobs.find(uses.back());
    bytes -= oldest->second->bytes;
    jobs.erase(oldest);
    uses.pop_back();
  }
}

bool GrammarCompiler::is_built() {
  return AutomatonCompiler::is_built();
}

GrammarCompiler::GrammarCompiler(std::shared_ptr<const GrammarVocabulary> vocabulary, GrammarLimits limits)
    : vocabulary_(std::move(vocabulary)), limits_(limits), state_(std::make_unique<State>()) {}

GrammarCompiler::~GrammarCompiler() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

size_t GrammarCompiler::cached_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->bytes;
}

CompileResult GrammarCompiler::compile(const GrammarSpec& spec) {
  std::string key = cache_key(spec);
  std::unique_lock lock(state_->mutex);
  std::shared_ptr<Job> job;
  if (auto found = state_->jobs.find(key); found != state_->jobs.end()) {
    job = found->second;
    if (job->result) {
      state_->uses.splice(state_->uses.begin(), state_->uses, job->use);
      return *job->result;
    }
  } else if (state_->threads >= kMostJobs) {
    return make_error(ErrorCode::kUnavailable, "{} grammars wait to be compiled already; try again later", kMostJobs);
  } else {
    job = std::make_shared<Job>();
    state_->jobs.emplace(key, job);
    ++state_->threads;
    std::thread(&GrammarCompiler::run_job, this, spec, std::move(key), job).detach();
  }
  const auto patience = std::chrono::milliseconds(limits_.compile_ms);
  if (!state_->changed.wait_for(lock, patience, [&] { return job->result.has_value(); })) {
    return make_error(ErrorCode::kUnavailable, "the grammar was not compiled within {} ms; simplify it, or try again",
                      limits_.compile_ms);
  }
  return *job->result;
}

void GrammarCompiler::run_job(const GrammarSpec& spec, const std::string& key, const std::shared_ptr<Job>& job) {
  State& state = *state_;
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.compiling < kMostThreads; });
    ++state.compiling;
  }
  CompileResult result = compile_now(spec, vocabulary_, limits_);
  std::lock_guard lock(state.mutex);
  --state.compiling;
  job->result = std::move(result);
  if (job->result->ok()) {
    state.keep(key, *job, limits_.cache_bytes);
  } else {
    state.jobs.erase(key);
  }
  --state.threads;
  state.changed.notify_all();  // under the lock: the destructor may wait for nothing else
}

}  // namespace vernier
