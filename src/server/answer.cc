#include "server/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "engine/grammar_error.h"
#include "server/answer_json.h"
#include "server/unique_id.h"

namespace vernier {

struct Answer::Choice {
  std::optional<OutputReader> reader;
  bool begun = false;                // the stream has heard of it
  bool told_all = false;             // a stop string, or a call where one is allowed: later tokens do not count
  std::vector<SampledToken> untold;  // tokens whose text no step has let out
  int64_t last_token_ns = 0;
};

namespace {

/// As the log names them.
std::vector<TimePart> time_parts(const RequestLedger& ledger) {
  return {{"queue_ms", ledger.queue_ns},     {"prefill_ms", ledger.prefill_ns},
          {"waiting_ms", ledger.waiting_ns}, {"decode_ms", ledger.decode_ns},
          {"padding_ms", ledger.padding_ns}, {"preemption_ms", ledger.preemption_ns()}};
}

void keep_part(const OutputDelta& delta, std::vector<OutputDelta>& parts) {
  const bool joins = !parts.empty() && parts.back().kind == delta.kind && delta.kind != OutputDelta::Kind::kCallBegin;
  if (joins) {
    parts.back().text += delta.text;
  } else {
    parts.push_back(delta);
  }
}

}  // namespace

Answer::Answer(const ServedModel& model, ServerMetrics& metrics, AnswerOptions options,
               std::unique_ptr<ReplyWriter> writer, std::shared_ptr<ResponseStream> response)
    : model_(model),
      metrics_(metrics),
      options_(std::move(options)),
      writer_(std::move(writer)),
      events_(std::move(response)),
      feed_(*model.engine) {}

Answer::~Answer() = default;

void Answer::start(std::vector<Request> requests) {
  start_ns_ = monotonic_ns();
  {
    std::lock_guard lock(mutex_);
    choices_.resize(requests.size());
    results_.resize(requests.size());
    prompts_counted_.resize(requests.size() / options_.choices_of_prompt + 1);
    open_choices_ = requests.size();
    for (size_t i = 0; i < requests.size(); ++i) {
      Choice& choice = choices_[i];
      results_[i].prompt_tokens = static_cast<int32_t>(requests[i].prompt.size());
      auto reader = OutputReader::make(*model_.tokenizer, options_.reader);
      if (!reader.ok()) return fail(reader.error());
      choice.reader.emplace(std::move(reader).value());
      choice.last_token_ns = start_ns_;
    }
    if (options_.stream) events_.begin(options_.headers);
  }
  events_.response().on_gone([weak = weak_from_this()] {
    if (auto answer = weak.lock()) answer->client_gone();
  });
  std::lock_guard lock(mutex_);
  if (ended_) return;
  feed_.hold(std::move(requests));
  feed();
  if (!ended_) events_.response().owe_account();
}

void Answer::feed() {
  const Status fed =
      feed_.submit([this](size_t index) { return std::make_shared<ChoiceSink<Answer>>(shared_from_this(), index); });
  if (!fed.ok()) fail(fed.error());
}

void Answer::take(size_t index, RequestUpdate update) {
  std::lock_guard lock(mutex_);
  if (ended_) {
    if (update.last()) account_late(index, update.ledger);
    return;
  }
  if (!update.failed) count_prompt(index);
  if (!update.prompt.empty()) results_[index].prompt = std::move(update.prompt);
  take_tokens(index, update.tokens);
  if (update.failed) {
    events_.response().account(time_parts(whole_ledger(update.ledger)));
    return fail(*update.failed);
  }
  if (update.finished) end_choice(index, *update.finished, update.ledger);
  if (ended_ || !options_.stream) return;
  if (events_.flush() == WriteState::kClosed) feed_.cancel_all();
}

void Answer::count_prompt(size_t index) {
  const size_t prompt = index / options_.choices_of_prompt;
  if (prompts_counted_[prompt]) return;
  prompts_counted_[prompt] = true;
  metrics_.count_prompt(results_[index].prompt_tokens);
}

void Answer::account_late(size_t index, const RequestLedger& ledger) {
  results_[index].ledger = whole_ledger(ledger);
  feed_.ended(index);
  if (left_ && feed_.idle()) events_.response().account(time_parts(longest_ledger(results_)));
}

RequestLedger Answer::whole_ledger(RequestLedger ledger) const {
  const int64_t before_ns = std::max<int64_t>(
      0, ledger.end_ns - ledger.total_ns() - (options_.received_ns > 0 ? options_.received_ns : start_ns_));
  ledger.queue_ns += before_ns;
  if (ledger.first_token_ns > 0) ledger.first_token_ns += before_ns;
  ledger.client_ns = monotonic_ns() - ledger.end_ns;
  return ledger;
}

void Answer::take_tokens(size_t index, const std::vector<SampledToken>& tokens) {
  Choice& choice = choices_[index];
  ChoiceResult& result = results_[index];
  std::vector<OutputDelta> deltas;
  for (const SampledToken& token : tokens) {
    const int64_t now_ns = monotonic_ns();
    if (result.completion_tokens == 0 && first_token_ns_ == 0) {
      first_token_ns_ = now_ns;
      metrics_.observe_first_token(now_ns - start_ns_);
    } else if (!choice.told_all && result.completion_tokens > 0) {
      metrics_.observe_token_gap(now_ns - choice.last_token_ns);
    }
    choice.last_token_ns = now_ns;
    if (choice.told_all) continue;
    ++result.completion_tokens;
    metrics_.count_generated();
    result.tokens.push_back(token);
    choice.untold.push_back(token);
    choice.told_all = choice.reader->push(token.token, deltas);
    tell(index, deltas);
    if (choice.told_all) feed_.cancel(index);
  }
}

void Answer::tell(size_t index, std::vector<OutputDelta>& deltas) {
  Choice& choice = choices_[index];
  ChoiceResult& result = results_[index];
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kCallBegin) result.call_ids.push_back(unique_id("call_"));
    fold_answer(delta, result.answer);
    if (options_.keep_parts) keep_part(delta, result.parts);
    if (!options_.stream) continue;
    if (!choice.begun) writer_->begin_choice(events_, index, result);
    choice.begun = true;
    const std::string_view call_id =
        delta.call_index < result.call_ids.size() ? std::string_view(result.call_ids[delta.call_index]) : "";
    writer_->step(events_, {index, &delta, call_id, choice.untold});
    choice.untold.clear();
  }
  deltas.clear();
}

