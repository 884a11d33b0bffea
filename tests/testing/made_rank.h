#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/tune_ranks.h"
#include "base/random.h"
#include "testing/made_tactics.h"
#include "tune/tactic_store.h"

namespace vernier::testing {

/// A rank whose products are made up: a scope's kernels "tile_a", "tile_b" and "stream" serve each, and their times
/// shake from rank to rank. Measuring takes no time.
class MadeRank final : public Backend {
 public:
  struct Matrix final : PackedMatrix {
    explicit Matrix(int cols) : PackedMatrix(2048, cols) {}
    PackedInfo info() const override { return {}; }
  };

  MadeRank(uint64_t noise, const std::vector<int>& cols) : noise_(noise) {
    for (const int one : cols) matrices_.push_back(std::make_unique<Matrix>(one));
    for (const auto& matrix : matrices_) {
      DecoderPart& part = parts.emplace_back();
      part.op = "down";
      part.matrix = matrix.get();
    }
  }

  std::vector<DecoderPart> parts;
  std::function<Status(const Problem&, NamedKernel*)> before_measure;  ///< with a kernel: asks whether it can run
  int64_t measured = 0;

  std::string_view name() const override { return "made"; }
  Features features() const override { return {}; }
  Result<std::shared_ptr<const PackedMatrix>> pack(std::span<const QTensor>, PackUse) override {
    return unsupported("made up");
  }
  Result<std::shared_ptr<const PackedVector>> upload(std::span<const float>) override { return unsupported("made up"); }
  Result<std::unique_ptr<KvStore>> make_kv(const KvLayout&) override { return unsupported("made up"); }
  Result<std::unique_ptr<Ops>> make_ops(KvStore&, int64_t) override { return unsupported("made up"); }
  Choice explain_attend(const AttnSpec&, const CacheSpec&, int64_t) const override { return {}; }

  std::vector<Choice> explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const override {
    Choice choice;
    choice.problem = made_problem(static_cast<int>(matrix.cols()));
    choice.problem.facts.back().value = std::to_string(batch_rows);
    return {choice};
  }

  Result<MeasuredTactic> measure_linear(const PackedMatrix&, const Problem& problem, int64_t,
                                        const MeasureRules&) override {
    ++measured;
    if (before_measure) TRY_STATUS(before_measure(problem, nullptr));
    std::vector<TriedCandidate> all;
    for (const char* kernel : {"tile_a", "tile_b", "stream"}) {
      TriedCandidate tried{{kernel, made_scope().kernel_hash(kernel), {}}, "slower", "", {}};
      const Status can = before_measure ? before_measure(problem, &tried.named) : Status();
      if (can.ok()) {
        tried.time = {time_of(problem, kernel), 1, 9};
      } else {
        tried.verdict = "out-of-memory";
        tried.detail = can.error().message;
      }
      all.push_back(std::move(tried));
    }
    std::ranges::stable_sort(
        all, {}, [](const TriedCandidate& tried) { return std::pair(tried.time.repeats == 0, tried.time.median_ns); });
    MeasuredTactic found;
    found.tactic.problem = problem;
    found.tactic.chosen = all.front().named;
    found.tactic.time = all.front().time;
    found.tactic.others.assign(all.begin() + 1, all.end());
    found.fixed_ns = time_of(problem, "tile_a");
    return found;
  }

 private:
  /// Of which rank, problem and kernel makes it another, by up to a third.
  double time_of(const Problem& problem, const std::string& kernel) const {
    const uint64_t place = std::hash<std::string>()(problem.to_string() + kernel);
    return 1000 + static_cast<double>(place % 50) + static_cast<double>(fmix64(place ^ fmix64(noise_)) % 300);
  }

  uint64_t noise_;
  std::vector<std::unique_ptr<Matrix>> matrices_;
};

/// What a store would choose of each problem of a rank, a line each.
inline std::string choices_of(const MadeRank& rank, const TacticStore& store) {
  std::string lines;
  for (const TunedProblem& one : list_problems(rank, rank.parts)) {
    const Tactic* found = store.find(tactic_key(one.problem));
    lines += one.problem.to_string() + "\t" + (found == nullptr ? "fixed" : found->chosen.to_string()) + "\n";
  }
  return lines;
}

}  // namespace vernier::testing
