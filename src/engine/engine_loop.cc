#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "engine/grammar_error.h"

namespace vernier {

EngineLoop::EngineLoop(std::unique_ptr<StepRunner> runner, std::unique_ptr<SchedState> state,
                       const EngineOptions& options)
    : options_(options), runner_(std::move(runner)), state_(std::move(state)) {
  for (const SchedClass& cache_class : state_->config().classes) class_windows_.push_back(cache_class.window);
  table_arrays_.resize(class_windows_.size());
  publish_stats();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    std::lock_guard lock(inbox_mutex_);
    inbox_.stop = true;
  }
  inbox_filled_.notify_one();
  thread_.join();
}

Result<RequestId> EngineLoop::submit(Request request, std::shared_ptr<RequestSink> sink) {
  if (draining_.load() && !request.keeps_place) {
    return make_error(ErrorCode::kUnavailable, "the server is shutting down and takes no new requests");
  }
  const int32_t most = options_.max_sequences + options_.max_queue;
  if (in_system_.fetch_add(1) >= most && !request.keeps_place) {
    in_system_.fetch_sub(1);
    std::lock_guard lock(stats_mutex_);
    ++published_.requests_refused;
    return make_error(ErrorCode::kOverloaded,
                      "{} requests run and {} wait already, which is the limit; try again later",
                      options_.max_sequences, options_.max_queue);
  }
  const RequestId id = next_id_.fetch_add(1);
  {
    std::lock_guard lock(inbox_mutex_);
    inbox_.submissions.push_back({id, std::move(request), std::move(sink), monotonic_ns()});
  }
  inbox_filled_.notify_one();
  return id;
}

void EngineLoop::cancel(RequestId id) {
  {
    std::lock_guard lock(inbox_mutex_);
    inbox_.cancels.push_back(id);
  }
  inbox_filled_.notify_one();
}

void EngineLoop::flush_cache() {
  std::unique_lock lock(inbox_mutex_);
  const uint64_t before = flushes_;
  inbox_.flush = true;
  inbox_filled_.notify_one();
  flushed_.wait(lock, [&] { return flushes_ != before; });
}

EngineStats EngineLoop::stats() const {
  std::lock_guard lock(stats_mutex_);
  EngineStats stats = published_;
  // What was submitted and not yet taken in waits too.
  stats.waiting = std::max(0, in_system_.load() - stats.running);
  stats.kv_saturated = runner_->saturated();
  if (const int64_t began_ns = step_began_ns_.load()) stats.step_ns = monotonic_ns() - began_ns;
  return stats;
}

void EngineLoop::run() {
  while (take_inbox()) {
    if (!step()) {
      publish_stats();
      delivery_.flush();
      std::unique_lock lock(inbox_mutex_);
      auto ready = [this] { return !inbox_.empty(); };
      // With requests at hand and nothing to run, only a deadline or a cancel can help: look again in a while.
      if (sequences_.empty()) {
        inbox_filled_.wait(lock, ready);
      } else {
        inbox_filled_.wait_for(lock, std::chrono::milliseconds(10), ready);
      }
    }
  }
  const int64_t now_ns = monotonic_ns();
  while (!sequences_.empty()) end(*sequences_.begin()->second, FinishReason::kCancelled, now_ns);
  publish_stats();
  delivery_.flush();
}

bool EngineLoop::take_inbox() {
  Inbox taken;
  {
    std::lock_guard lock(inbox_mutex_);
    if (inbox_.empty()) return true;
    std::swap(taken, inbox_);
  }
  for (Submission& submission : taken.submissions) add(std::move(submission));
  for (RequestId id : taken.cancels) {
    auto found = ids_.find(id);
    if (found != ids_.end()) end(sequence(found->second), FinishReason::kCancelled, monotonic_ns());
  }
  if (taken.flush) {
    state_->forget_prefixes();
    std::lock_guard lock(inbox_mutex_);
    ++flushes_;
    flushed_.notify_all();
  }
  return !taken.stop;
}

