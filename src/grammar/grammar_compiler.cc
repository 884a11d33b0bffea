#include "grammar/grammar_compiler.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/check.h"
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

/// Where threads have priorities of their own, those that compile get the time that the engine leaves.
void yield_to_engine() {
#ifdef __linux__
  constexpr int kNice = 4;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));
#endif
}

Error stopped() {
  return make_error(ErrorCode::kUnavailable, "the server is shutting down and compiles no grammars");
}

/// The longest token of at most `most_bytes` that may come next, else any; -1 where none may.
int32_t longest_of(std::span<const uint32_t> mask, const GrammarVocabulary& vocabulary, size_t most_bytes) {
  int32_t longest = -1;
  size_t bytes = 0;
  for (int32_t id = 0; id < vocabulary.logits(); ++id) {
    if ((mask[static_cast<size_t>(id / 32)] >> (id % 32) & 1U) == 0) continue;
    const size_t of_this = vocabulary.token_bytes(id).size();
    if (longest >= 0 && (of_this <= bytes || of_this > most_bytes)) continue;
    longest = id;
    bytes = of_this <= most_bytes ? of_this : 0;
  }
  return longest;
}

/// Takes the first steps of an answer, so that a grammar that allows none, or is too ambiguous for them, is refused
/// before a request runs with it.
Status try_first_tokens(const std::shared_ptr<const CompiledGrammar>& grammar, const std::atomic<bool>& stop) {
  constexpr int kTokens = 24;
  TRY_BIND(GrammarMatcher matcher, GrammarMatcher::make(grammar));
  std::vector<uint32_t> mask(grammar->vocabulary().mask_words());
  for (int i = 0; i < kTokens && !matcher.terminated() && !stop; ++i) {
    TRY_STATUS(matcher.fill_mask(mask));
    const int32_t token = longest_of(mask, grammar->vocabulary(), i % 2 == 0 ? 64 : 3);
    if (token < 0 && i == 0) return invalid_argument("the grammar allows no text: no token may begin an answer");
    if (token < 0 || !matcher.accept(token)) return matcher.failure();
  }
  return stop ? Status(stopped()) : Status();
}

CompileResult compile_now(const GrammarSpec& spec, const std::shared_ptr<const GrammarVocabulary>& vocabulary,
                          const GrammarLimits& limits, const std::atomic<bool>& stop) {
  TRY_BIND(std::shared_ptr<const AutomatonCompiler> compiler, vocabulary->compiler());
  TRY_BIND(GrammarText text, write_grammar(spec, *vocabulary, limits));
  TRY_BIND(std::shared_ptr<const Automaton> automaton, compiler->compile(text.gbnf, stop));
  auto grammar = std::make_shared<const CompiledGrammar>(vocabulary, std::move(automaton), text.named);
  TRY_STATUS(try_first_tokens(grammar, stop));
  return std::shared_ptr<const CompiledGrammar>(std::move(grammar));
}

}  // namespace

struct GrammarCompiler::Job {
  std::optional<CompileResult> result;
  int waiters = 0;
  std::atomic<bool> stop = false;
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
  bool stop = false;

  void keep(const std::string& key, Job& job, size_t limit);
};

void GrammarCompiler::State::keep(const std::string& key, Job& job, size_t limit) {
  job.bytes = job.result->value()->bytes() + 2 * key.size();
  uses.push_front(key);
  job.use = uses.begin();
  bytes += job.bytes;
  while (bytes > limit) {
    auto oldest = jobs.find(uses.back());
    CHECK(oldest != jobs.end(), "a grammar that is kept has no entry");
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
  stop();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

void GrammarCompiler::stop() {
  std::lock_guard lock(state_->mutex);
  state_->stop = true;
  for (auto& [key, job] : state_->jobs) job->stop = true;
  state_->changed.notify_all();
}

size_t GrammarCompiler::cached_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->bytes;
}

bool GrammarCompiler::wait_for(std::unique_lock<std::mutex>& lock, Job& job, const std::function<bool()>& wanted) {
  constexpr auto kAskEvery = std::chrono::milliseconds(100);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limits_.compile_ms);
  const auto over = [&] { return job.result.has_value() || state_->stop; };
  while (std::chrono::steady_clock::now() < end) {
    const auto next = wanted ? std::min(end, std::chrono::steady_clock::now() + kAskEvery) : end;
    if (state_->changed.wait_until(lock, next, over)) return true;
    if (wanted && !wanted()) return false;
  }
  return true;
}

CompileResult GrammarCompiler::compile(const GrammarSpec& spec, const std::function<bool()>& wanted) {
  std::string key = cache_key(spec);
  std::unique_lock lock(state_->mutex);
  std::shared_ptr<Job> job;
  const auto found = state_->jobs.find(key);
  if (found != state_->jobs.end() && (found->second->result || !found->second->stop)) {
    job = found->second;
    if (job->result) {
      state_->uses.splice(state_->uses.begin(), state_->uses, job->use);
      return *job->result;
    }
  } else if (state_->stop) {
    return stopped();
  } else if (state_->threads >= kMostJobs) {
    return make_error(ErrorCode::kOverloaded, "{} grammars wait to be compiled already; try again later", kMostJobs);
  } else {
    job = std::make_shared<Job>();
    state_->jobs.insert_or_assign(key, job);
    ++state_->threads;
    std::thread(&GrammarCompiler::run_job, this, spec, std::move(key), job).detach();
  }
  ++job->waiters;
  const bool stayed = wait_for(lock, *job, wanted);
  --job->waiters;
  if (job->result) return *job->result;
  if (state_->stop) return stopped();
  if (job->waiters == 0) job->stop = true;
  state_->changed.notify_all();
  if (!stayed) return make_error(ErrorCode::kTimeout, "who asked for the grammar waits for it no longer");
  return make_error(ErrorCode::kTimeout,
                    "the grammar was not compiled within {} ms, with those before it; simplify it, or try again later",
                    limits_.compile_ms);
}

void GrammarCompiler::run_job(const GrammarSpec& spec, const std::string& key, const std::shared_ptr<Job>& job) {
  yield_to_engine();
  State& state = *state_;
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.compiling < kMostThreads || job->stop; });
    ++state.compiling;
  }
  CompileResult result = job->stop ? stopped() : compile_now(spec, vocabulary_, limits_, job->stop);
  std::lock_guard lock(state.mutex);
  --state.compiling;
  job->result = std::move(result);
  const auto kept = state.jobs.find(key);
  const bool current = kept != state.jobs.end() && kept->second == job;  // a stopped one may have been begun anew
  if (current && job->result->ok()) {
    state.keep(key, *job, limits_.cache_bytes);
  } else if (current) {
    state.jobs.erase(kept);
  }
  --state.threads;
  state.changed.notify_all();  // under the lock: the destructor may wait for nothing else
}

}  // namespace vernier
