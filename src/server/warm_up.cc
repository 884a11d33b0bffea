#include "server/warm_up.h"

#include <future>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "grammar/grammar_compiler.h"

namespace vernier {
namespace {

/// Keeps how a probe ended.
class ProbeSink : public RequestSink {
 public:
  std::future<Status> ended() { return ended_.get_future(); }
  void deliver(RequestUpdate update) override {
    if (update.failed) {
      ended_.set_value(Status(*update.failed));
    } else if (update.finished && update.finished->reason == FinishReason::kCancelled) {
      ended_.set_value(make_error(ErrorCode::kUnavailable, "the engine goes down"));
    } else if (update.finished) {
      ended_.set_value({});
    }
  }

 private:
  std::promise<Status> ended_;
};

Status probe(const ServedModel& model, Request request, std::chrono::nanoseconds limit) {
  request.name = "warm-up";
  request.prompt = {0};
  request.reuse_prefix = false;
  request.sampling.temperature = 0;
  request.deadline_ns = monotonic_ns() + limit.count();
  auto sink = std::make_shared<ProbeSink>();
  std::future<Status> ended = sink->ended();
  TRY_BIND(const RequestId id, model.engine->submit(std::move(request), sink));
  // The engine sees a deadline between two steps; one that hangs is given up here.
  if (ended.wait_for(limit + std::chrono::milliseconds(500)) != std::future_status::ready) {
    model.engine->cancel(id);
    return make_error(ErrorCode::kTimeout, "no answer came in {} s",
                      std::chrono::duration_cast<std::chrono::seconds>(limit).count());
  }
  return ended.get();
}

Request tokens_request(const ServedModel& model) {
  Request request;
  request.max_tokens = 2;  // a prompt's step and an answer's
  if (model.script == nullptr) return request;
  auto script = std::make_shared<ScriptedAnswer>();
  script->steps.push_back({0, ""});
  script->end_token = model.script->end_token();
  request.script = std::move(script);
  return request;
}

Status probe_embeddings(const ServedModel& model, std::chrono::nanoseconds limit) {
  Request request;
  request.kind = model.embedding;
  return probe(model, std::move(request), limit);
}

Status probe_grammar(const ServedModel& model, std::chrono::nanoseconds limit) {
  TRY_BIND(auto grammar, model.grammars->compile({.kind = GrammarSpec::Kind::kRegex, .text = "[01]"}));
  Request request = tokens_request(model);
  request.grammar = std::move(grammar);
  return probe(model, std::move(request), limit);
}

}  // namespace

void warm_up(const ServedModel& model, Readiness& readiness, std::chrono::nanoseconds limit) {
  const int64_t begin_ns = monotonic_ns();
  auto note = [&](Capability what, const Status& ended) {
    if (ended.ok()) return;
    log_error("warm-up: {}", ended.error().to_string());
    readiness.fail(what, ended.error().message);
  };
  if (model.generates) note(Capability::kGeneration, probe(model, tokens_request(model), limit));
  const bool scripted = model.script != nullptr;
  if (!scripted && model.engine->shape().hidden > 0) note(Capability::kEmbeddings, probe_embeddings(model, limit));
  if (!scripted && model.grammars != nullptr && GrammarCompiler::is_built())
    note(Capability::kStructuredOutput, probe_grammar(model, limit));
  log_info("warm-up took {:.1f} ms", static_cast<double>(monotonic_ns() - begin_ns) * 1e-6);
}

}  // namespace vernier