void EngineLoop::add(Submission submission) {
  ++counts_.requests_submitted;
  auto added = std::make_unique<Sequence>(submission.id, std::move(submission.request), std::move(submission.sink),
                                          submission.submitted_ns);
  const Request& request = added->request;
  NewSequence planned;
  planned.prompt.reserve(request.prompt.size());
  for (int32_t token : request.prompt) planned.prompt.push_back(PrefixUnit::token(token));
  const bool generates = request.kind == RequestKind::kGenerate;
  // An answer that the context cuts ends with kContext; a prompt alone, of max_tokens 0, plans one token and draws
  // none.
  const int32_t room = state_->most_tokens() - static_cast<int32_t>(request.prompt.size());
  planned.max_new_tokens = generates ? std::clamp(request.max_tokens, 1, std::max(1, room)) : 1;
  planned.priority = request.priority;
  planned.fair_key = request.fair_share_key;
  planned.arrival_ns = submission.submitted_ns;
  planned.deadline_ns = request.deadline_ns;
  if (request.deadline_ns) next_deadline_ns_ = std::min(next_deadline_ns_, *request.deadline_ns);
  planned.root.tenant = request.cache_salt;
  // A root of its own: what every prompt token is computed for is not reused.
  const bool whole_prompt = request.prompt_logprobs >= 0 || request.kind == RequestKind::kEmbedMean ||
                            request.kind == RequestKind::kEmbedFirst;
  if (!request.reuse_prefix || whole_prompt) planned.root.adapter = ~submission.id;
  Result<SequenceId> id = state_->add(std::move(planned));
  if (!id.ok()) {
    ++counts_.requests_failed;
    in_system_.fetch_sub(1);
    RequestUpdate update;
    update.failed = id.error();
    delivery_.put(added->sink, std::move(update));
    return;
  }
  added->sequence = *id;
  if (request.grammar != nullptr) {
    Result<GrammarMatcher> matcher = GrammarMatcher::make(request.grammar);
    if (!matcher.ok()) return fail(*added, of_grammar(matcher.error()), monotonic_ns());
    added->matcher.emplace(std::move(*matcher));
  }
  ids_.emplace(added->id, *id);
  sequences_.emplace(static_cast<uint64_t>(*id), std::move(added));
}

bool EngineLoop::step() {
  const int64_t begin_ns = monotonic_ns();
  if (begin_ns >= next_deadline_ns_) expire_admitted(begin_ns);
  plan(*state_, begin_ns, plan_);
  if (!plan_.expired.empty()) {
    expire_waiting(begin_ns);
    plan(*state_, begin_ns, plan_);
  }
  if (plan_.empty()) return false;
  step_began_ns_.store(begin_ns);
  mark_admissions(begin_ns);
  launch(*state_, plan_);
  for (const Admission& admission : plan_.admissions) {
    Sequence& admitted = sequence(admission.sequence);
    if (admitted.preemptions == 0) {
      admitted.cached_tokens = admission.hit.tokens;
      counts_.prompt_tokens += admitted.prompt_tokens();
      counts_.cached_prompt_tokens += admission.hit.tokens;
    }
  }
  fill_step();
  const int64_t launched_ns = monotonic_ns();
  Result<StepOutput> output = forward();
  const int64_t now_ns = monotonic_ns();
  ++counts_.steps;
  counts_.step_rows += plan_.total_rows;
  counts_.forward_ns += now_ns - launched_ns;
  if (output.ok()) {
    commit_step(std::move(*output), launched_ns, now_ns);
    adapt_prefill(now_ns - launched_ns);
  } else {
    fail_step(output.error(), now_ns);
  }
  counts_.planning_ns += launched_ns - begin_ns + (monotonic_ns() - now_ns);
  step_began_ns_.store(0);
  publish_stats();
  delivery_.flush();
  return true;
}

Result<StepOutput> EngineLoop::forward() {
  StepInput input{
      {tokens_, positions_, rows_, tables_, sampled_rows_, histories_}, specs_, requests_, generated_, hidden_wanted_};
  if (!mask_jobs_.empty()) {
    masks_.start(mask_jobs_);
    input.masks = &masks_;
  }
  Result<StepOutput> output = runner_->run(input);
  // A step that failed before its masks were needed: nobody else may touch the matchers until they are filled.
  masks_.wait();
  return output;
}

void EngineLoop::expire_waiting(int64_t now_ns) {
  const std::vector<SequenceId> expired = plan_.expired;
  for (SequenceId id : expired) {
    fail(sequence(id), make_error(ErrorCode::kTimeout, "the request's time ran out while it waited for its turn"),
         now_ns);
  }
}

