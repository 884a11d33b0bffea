#include <algorithm>
#include <limits>

#include "engine/engine_loop.h"

// The step's arrays, made from its plan, and what hidden rows add up to.

namespace vernier {
namespace {

void ban(SampleSpec& spec, int32_t token) {
  spec.edits.push_back({.token = token, .bias = -std::numeric_limits<float>::infinity()});
}

}  // namespace

int32_t EngineLoop::prompt_rows_to_score(const PlannedRows& rows, const Sequence& member) {
  if (member.request.prompt_logprobs < 0) return 0;
  // The row at position p scores the token at p + 1; what a preemption computes again has its score.
  const int32_t first = std::max(rows.first_position + 1, member.prompt_scored);
  return std::max(0, std::min(rows.first_position + rows.rows + 1, member.prompt_tokens()) - first);
}

void EngineLoop::fill_step() {
  tokens_.clear();
  positions_.clear();
  sampled_rows_.clear();
  specs_.clear();
  rows_.clear();
  requests_.clear();
  histories_.clear();
  generated_.clear();
  mask_jobs_.clear();
  hidden_wanted_ = false;
  for (const PlannedRows& rows : plan_.rows) add_rows(rows, sequence(rows.sequence));
  fill_tables();
}

void EngineLoop::add_rows(const PlannedRows& rows, Sequence& member) {
  const auto first_row = static_cast<int32_t>(tokens_.size());
  std::span<const int32_t> known = member.history.tokens();
  for (int32_t i = 0; i < rows.rows; ++i) {
    tokens_.push_back(known[static_cast<size_t>(rows.first_position + i)]);
    positions_.push_back(rows.first_position + i);
  }
  rows_.push_back({first_row, rows.rows, rows.first_position});
  requests_.push_back(&member.request);
  histories_.push_back(known);
  generated_.push_back(member.generated);
  const Request& request = member.request;
  if (request.kind != RequestKind::kGenerate) {
    hidden_wanted_ = true;
    return;
  }
  for (int32_t left = prompt_rows_to_score(rows, member), token = member.prompt_scored; left > 0; --left, ++token) {
    sampled_rows_.push_back(first_row + token - 1 - rows.first_position);
    SampleSpec spec;
    spec.top_logprobs = request.prompt_logprobs;
    spec.forced = known[static_cast<size_t>(token)];
    specs_.push_back(std::move(spec));
  }
  if (!rows.sample || request.max_tokens == 0) return;
  sampled_rows_.push_back(first_row + rows.rows - 1);
  SampleSpec spec = member.history.next_spec(request.sampling, request.choice);
  spec.top_logprobs = request.top_logprobs;
  spec.known_tokens = options_.known_tokens;
  if (member.generated < request.min_tokens) {
    for (int32_t token : request.end_tokens) ban(spec, token);
  }
  if (member.matcher) {
    member.mask.resize(member.matcher->grammar().vocabulary().mask_words());
    mask_jobs_.push_back({&*member.matcher, member.mask, &member.mask_filled});
    spec.mask = member.mask;
  }
  specs_.push_back(std::move(spec));
}

void EngineLoop::fill_tables() {
  tables_.clear();
  for (size_t c = 0; c < table_arrays_.size(); ++c) {
    TableArrays& arrays = table_arrays_[c];
    arrays.blocks.clear();
    arrays.begin.assign(1, 0);
    arrays.first_position.clear();
    for (const PlannedRows& rows : plan_.rows) {
      const BlockTable& table = state_->sequence(rows.sequence).tables[c];
      arrays.blocks.insert(arrays.blocks.end(), table.blocks().begin(), table.blocks().end());
      arrays.begin.push_back(static_cast<int32_t>(arrays.blocks.size()));
      arrays.first_position.push_back(table.first_position());
    }
    tables_.push_back({options_.block_tokens, arrays.blocks, arrays.begin, arrays.first_position});
  }
}

void EngineLoop::accept_hidden(const PlannedRows& rows, Sequence& member, const StepOutput& output) {
  const auto hidden = static_cast<size_t>(shape().hidden);
  const auto& place = *std::ranges::find(requests_, &member.request);
  const auto index = static_cast<size_t>(&place - requests_.data());
  const float* first = output.hidden.data() + static_cast<size_t>(rows_[index].first_row) * hidden;
  member.hidden.resize(hidden);
  if (member.request.kind == RequestKind::kEmbedLast) {
    std::copy_n(first + static_cast<size_t>(rows.rows - 1) * hidden, hidden, member.hidden.begin());
    return;
  }
  if (member.request.kind == RequestKind::kEmbedFirst) {
    if (rows.first_position == 0) std::copy_n(first, hidden, member.hidden.begin());
    return;
  }
  const float share = 1.0F / static_cast<float>(member.prompt_tokens());
  for (int32_t row = 0; row < rows.rows; ++row, first += hidden) {
    // A preemption computes rows again; each counts once.
    if (rows.first_position + row < member.pooled_tokens) continue;
    ++member.pooled_tokens;
    for (size_t i = 0; i < hidden; ++i) member.hidden[i] += share * first[i];
  }
}

}  // namespace vernier
