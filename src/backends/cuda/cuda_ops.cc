#include "backends/cuda/cuda_ops.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_matrix.h"
#include "backends/cuda/kernel_choice.h"
#include "ops/ngram_spec.h"

namespace vernier {

CudaOps::CudaOps(CudaDevice& device, CudaKvStore& kv, int64_t max_rows, const CudaOptions& options)
    : device_(device),
      kv_(kv),
      max_rows_(max_rows),
      step_(device, queue_),
      products_(device, queue_, !options.own_orders()),
      attention_(device, queue_, step_, products_, options.own_orders()),
      experts_(device, queue_, products_) {}

// ---- activations ----

template <ActivationKind K>
Activation<K> CudaOps::handle(Id id) {
  ++node(id).uses;
  ++live_;
  return Activation<K>(*this, id, node(id).rows, node(id).cols);
}

void CudaOps::release(int32_t id) {
  --live_;
  drop(id);
}

/// One use less; the last of a pending one is one less of its source.
void CudaOps::drop(Id id) {
  if (--node(id).uses == 0 && node(id).source != kNone) drop(std::exchange(node(id).source, kNone));
}

/// The smallest free buffer that fits, or else a new one in the place of the largest free one. What runs on the stream
/// may still read a buffer that is used again: what is launched later runs later.
CudaOps::Id CudaOps::make(int64_t rows, int64_t cols) {
  const int64_t bytes = std::max<int64_t>(rows * cols, 1) * static_cast<int64_t>(sizeof(float));
  Id best = -1;
  for (Id id = 0; id < static_cast<Id>(nodes_.size()); ++id) {
    if (node(id).uses > 0) continue;
    const int64_t size = node(id).buffer.bytes(), best_size = best < 0 ? -1 : node(best).buffer.bytes();
    const bool fits = size >= bytes, best_fits = best_size >= bytes;
    if (fits != best_fits ? fits : fits ? size < best_size : size > best_size) best = id;
  }
  if (best < 0) {
    best = static_cast<Id>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& made = node(best);
  made.rows = rows;
  made.cols = cols;
  if (made.buffer.bytes() < bytes) {
    queue_.send();  // what waits may name the memory that is given back
    made.buffer = {};
    Result<DeviceBuffer> buffer = device_.take(bytes, "an activation");
    if (buffer.ok()) {
      made.buffer = std::move(buffer).value();
    } else {
      queue_.fail(std::move(buffer).error());
    }
  }
#ifndef NDEBUG
  // NaN: reading what no op wrote shows
  if (!queue_.failed()) queue_.launch("poison", cuda::fill_memory, made.buffer.data(), 0xFF, bytes);
#endif
  return best;
}

void CudaOps::begin(const StepView& step) {
  CHECK(live_ == 0, "{} activations of an earlier step still live", live_);
  CHECK(step.rows() <= max_rows_, "a step of {} rows, at most {} were asked for", step.rows(), max_rows_);
  queue_.send();
  queue_.begin(kind_of(step));
  queue_.note(device_.use());
  step_.begin(step);
  attention_.begin();
}

// ---- ops ----

/// `on_host` are the same row numbers, for the check.
Value CudaOps::table_rows(const Weight<Split::kNone>& table, std::span<const int32_t> on_host, const int32_t* rows,
                          float factor) {
  for (int32_t row : on_host) {
    CHECK(row >= 0 && row < table.outputs(), "row {} of a table of {}", row, table.outputs());
  }
  const Id id = make(static_cast<int64_t>(on_host.size()), table.inputs());
  for (const CudaRows& part : CudaMatrix::of(*table.matrix).parts()) {
    cuda::GatherCall call;
    call.table = part.view;
    call.first_index = part.first_output;
    call.indices = rows;
    call.rows = node(id).rows;
    call.factor = factor;
    call.out = rows_of(id);
    queue_.launch("rows of a table", cuda::gather, call);
  }
  return handle<ActivationKind::kWhole>(id);
}

Value CudaOps::embed(const Weight<Split::kNone>& table, float scale) {
  return table_rows(table, step_.view().tokens, step_.tokens(), scale);
}

Value CudaOps::look_up(const Weight<Split::kNone>& table, LookUp by) {
  if (by == LookUp::kPosition) return table_rows(table, step_.view().positions, step_.rows().positions, 1);
  const std::vector<int32_t> first(step_.view().tokens.size());
  return table_rows(table, first, step_.upload(first), 1);
}

Value CudaOps::embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) {
  CHECK(spec.rows == table.outputs(), "a hash of {} rows on a table of {}", spec.rows, table.outputs());
  ngram_rows(spec, step_.view(), ngram_rows_);
  return table_rows(table, ngram_rows_, step_.upload(ngram_rows_), scale);
}

/// Of as many rows; pending on `source`, whose own numbers are made when they are needed.
CudaOps::Id CudaOps::make_pending(Id source, int64_t cols) {
  const Id id = make(node(source).rows, cols);
  node(id).source = source;
  node(id).matrix = nullptr;
  ++node(source).uses;
  return id;
}

Value CudaOps::rms_norm(const Value& x, const Norm& norm) {
  const float* weight = CudaVector::numbers(norm.weight.get(), x.cols());
  const Id id = make_pending(ready(x.id(*this)), x.cols());
  node(id).norm = weight;
  node(id).norm_eps = norm.eps;
  return handle<ActivationKind::kWhole>(id);
}

Value CudaOps::layer_norm(const Value& x, const LayerNorm& norm) {
  const float* weight = CudaVector::numbers(norm.weight.get(), x.cols());
  const float* bias = CudaVector::numbers(norm.bias.get(), x.cols());
  const cuda::Rows from = rows_of(x);
  const Id id = make(x.rows(), x.cols());
  queue_.launch("layer norm", cuda::layer_norm, from, weight, bias, norm.eps, x.rows(), x.cols(), rows_of(id));
  return handle<ActivationKind::kWhole>(id);
}

CudaOps::Id CudaOps::product_of(Id x, const PackedMatrix& matrix, const PackedVector* bias) {
  CHECK(node(x).cols == matrix.cols(), "{} columns into a matrix of {}", node(x).cols, matrix.cols());
  const float* numbers = CudaVector::numbers(bias, matrix.rows());
  const Id id = make_pending(x, matrix.rows());
  node(id).matrix = &matrix;
  node(id).bias = numbers;
  return id;
}

Value CudaOps::linear(const Value& x, const Weight<Split::kNone>& weight) {
  return handle<ActivationKind::kWhole>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
}

Shard CudaOps::linear(const Value& x, const Weight<Split::kColumns>& weight) {
  return handle<ActivationKind::kShard>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
}

Partial CudaOps::linear(const Shard& x, const Weight<Split::kRows>& weight) {
  return handle<ActivationKind::kPartial>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
}

/// Runs a pending product, into rows of its own, added to others, or gated.
void CudaOps::finish_product(Id id, cuda::Rows out, bool add, std::optional<cuda::GateRule> gate) {
  ProductNeighbours with;
  with.gate = gate;
  Id source = node(id).source;
  const Node& normed = node(source);
  if (normed.source != kNone && normed.matrix == nullptr && takes_norm(*node(id).matrix, normed.rows)) {
    with.norm = normed.norm;
    with.norm_eps = normed.norm_eps;
    source = normed.source;
  }
  const cuda::Rows from = rows_of(ready(source));
  products_.multiply(*node(id).matrix, node(id).bias, from, node(id).rows, out, add, with);
}

/// A node's numbers, made now if they are pending.
CudaOps::Id CudaOps::ready(Id id) {
  if (node(id).source == kNone) return id;
  if (node(id).matrix != nullptr) {
    finish_product(id, rows_of(id), false);
  } else {
    const cuda::Rows from = rows_of(ready(node(id).source));
    const Node& normed = node(id);
    queue_.launch("norm", cuda::rms_norm, from, normed.norm, normed.norm_eps, normed.rows, normed.cols, rows_of(id));
  }
  drop(std::exchange(node(id).source, kNone));
  return id;
}

Shard CudaOps::attend(const Shard& qkv, const AttnLayer& layer) {
  CHECK(qkv.cols() == layer.spec.q_cols() + 2 * layer.spec.kv_cols(), "{} columns for attention of {} + 2 x {}",
        qkv.cols(), layer.spec.q_cols(), layer.spec.kv_cols());
  CHECK(qkv.rows() == step_.view().rows(), "{} rows of q, k and v in a step of {}", qkv.rows(), step_.view().rows());
  const cuda::Rows from = rows_of(qkv);
  const Id id = make(qkv.rows(), layer.spec.q_cols());
  attention_.run(layer, kv_, from, rows_of(id));
  return handle<ActivationKind::kShard>(id);
}

Shard CudaOps::attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  const LatentSpec& spec = layer.spec;
  const int64_t heads = layer.attn.spec.heads;
  CHECK(q.cols() == heads * spec.query_dim() && compressed.cols() == spec.row_dim(),
        "{} and {} columns for {} x {} and {}", q.cols(), compressed.cols(), heads, spec.query_dim(), spec.row_dim());
  const cuda::Rows queries = rows_of(q), from = rows_of(compressed);
  const Id id = make(q.rows(), heads * spec.value_dim);
  attention_.run_latent(layer, kv_, queries, from, rows_of(id));
  return handle<ActivationKind::kShard>(id);
}