void EngineLoop::expire_admitted(int64_t now_ns) {
  next_deadline_ns_ = std::numeric_limits<int64_t>::max();
  std::vector<Sequence*> expired;
  for (const auto& [id, member] : sequences_) {
    if (!member->request.deadline_ns) continue;
    if (*member->request.deadline_ns > now_ns) {
      next_deadline_ns_ = std::min(next_deadline_ns_, *member->request.deadline_ns);
    } else if (member->spends != Sequence::Spends::kQueue) {
      expired.push_back(member.get());
    }
  }
  for (Sequence* member : expired) {
    fail(*member, make_error(ErrorCode::kTimeout, "the request's time ran out after {} tokens", member->generated),
         now_ns);
  }
}

void EngineLoop::mark_admissions(int64_t now_ns) {
  for (SequenceId id : plan_.preemptions) {
    Sequence& preempted = sequence(id);
    preempted.mark(now_ns);
    preempted.spends = Sequence::Spends::kPreempted;
    ++preempted.preemptions;
    ++counts_.preemptions;
  }
  for (const Admission& admission : plan_.admissions) {
    Sequence& admitted = sequence(admission.sequence);
    admitted.mark(now_ns);
    admitted.spends = Sequence::Spends::kWaiting;
  }
}

void EngineLoop::commit_step(StepOutput output, int64_t launched_ns, int64_t now_ns) {
  sampled_.clear();
  std::vector<std::pair<Sequence*, RequestUpdate>> updates;
  updates.reserve(plan_.rows.size());
  size_t next = 0;
  const int64_t padding_ns =
      (now_ns - launched_ns) * output.padded_rows / std::max(1, plan_.total_rows + output.padded_rows);
  for (const PlannedRows& rows : plan_.rows) {
    Sequence& member = sequence(rows.sequence);
    member.mark_step(launched_ns, now_ns, padding_ns, rows.first_position + rows.rows);
    const bool first = member.generated == 0;
    RequestUpdate update = accept(rows, member, output, next);
    if (first && member.generated > 0) member.ledger.first_token_ns = now_ns - member.submitted_ns;
    if (rows.sample) sampled_.push_back(update.tokens.empty() ? 0 : update.tokens.back().token);
    if (!update.tokens.empty() || !update.prompt.empty() || update.last())
      updates.emplace_back(&member, std::move(update));
  }
  commit(*state_, plan_, sampled_);
  for (auto& [member, update] : updates) {
    if (update.last()) {
      finish_with(*member, std::move(update), now_ns);
    } else {
      delivery_.put(member->sink, std::move(update));
    }
  }
}

void EngineLoop::fail_step(const Error& error, int64_t now_ns) {
  log_error("a step of {} rows failed: {}", plan_.total_rows, error.to_string());
  ++counts_.failed_steps;
  undo(*state_, plan_);
  for (const PlannedRows& rows : plan_.rows) fail(sequence(rows.sequence), error, now_ns);
}

RequestUpdate EngineLoop::accept(const PlannedRows& rows, Sequence& member, StepOutput& output, size_t& next) {
  RequestUpdate update;
  for (int32_t scored = prompt_rows_to_score(rows, member); scored > 0; --scored) {
    Result<SampledToken>& score = output.sampled[next++];
    if (!score.ok()) {
      update.failed = score.error();
    } else {
      member.prompt_scores.push_back(std::move(*score));
    }
    ++member.prompt_scored;
  }
  if (member.request.kind != RequestKind::kGenerate) {
    accept_hidden(rows, member, output);
    if (rows.sample) {
      update.embedding = std::move(member.hidden);
      update.finished.emplace();
    }
    return update;
  }
  if (!rows.sample) return update;
  update.prompt = std::exchange(member.prompt_scores, {});
  if (member.request.max_tokens == 0) {
    update.finished.emplace().reason = FinishReason::kLength;
    return update;
  }
  Result<SampledToken>& drawn = output.sampled[next++];
  if (!member.mask_filled.ok()) {
    update.failed = of_grammar(member.mask_filled.error());
  } else if (!drawn.ok()) {
    update.failed = drawn.error();
  } else if (!update.failed) {
    accept_token(member, std::move(*drawn), update);
  }
  return update;
}

