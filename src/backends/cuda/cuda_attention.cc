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

void multiply_parts(CudaDevice& device, LaunchLog& log, const PackedMatrix& matrix, const float* bias,
                    cuda::ConstRows x, int64_t rows, cuda::Rows out, bool add) {
  const std::span<const CudaRows> parts = CudaMatrix::of(matrix).parts();
  for (size_t next = 0; next < parts.size();) {
    cuda::ProductCall call;
    // As many as a launch takes: neighbours of one kind of codes.
    while (next < parts.size() && call.part_count < cuda::kMostParts &&
           (call.part_count == 0 || parts[next].view.kind == call.parts[0].weight.kind)) {
      call.parts[call.part_count++] = {parts[next].view, parts[next].first_output};
      call.outputs += parts[next++].view.rows;
    }
    call.x = x;
    call.rows = rows;
    call.out = out;
    call.bias = bias;
    call.add = add;
    log.launch("product", [&] { return cuda::product(call, device.stream()); });
  }
}

cuda::AttendPrepareCall CudaAttention::prepare(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv) {
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
    call.fresh = fresh_keys(cache.fresh);
  }
  call.q = {queries_.reserve<float>(device_, log_, rows * spec.q_cols(), "queries"), spec.q_cols()};
  if (call.fresh != cuda::FreshKeys::kNone) {
    const int64_t cols = spec.kv_cols();
    call.fresh_keys = {fresh_keys_.reserve<float>(device_, log_, rows * cols, "a step's keys"), cols};
    call.fresh_values = {fresh_values_.reserve<float>(device_, log_, rows * cols, "a step's values"), cols};
  }
  return call;
}

void CudaAttention::run(const AttnLayer& layer, CudaKvStore& kv, cuda::ConstRows qkv, cuda::Rows out) {
  const AttnSpec& spec = layer.spec;
  CHECK(spec.causal || (!spec.window && !spec.sinks), "attention that is not causal has neither window nor sinks");
  if (const Reason reason = judge_attend(spec.head_dim); reason.code != ReasonCode::kChosen) {
    return log_.fail(unsupported("attention: {}; use --backend cpu", reason.detail));
  }
  const cuda::AttendPrepareCall prepared = prepare(layer, kv, qkv);
  log_.launch("queries, keys and values", [&] { return cuda::attend_prepare(prepared, device_.stream()); });
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
  attend(call, spec);
}

void CudaAttention::attend(const cuda::AttendCall& call, const AttnSpec& spec) {
  int32_t ranges = 1;
  for (const SequenceRows& rows : step_.view().sequences) {
    ranges = std::max(ranges, most_ranges(rows.first_position + rows.rows, spec.window));
  }
  const AttendPlan plan = plan_attend(call.rows.rows, spec.heads, spec.head_dim, ranges);
  if (plan.rows_at_once == 0) {
    return log_.launch("attention", [&] { return cuda::attend_rows(call, device_.stream()); });
  }
  auto* parts = parts_.reserve<float>(device_, log_, plan.part_numbers, "attention's parts");
  for (int32_t row = 0; row < call.rows.rows; row += plan.rows_at_once) {
    const int32_t end = std::min(call.rows.rows, row + plan.rows_at_once);
    log_.launch("attention", [&] { return cuda::attend_ranges(call, row, end, ranges, parts, device_.stream()); });
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
  call.out = {latent_rows_.reserve<float>(device_, log_, rows * stride, "compressed rows"), stride};
  const cuda::Rows means = {latent_means_.reserve<float>(device_, log_, rows * heads * row_dim, "means of rows"),
                            heads * row_dim};
  if (log_.failed()) return;
  log_.launch("compressed rows", [&] { return cuda::latent_prepare(call, device_.stream()); });
  for (int64_t head = 0; head < heads; ++head) {
    multiply_parts(device_, log_, *layer.keys[static_cast<size_t>(head)].matrix, nullptr,
                   {q.data + head * spec.query_dim(), q.stride}, rows,
                   {call.out.data + head * row_dim + spec.rope_dim, stride});
  }
  run(layer.attn, kv, call.out, means);
  for (int64_t head = 0; head < heads; ++head) {
    multiply_parts(device_, log_, *layer.values[static_cast<size_t>(head)].matrix, nullptr,
                   {means.data + head * row_dim + spec.rope_dim, means.stride}, rows,
                   {out.data + head * spec.value_dim, out.stride});
  }
}

}  // namespace vernier
