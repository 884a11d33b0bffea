// What planning costs the engine thread: plan + launch + commit of a step of decoding sequences.
//
//   sched_bench [SEQUENCES [CLASSES]]
//
// Prints the best of ten runs of 64 steps each (every sequence crosses one block of 64 tokens in a run), per step,
// beside a loop that only walks as many records of 64 bytes and counts them up: what the memory alone takes.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "sched/planner.h"

namespace vernier {
namespace {

Status bench(int32_t sequences, int32_t classes) {
  SchedConfig config;
  config.block_tokens = 64;
  config.max_sequences = sequences;
  config.max_rows = sequences + 1024;
  config.max_queue = sequences;
  config.context_tokens = 8192;
  config.prefill_rows_when_decoding = 1024;
  for (int32_t c = 0; c < classes; ++c) {
    SchedClass one{sequences * 40, std::nullopt};
    if (c % 2 == 1) one.window = 512;
    config.classes.push_back(one);
  }
  TRY_BIND(std::unique_ptr<SchedState> state, SchedState::make(config));
  for (int32_t i = 0; i < sequences; ++i) {
    NewSequence request;
    for (int32_t p = 0; p < 512 + i % 64; ++p) request.prompt.push_back(PrefixUnit::token(i * 1000 + p));
    TRY_BIND([[maybe_unused]] SequenceId id, state->add(std::move(request)));
  }
  StepPlan step;
  std::vector<int32_t> sampled;
  int64_t rows = 0;
  auto run_step = [&] {
    plan(*state, 0, step);
    launch(*state, step);
    sampled.assign(static_cast<size_t>(step.sampled_rows), 7);
    commit(*state, step, sampled);
    rows += step.total_rows;
  };
  while (step.decode_rows < sequences) run_step();
  double best = 1e30;
  for (int run = 0; run < 10; ++run) {
    Stopwatch watch;
    for (int i = 0; i < 64; ++i) run_step();
    best = std::min(best, watch.elapsed_seconds() / 64);
  }
  struct Record {
    int64_t counters[8];
  };
  std::vector<Record> records(static_cast<size_t>(sequences), Record{});
  double reference = 1e30;
  for (int run = 0; run < 10; ++run) {
    Stopwatch watch;
    for (int i = 0; i < 64; ++i) {
      for (Record& record : records) record.counters[0] += ++record.counters[7];
      asm volatile("" ::: "memory");
    }
    reference = std::min(reference, watch.elapsed_seconds() / 64);
  }
  fmt::print(
      "{} sequences, {} cache classes: plan + launch + commit {:.1f} us a step, {:.0f} ns a sequence; reference loop "
      "{:.2f} us\n",
      sequences, classes, best * 1e6, best * 1e9 / sequences, reference * 1e6);
  return state->check();
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  const int sequences = argc > 1 ? std::max(1, std::atoi(argv[1])) : 256;
  const int classes = argc > 2 ? std::clamp(std::atoi(argv[2]), 1, 16) : 2;
  vernier::Status status = vernier::bench(sequences, classes);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 2;
}