void EngineLoop::accept_token(Sequence& member, SampledToken token, RequestUpdate& update) {
  const Request& request = member.request;
  if (member.matcher && !member.matcher->accept(token.token, &masks_.shared_work())) {
    update.failed =
        member.matcher->failure().ok()
            ? make_error(ErrorCode::kInternal, "token {} was drawn where the grammar forbids it", token.token)
            : of_grammar(member.matcher->failure().error());
    return;
  }
  const bool complete = member.matcher && member.matcher->terminated();
  if (complete || std::ranges::find(request.end_tokens, token.token) != request.end_tokens.end()) {
    update.finished.emplace().reason = FinishReason::kStop;
    update.finished->end_token = token.token;
    return;
  }
  ++member.generated;
  ++counts_.generated_tokens;
  member.history.append(token.token);
  update.tokens.push_back(std::move(token));
  if (member.generated >= request.max_tokens) {
    update.finished.emplace().reason = FinishReason::kLength;
  } else if (member.prompt_tokens() + member.generated >= state_->most_tokens()) {
    update.finished.emplace().reason = FinishReason::kContext;
  }
}

void EngineLoop::finish_with(Sequence& member, RequestUpdate update, int64_t now_ns) {
  member.mark(now_ns);
  update.ledger = member.ledger;
  update.ledger.end_ns = now_ns;
  if (update.finished) {
    Finished& finished = *update.finished;
    finished.prompt_tokens = member.prompt_tokens();
    finished.cached_tokens = member.cached_tokens;
    finished.preemptions = member.preemptions;
    ++(finished.reason == FinishReason::kCancelled ? counts_.requests_cancelled : counts_.requests_finished);
  } else {
    ++counts_.requests_failed;
  }
  delivery_.put(member.sink, std::move(update));
  state_->finish(member.sequence);
  ids_.erase(member.id);
  in_system_.fetch_sub(1);
  sequences_.erase(static_cast<uint64_t>(member.sequence));
}

void EngineLoop::end(Sequence& member, FinishReason reason, int64_t now_ns) {
  RequestUpdate update;
  update.finished.emplace().reason = reason;
  finish_with(member, std::move(update), now_ns);
}

void EngineLoop::fail(Sequence& member, Error error, int64_t now_ns) {
  RequestUpdate update;
  update.failed = std::move(error);
  finish_with(member, std::move(update), now_ns);
}

void EngineLoop::adapt_prefill(int64_t step_ns) {
  if (plan_.total_rows < 2 * options_.block_tokens) return;  // too few to tell what a row costs
  constexpr double kNewest = 0.25, kNewcomerGaps = 2;
  const double row_ns = static_cast<double>(step_ns) / plan_.total_rows;
  prefill_row_ns_ = prefill_row_ns_ == 0 ? row_ns : (1 - kNewest) * prefill_row_ns_ + kNewest * row_ns;
  const auto rows_in = [&](double gap_ns, int32_t least) {
    const auto fitting = static_cast<int32_t>(std::min(gap_ns / prefill_row_ns_, 1e9));
    return std::clamp(fitting / options_.block_tokens * options_.block_tokens, least, options_.max_step_rows);
  };
  const auto gap_ns = static_cast<double>(options_.decode_gap_ns);
  const int32_t decoding = rows_in(gap_ns, options_.block_tokens);
  // Nobody reads meanwhile, but a short prompt that arrives waits for the step.
  const int32_t alone = rows_in(kNewcomerGaps * gap_ns, std::min(2 * options_.block_tokens, options_.max_step_rows));
  const SchedConfig& now = state_->config();
  if (decoding != now.prefill_rows_when_decoding || alone != now.prefill_rows_alone) {
    state_->set_prefill_rows(decoding, alone);
  }
}

void EngineLoop::publish_stats() {
  counts_.running = static_cast<int32_t>(state_->running().size());
  counts_.cache.resize(class_windows_.size());
  for (size_t c = 0; c < class_windows_.size(); ++c) {
    const BlockPool& pool = state_->pool(static_cast<int32_t>(c));
    counts_.cache[c] = {class_windows_[c], pool.blocks(), pool.blocks() - pool.available_blocks(),
                        pool.cached_blocks()};
  }
  std::lock_guard lock(stats_mutex_);
  counts_.requests_refused = published_.requests_refused;
  published_ = counts_;
}

}  // namespace vernier
