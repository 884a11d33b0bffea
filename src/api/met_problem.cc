#include "api/met_problem.h"

#include <algorithm>
#include <map>

namespace vernier {
namespace {

/// Rows of steps, the most frequent first.
constexpr int64_t kTunedSteps[] = {1, 512, 8, 64, 2, 4, 16, 32, 128, 256, 1024};
/// Of a prompt only rows that are sampled reach the head.
constexpr int64_t kMostHeadRows = 16;
constexpr int64_t kLeastProblemNs = 50'000'000;
constexpr int64_t kMostProblemNs = 4'000'000'000;

}  // namespace

std::vector<MetProblem> meet_problems(const Backend& backend, std::span<const DecoderPart> parts) {
  std::vector<MetProblem> met;
  std::map<std::string, size_t> known;
  for (int64_t step : kTunedSteps) {
    for (const DecoderPart& part : parts) {
      if (part.matrix == nullptr || part.op == "embed" || (part.op == "head" && step > kMostHeadRows)) continue;
      const int64_t rows = part.rows_of(step);
      for (Choice& choice : backend.explain_linear(*part.matrix, rows)) {
        const auto [at, is_new] = known.try_emplace(choice.problem.to_string(), met.size());
        if (is_new) met.push_back({{std::move(choice.problem), {}}, part.matrix, rows});
        std::vector<std::string>& ops = met[at->second].told.ops;
        if (std::ranges::find(ops, part.op) == ops.end()) ops.push_back(part.op);
      }
    }
  }
  return met;
}

bool is_skipped(const Problem& problem, std::span<const std::string> ops, std::span<const std::string> skip) {
  const auto named = [&](const std::string& op) { return std::ranges::find(skip, op) != skip.end(); };
  return named(problem.op) || std::ranges::all_of(ops, named);
}

int64_t share_of_budget(int64_t left_ns, int64_t problems) {
  return std::clamp(left_ns / problems, kLeastProblemNs, kMostProblemNs);
}

}  // namespace vernier
