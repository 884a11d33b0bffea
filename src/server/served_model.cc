#include "server/served_model.h"

#include <algorithm>

namespace vernier {

bool ServedModel::answers_to(std::string_view model) const {
  return std::ranges::find(names, model) != names.end();
}

std::shared_ptr<const ScriptedAnswer> scripted_answer(const ScriptedModel& script, const ScriptReply& reply) {
  auto answer = std::make_shared<ScriptedAnswer>();
  answer->steps.reserve(reply.steps.size());
  for (const ScriptStep& step : reply.steps) answer->steps.push_back({step.token, step.failure});
  answer->end_token = script.end_token();
  answer->step_ns = std::chrono::nanoseconds(reply.delay).count();
  return answer;
}

}  // namespace vernier
