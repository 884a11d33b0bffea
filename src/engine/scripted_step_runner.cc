#include "engine/scripted_step_runner.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/request.h"

namespace vernier {
namespace {

Result<SampledToken> scripted_token(const ScriptedAnswer& answer, int32_t generated, const SampleSpec& spec) {
  const auto index = static_cast<size_t>(generated);
  SampledToken token;
  if (spec.forced >= 0) {
    token.token = spec.forced;
  } else if (index >= answer.steps.size()) {
    token.token = answer.end_token;
  } else if (!answer.steps[index].failure.empty()) {
    return make_error(ErrorCode::kInternal, "{}", answer.steps[index].failure);
  } else {
    token.token = answer.steps[index].token;
  }
  if (spec.top_logprobs > 0) token.top.push_back({token.token, 0});
  return token;
}

}  // namespace

ScriptedStepRunner::ScriptedStepRunner(int32_t vocab, int32_t max_positions) {
  // One layer, so that blocks, the prefix cache and preemption are real.
  CacheSpec layer;
  layer.kv_heads = 1;
  layer.head_dim = 1;
  shape_ = {vocab, 0, max_positions, {layer}};
}

Status ScriptedStepRunner::prepare(std::span<const int32_t>, int32_t, int32_t) {
  return {};
}

Result<StepOutput> ScriptedStepRunner::run(const StepInput& step) {
  StepOutput output;
  int64_t duration_ns = 0;
  size_t sequence = 0;
  for (const Request* request : step.requests) {
    if (request->script != nullptr) duration_ns = std::max(duration_ns, request->script->step_ns);
  }
  if (duration_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
  for (size_t i = 0; i < step.view.sampled_rows.size(); ++i) {
    const int32_t row = step.view.sampled_rows[i];
    while (row >= step.view.sequences[sequence].first_row + step.view.sequences[sequence].rows) ++sequence;
    const auto& script = step.requests[sequence]->script;
    if (script == nullptr) {
      output.sampled.emplace_back(invalid_argument("the scripted model has no answer to this request"));
    } else {
      output.sampled.push_back(scripted_token(*script, step.generated[sequence], step.specs[i]));
    }
  }
  return output;
}

}  // namespace vernier