void Answer::end_choice(size_t index, const Finished& finished, const RequestLedger& ledger) {
  Choice& choice = choices_[index];
  ChoiceResult& result = results_[index];
  if (finished.reason == FinishReason::kCancelled && !choice.told_all) {
    ended_ = true;  // not by this answer: the engine goes down
    events_.response().account(time_parts(whole_ledger(ledger)));
    feed_.cancel_all();
    return writer_->fail(events_, ApiError::make(503, "the server is going down", "shutting_down"));
  }
  const bool limit = !choice.told_all && finished.reason != FinishReason::kStop;
  std::vector<OutputDelta> deltas;
  choice.reader->finish(limit ? OutputEnd::kLimit : OutputEnd::kStop, deltas);
  tell(index, deltas);

  result.found_stop = choice.reader->found_stop();
  if (!choice.told_all && finished.end_token) {
    result.stop_token = finished.end_token;
    ++result.completion_tokens;
    metrics_.count_generated();
  }
  const bool cut = limit && result.found_stop.empty();
  result.end = choice.reader->finishes_with_calls() ? AnswerEnd::kToolCalls
               : cut                                ? AnswerEnd::kLength
                                                    : AnswerEnd::kStop;
  result.prompt_tokens = finished.prompt_tokens;
  result.cached_tokens = finished.cached_tokens;
  result.reasoning_tokens = static_cast<int32_t>(choice.reader->reasoning_tokens());
  result.ledger = whole_ledger(ledger);
  feed_.ended(index);
  --open_choices_;
  if (options_.stream) {
    if (!choice.begun) writer_->begin_choice(events_, index, result);
    choice.begun = true;
    writer_->end_choice(events_, index, result, choice.untold);
    choice.untold.clear();
  }
  if (open_choices_ > 0) return feed();
  finish();
}

void Answer::finish() {
  ended_ = true;
  for (const ChoiceResult& result : results_) metrics_.count_finished(result);
  metrics_.count_answer(monotonic_ns() - start_ns_);
  events_.response().account(time_parts(longest_ledger(results_)));
  if (options_.stream) {
    writer_->end_stream(events_, results_);
    return;
  }
  HttpResponse response = HttpResponse::json(writer_->whole(results_));
  for (const auto& [name, value] : options_.headers) response.headers.add(name, value);
  events_.response().send(std::move(response));
}

void Answer::fail(const Error& error) {
  ended_ = true;
  const bool any_ended = open_choices_ < results_.size();
  events_.response().account(any_ended ? time_parts(longest_ledger(results_)) : std::vector<TimePart>());
  feed_.cancel_all();
  metrics_.count_failed();
  if (error.code == ErrorCode::kInternal) log_error("request {}: {}", options_.id, error.to_string());
  ApiError refusal = api_error(error);
  if (error.where == kGrammarPlace && !options_.constraint_field.empty()) refusal.param = options_.constraint_field;
  writer_->fail(events_, refusal);
}

void Answer::client_gone() {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = left_ = true;
  feed_.cancel_all();
  metrics_.count_aborted();
}

bool Answer::abort() {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  ended_ = left_ = true;
  feed_.cancel_all();
  metrics_.count_aborted();
  writer_->fail(events_, ApiError::make(499, "the request was aborted", "aborted"));
  return true;
}

}  // namespace vernier
