#include "backends/cuda/cuda_attention.h"

#include <algorithm>

#include "backends/cuda/cuda_matrix.h"

namespace vernier {
namespace {

cuda::FreshKeys fresh_keys(FreshRows fresh) {
  return fresh == FreshRows::kStored     ? cuda::FreshKeys::kNone
         : fresh == FreshRows::kComputed ? cuda::FreshKeys::kComputed
                                         : cuda::FreshKeys::kRoundTrip;
}

}  // namespace

cuda::AttendPrepareCall CudaAttention::prepare(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv,
                                               bool by_tiles) {
  const AttnSpec& spec = layer.spec;
  const int64_t rows = step_.rows().rows;
  cuda::AttendPrepareCall call;
  call.qkv = qkv;
  call.rows = step_.rows();
  call.heads = spec.heads;
  call.kv_heads = spec.kv_heads;
  call.head_dim = spec.head_dim;
  if (spec.qk_norm) {
    call.q_norm = CudaVector::numbers(layer.q_norm.get(), spec.head_dim);
    call.k_norm = CudaVector::numbers(layer.k_norm.get(), spec.head_dim);
    call.norm_eps = layer.qk_norm_eps;
  }
  call.rope = rope_.table(spec.rope, step_.rows());
  call.store = spec.causal;
  call.fresh = cuda::FreshKeys::kComputed;
  if (spec.causal) {
    const CacheSpec& cache = kv.spec(layer.layer);
    call.table = step_.table(layer.cache_class);
    call.keys = kv.keys(layer.layer);
    call.values = kv.values(layer.layer);
    call.one_row = cache.kind == CacheKind::kLatent;
    call.saturated = kv.saturation_counter(layer.layer);
    // What went through the cache may be read there: the bits are the same.
    call.fresh = by_tiles ? cuda::FreshKeys::kNone : fresh_keys(cache.fresh);
  }
  call.q = {queries_.reserve<float>(device_, queue_, rows * spec.q_cols(), "queries"), spec.q_cols()};
  if (call.fresh != cuda::FreshKeys::kNone) {
    const int64_t cols = spec.kv_cols();
    call.fresh_keys = {fresh_keys_.reserve<float>(device_, queue_, rows * cols, "a step's keys"), cols};
    call.fresh_values = {fresh_values_.reserve<float>(device_, queue_, rows * cols, "a step's values"), cols};
  }
  return call;
}

void CudaAttention::run(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv, cuda::Rows out) {
  const AttnSpec& spec = layer.spec;
  CHECK(spec.causal || (!spec.window && !spec.sinks), "attention that is not causal has neither window nor sinks");
  if (const Reason reason = judge_attend(spec.head_dim); reason.code != ReasonCode::kChosen) {
    return queue_.fail(unsupported("attention: {}; use --backend cpu", reason.detail));
  }
  const bool by_tiles = spec.causal && judge_attend_tiles(spec, kv.spec(layer.layer)).code == ReasonCode::kChosen;
  const cuda::AttendPrepareCall prepared = prepare(layer, kv, qkv, by_tiles);
  queue_.launch("queries, keys and values", cuda::attend_prepare, prepared);
  cuda::AttendCall call;
  call.rows = prepared.rows;
  call.heads = spec.heads;
  call.kv_heads = spec.kv_heads;
  call.head_dim = spec.head_dim;
  call.window = spec.window.value_or(0);
  call.scale = spec.scale;
  call.soft_cap = spec.soft_cap;
  call.causal = spec.causal;
  if (spec.sinks) call.sinks = CudaVector::numbers(layer.sinks.get(), spec.heads);
  call.table = prepared.table;
  call.keys = prepared.keys;
  call.values = prepared.values;
  call.fresh = prepared.fresh != cuda::FreshKeys::kNone;
  call.q = prepared.q;
  call.fresh_keys = prepared.fresh_keys;
  call.fresh_values = prepared.fresh_values;
  call.out = out;
  if (!by_tiles) return attend(call, spec);
  if (attend_prompts(call, spec, kv.spec(layer.layer))) return;
  attend_by_tiles(call, spec, 0, call.rows.rows);
}

void CudaAttention::attend(const cuda::AttendCall& call, const AttnSpec& spec) {
  const int32_t ranges = step_.ranges(spec.window);
  const AttendPlan plan = plan_attend(call.rows.rows, spec.heads, spec.head_dim, ranges);
  if (plan.rows_at_once == 0) return queue_.launch("attention", cuda::attend_rows, call);
  auto* parts = parts_.reserve<float>(device_, queue_, plan.part_numbers, "attention's parts");
  for (int32_t row = 0; row < call.rows.rows; row += plan.rows_at_once) {
    const int32_t end = std::min(call.rows.rows, row + plan.rows_at_once);
    queue_.launch("attention", cuda::attend_ranges, call, row, end, ranges, parts);
  }
}

/// Sequences with many rows by warp groups, the rows of the others by tiles; false where no sequence has many.
bool CudaAttention::attend_prompts(const cuda::AttendCall& call, const AttnSpec& spec, const CacheSpec& cache) {
  const std::span<const SequenceRows> sequences = step_.view().sequences;
  cuda::AttendPromptCall prompts;
  for (const SequenceRows& of : sequences) prompts.most_rows = std::max(prompts.most_rows, of.rows);
  const PromptProblem problem{prompts.most_rows, call.table.block_tokens, own_orders_,
                              fast_device(device_.facts()).warpgroups};
  if (judge_attend_prompt(spec, cache, problem).code != ReasonCode::kChosen) return false;
  prompts.of = call;
  prompts.least_rows = cuda::kPromptTokens;
  const auto has_many = [](const SequenceRows& of) { return of.rows >= cuda::kPromptTokens; };
  const auto first_long = std::ranges::find_if(sequences, has_many);
  const auto last_long = std::ranges::find_if(sequences.rbegin(), sequences.rend(), has_many).base();
  prompts.first_sequence = static_cast<int32_t>(first_long - sequences.begin());
  prompts.sequences = static_cast<int32_t>(last_long - first_long);
  queue_.launch("attention", cuda::attend_prompt, prompts);
  int32_t first = 0;  // of rows that nobody has taken
  for (const SequenceRows& of : sequences) {
    if (!has_many(of)) continue;
    if (first < of.first_row) attend_by_tiles(call, spec, first, of.first_row);
    first = of.first_row + of.rows;
  }
  if (first < call.rows.rows) attend_by_tiles(call, spec, first, call.rows.rows);
  return true;
}

void CudaAttention::attend_by_tiles(const cuda::AttendCall& call, const AttnSpec& spec, int32_t first_row,
                                    int32_t end_row) {
  cuda::AttendTilesCall tiles;
  tiles.of = call;
  const int32_t ranges = step_.ranges(spec.window);
  const AttendPlan plan = plan_attend_tiles(end_row - first_row, spec, ranges);
  const int32_t at_once = plan.rows_at_once == 0 ? end_row - first_row : plan.rows_at_once;
  if (plan.rows_at_once > 0) {
    tiles.ranges = ranges;
    tiles.each = plan.each;
    tiles.parts = parts_.reserve<float>(device_, queue_, plan.part_numbers, "attention's parts");
    const int64_t counters =
        int64_t{at_once} * cuda::tile_groups(spec.heads, spec.kv_heads) * (cuda::tile_spans(ranges) + 1);
    tiles.arrived = arrived_.reserve_zeros<uint32_t>(device_, queue_, counters, "attention's counters");
  }
  for (tiles.first_row = first_row; tiles.first_row < end_row; tiles.first_row += at_once) {
    tiles.end_row = std::min(end_row, tiles.first_row + at_once);
    queue_.launch("attention", cuda::attend_tiles, tiles);
  }
}

void CudaAttention::run_latent(const LatentLayer& layer, CudaKvStore& kv, cuda::ConstRows q, cuda::ConstRows compressed,
                               cuda::Rows out) {
  const LatentSpec& spec = layer.spec;
  const int64_t rows = step_.rows().rows, heads = layer.attn.spec.heads, row_dim = spec.row_dim();
  const int64_t stride = (heads + 2) * row_dim;
  cuda::LatentPrepareCall call;
  call.q = q;
  call.compressed = compressed;
  call.rows = rows;
  call.heads = layer.attn.spec.heads;
  call.rank = spec.rank;
  call.nope_dim = spec.nope_dim;
  call.rope_dim = spec.rope_dim;
  call.neighbours = spec.neighbours;
  call.norm = CudaVector::numbers(layer.norm.weight.get(), spec.rank);
  call.norm_eps = layer.norm.eps;
  call.rope = rope_.table(layer.rope, step_.rows());
  call.out = {latent_rows_.reserve<float>(device_, queue_, rows * stride, "compressed rows"), stride};
  const cuda::Rows means = {latent_means_.reserve<float>(device_, queue_, rows * heads * row_dim, "means of rows"),
                            heads * row_dim};
  if (queue_.failed()) return;
  queue_.launch("compressed rows", cuda::latent_prepare, call);
  for (int64_t head = 0; head < heads; ++head) {
    products_.multiply(*layer.keys[static_cast<size_t>(head)].matrix, nullptr,
                       {q.data + head * spec.query_dim(), q.stride}, rows,
                       {call.out.data + head * row_dim + spec.rope_dim, stride});
  }
  run(layer.attn, kv, call.out, means);
  for (int64_t head = 0; head < heads; ++head) {
    products_.multiply(*layer.values[static_cast<size_t>(head)].matrix, nullptr,
                       {means.data + head * row_dim + spec.rope_dim, means.stride}, rows,
                       {out.data + head * spec.value_dim, out.stride});
  }
}

}  // namespace vernier