Shard CudaOps::gate(const Shard& gate_up, const GateSpec& spec) {
  CHECK(gate_up.cols() % 2 == 0, "gate and up side by side in {} columns", gate_up.cols());
  const Id both = gate_up.id(*this);
  const int64_t rows = gate_up.rows(), cols = gate_up.cols() / 2;
  const Node& product = node(both);
  if (product.source != kNone && product.matrix != nullptr && takes_gate(*product.matrix, rows)) {
    const Id id = make(rows, cols);
    finish_product(both, rows_of(id), false, gate_rule(spec));
    return handle<ActivationKind::kShard>(id);
  }
  const cuda::Rows from = rows_of(gate_up);
  const Id id = make(rows, cols);
  queue_.launch("gate", cuda::gate, from, gate_rule(spec), rows, cols, nullptr, rows_of(id));
  return handle<ActivationKind::kShard>(id);
}

Shard CudaOps::activate(const Shard& x, Act act) {
  const cuda::Rows from = rows_of(x);
  const Id id = make(x.rows(), x.cols());
  queue_.launch("activation", cuda::activate, from, gate_rule(GateSpec{act}).act, x.rows(), x.cols(), rows_of(id));
  return handle<ActivationKind::kShard>(id);
}

Partial CudaOps::experts(const Value& x, const ExpertsLayer& layer) {
  CHECK(x.cols() == layer.router.inputs(), "{} columns for experts of {}", x.cols(), layer.router.inputs());
  const Id given = x.id(*this);
  const Id source = node(given).source;
  if (source != kNone && node(given).matrix == nullptr) {
    const cuda::Rows from = rows_of(ready(source));
    if (experts_.takes_norm(layer, from, x.rows())) {
      const Id id = make(x.rows(), x.cols());
      experts_.run(layer, from, x.rows(), rows_of(id), {node(given).norm, node(given).norm_eps});
      return handle<ActivationKind::kPartial>(id);
    }
  }
  const cuda::Rows from = rows_of(x);
  const Id id = make(x.rows(), x.cols());
  experts_.run(layer, from, x.rows(), rows_of(id));
  return handle<ActivationKind::kPartial>(id);
}

