#include "sched/planner.h"

#include "sched/step_planner.h"

namespace vernier {

void plan(const SchedState& state, int64_t now_ns, StepPlan& out) {
  StepPlanner(state, out).run(now_ns);
}

StepPlan plan(const SchedState& state, int64_t now_ns) {
  StepPlan out;
  plan(state, now_ns, out);
  return out;
}

std::string StepPlan::to_string() const {
  std::string text = fmt::format("step of {} rows, {} decode, {} sampled\n", total_rows, decode_rows, sampled_rows);
  for (SequenceId id : preemptions) text += fmt::format("preempt {}\n", static_cast<uint64_t>(id));
  for (const Admission& a : admissions) {
    text += fmt::format("admit {} behind {} cached tokens\n", static_cast<uint64_t>(a.sequence), a.hit.tokens);
  }
  for (const PlannedRows& r : rows) {
    text += fmt::format("{} rows {}+{}, {} new blocks{}{}\n", static_cast<uint64_t>(r.sequence), r.first_position,
                        r.rows, r.new_blocks, r.decode ? ", decode" : "", r.sample ? ", sampled" : "");
  }
  for (SequenceId id : expired) text += fmt::format("expired {}\n", static_cast<uint64_t>(id));
  return text;
}

}  // namespace vernier
