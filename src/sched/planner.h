#pragma once

#include <cstdint>

#include "sched/sched_state.h"
#include "sched/step_plan.h"

namespace vernier {

/// What the next step computes, given what is in flight. Pure: the state is only read. A sequence whose next token is
/// still being sampled is left out; an empty plan is not launched.
void plan(const SchedState& state, int64_t now_ns, StepPlan& out);
StepPlan plan(const SchedState& state, int64_t now_ns);

}  // namespace vernier