Value CudaOps::reduce(Partial x) {
  return handle<ActivationKind::kWhole>(ready(x.id(*this)));
}

/// A node whose numbers may be overwritten: `id` itself where its handle is the only use, or else a copy.
CudaOps::Id CudaOps::own_or_copy(Id id) {
  if (node(id).uses == 1) return id;
  const cuda::Rows from = rows_of(id);
  const int64_t rows = node(id).rows, cols = node(id).cols;
  const Id copy = make(rows, cols);
  queue_.launch("copy", cuda::copy_rows, from, nullptr, rows, cols, rows_of(copy));
  return copy;
}

CudaOps::Id CudaOps::sum_of(Id x, Id residual) {
  CHECK(node(x).rows == node(residual).rows && node(x).cols == node(residual).cols, "[{}, {}] plus [{}, {}]",
        node(x).rows, node(x).cols, node(residual).rows, node(residual).cols);
  const Id sum = own_or_copy(ready(residual));
  if (node(x).source != kNone && node(x).matrix != nullptr) {
    finish_product(x, rows_of(sum), true);
    return sum;
  }
  const float* term = rows_of(ready(x)).data;
  queue_.launch("sum", cuda::add, term, node(sum).rows * node(sum).cols, rows_of(sum).data);
  return sum;
}

Value CudaOps::reduce_add(Partial x, Value residual) {
  return handle<ActivationKind::kWhole>(sum_of(x.id(*this), residual.id(*this)));
}

Value CudaOps::add(Value x, Value residual) {
  return handle<ActivationKind::kWhole>(sum_of(x.id(*this), residual.id(*this)));
}

Value CudaOps::select_rows(const Value& x) {
  if (step_.samples_all()) return handle<ActivationKind::kWhole>(ready(x.id(*this)));
  const cuda::Rows from = rows_of(x);
  const auto rows = static_cast<int64_t>(step_.view().sampled_rows.size());
  const Id id = make(rows, x.cols());
  queue_.launch("chosen rows", cuda::copy_rows, from, step_.sampled_rows(), rows, x.cols(), rows_of(id));
  return handle<ActivationKind::kWhole>(id);
}

Value CudaOps::soft_cap(Value logits, float cap) {
  CHECK(cap > 0, "a soft cap of {}", cap);
  const Id id = own_or_copy(ready(logits.id(*this)));
  queue_.launch("soft cap", cuda::soft_cap, rows_of(id).data, logits.rows() * logits.cols(), cap);
  return handle<ActivationKind::kWhole>(id);
}

// ---- results ----

Result<std::vector<float>> CudaOps::read(const Value& x) {
  const Id id = ready(x.id(*this));
  queue_.launch("saturation", cuda::tell_saturation, kv_.saturation());
  TRY_STATUS(queue_.finish());
  std::vector<float> numbers(static_cast<size_t>(x.rows() * x.cols()));
  if (numbers.empty()) return numbers;
  TRY_STATUS(device_.copy_out(std::as_writable_bytes(std::span(numbers)), node(id).buffer.data()));
  return numbers;
}

Result<SampledRows> CudaOps::sample(const Value& logits, std::span<const SampleSpec> specs) {
  CHECK(static_cast<int64_t>(specs.size()) == logits.rows(), "{} specs for {} rows", specs.size(), logits.rows());
  return sampler_.sample(rows_of(logits), logits.cols(), specs, kv_.saturation());
}

}  // namespace vernier
