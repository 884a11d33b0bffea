#include "backends/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/cpu_vector.h"

namespace vernier {

const RowKernels& row_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::row_kernels;
  if (isa == Isa::kAvx2) return avx2::row_kernels;
#endif
  CHECK(isa == Isa::kBaseline, "no row kernels are built for {}", name(isa));
  return baseline::row_kernels;
}

CpuOps::CpuOps(Isa isa, ThreadPool& pool, CpuKvStore& kv, int64_t max_rows)
    : rows_(row_kernels(isa)),
      pool_(pool),
      kv_(kv),
      max_rows_(max_rows),
      attention_(isa, pool),
      scratch_(pool.threads()),
      experts_(rows_, pool, scratch_),
      latent_(rows_, pool, scratch_, attention_) {}

// ---- activations ----

template <ActivationKind K>
Activation<K> CpuOps::handle(Id id) {
  ++node(id).uses;
  ++live_;
  return Activation<K>(*this, id, node(id).rows, node(id).cols);
}

void CpuOps::release(int32_t id) {
  --live_;
  drop(id);
}

CpuOps::Id CpuOps::make_node(State state, int64_t rows, int64_t cols) {
  if (free_nodes_.empty()) {
    free_nodes_.push_back(static_cast<Id>(nodes_.size()));
    nodes_.emplace_back();
  }
  Id id = free_nodes_.back();
  free_nodes_.pop_back();
  node(id) = Node{};
  node(id).state = state;
  node(id).rows = rows;
  node(id).cols = cols;
  return id;
}

CpuOps::Id CpuOps::make_ready(int64_t rows, int64_t cols) {
  Id id = make_node(State::kReady, rows, cols);
  node(id).buffer = take_buffer(rows * cols);
  return id;
}

/// What will be made of `source` row by row.
CpuOps::Id CpuOps::make_pending(State state, Id source, int64_t cols) {
  Id id = make_node(state, node(source).rows, cols);
  node(id).source = source;
  ++node(source).uses;
  return id;
}

/// The smallest free buffer that fits, or else the largest, which grows.
CpuOps::Id CpuOps::take_buffer(int64_t numbers) {
  size_t best = free_buffers_.size();
  for (size_t i = 0; i < free_buffers_.size(); ++i) {
    int64_t capacity = buffers_[static_cast<size_t>(free_buffers_[i])].capacity();
    int64_t best_capacity =
        best == free_buffers_.size() ? -1 : buffers_[static_cast<size_t>(free_buffers_[best])].capacity();
    bool fits = capacity >= numbers, best_fits = best_capacity >= numbers;
    if (fits != best_fits ? fits : fits ? capacity < best_capacity : capacity > best_capacity) best = i;
  }
  if (best == free_buffers_.size()) {
    free_buffers_.push_back(static_cast<Id>(buffers_.size()));
    buffers_.emplace_back();
  }
  Id buffer = free_buffers_[best];
  free_buffers_.erase(free_buffers_.begin() + static_cast<ptrdiff_t>(best));
  buffers_[static_cast<size_t>(buffer)].reserve(numbers);
  return buffer;
}

/// One use less; the last gives back the node, its buffer and its use of its source.
void CpuOps::drop(Id id) {
  Node& dropped = node(id);
  if (--dropped.uses > 0) return;
  if (dropped.buffer != kNone) free_buffers_.push_back(dropped.buffer);
  free_nodes_.push_back(id);
  if (dropped.source != kNone) drop(dropped.source);
}

void CpuOps::begin(const StepView& step) {
  CHECK(live_ == 0, "{} activations of an earlier step still live", live_);
  CHECK(step.rows() <= max_rows_, "a step of {} rows, at most {} were asked for", step.rows(), max_rows_);
  step_ = step;
  scratch_.begin_step();
  attention_.begin(step_);
  latent_.begin(step_);
}

// ---- pending rows ----

CpuOps::RowContext CpuOps::row_context(Id id) {
  return {&rows_, &node(id), node(node(id).source).cols};
}

void CpuOps::run_row(const void* context, const float* row, float* out, int64_t cols) {
  const auto& [kernels, node, source_cols] = *static_cast<const RowContext*>(context);
  switch (node->state) {
    case State::kNorm:
      return kernels->norm(row, node->norm_weight, node->norm_eps, cols, out);
    case State::kLayerNorm:
      return kernels->layer_norm(row, node->norm_weight, node->norm_bias, node->norm_eps, cols, out);
    case State::kActivated:
      if (node->act == Act::kSilu) return kernels->silu(row, cols, out);
      return (node->act == Act::kGelu ? kernels->gelu : kernels->gelu_tanh)(row, cols, out);
    default:
      return gate_row(*kernels, node->gate, row, cols, out);
  }
}

/// Rows of a pending norm or gate, to `out` [rows, cols].
void CpuOps::compute_rows(Id id, float* out) {
  const float* x = ready(node(id).source);
  RowContext context = row_context(id);
  int64_t rows = node(id).rows, cols = node(id).cols;
  int64_t each = std::max<int64_t>(1, kNumbersPerChunk / cols);
  pool_.parallel_for(static_cast<int>((rows + each - 1) / each), [&](int chunk) {
    for (int64_t row = chunk * each; row < std::min(rows, (chunk + 1) * each); ++row) {
      run_row(&context, x + row * context.source_cols, out + row * cols, cols);
    }
  });
}

/// The numbers of a node, made now if it is pending.
const float* CpuOps::ready(Id id) {
  if (node(id).state != State::kReady) {
    Id buffer = take_buffer(node(id).rows * node(id).cols);
    float* out = buffers_[static_cast<size_t>(buffer)].data();
    if (node(id).state == State::kProduct) {
      finish_product(id, out, false);
    } else {
      compute_rows(id, out);
    }
    Node& made = node(id);
    made.state = State::kReady;
    made.buffer = buffer;
    drop(std::exchange(made.source, kNone));
  }
  return numbers(id);
}

/// output = source x matrix; a norm or gate that is taken in for the first time runs inside the product.
void CpuOps::multiply(Id source, const CpuMatrix& matrix, const LinearOutput& output) {
  Node& from = node(source);
  LinearInput input;
  input.rows = from.rows;
  input.cols = from.cols;
  if (from.state == State::kReady || from.taken) {
    input.x = ready(source);
    input.stride = input.cols;
    return vernier::linear(pool_, scratch_, matrix, input, output);
  }
  from.taken = true;
  input.x = ready(from.source);
  RowContext context = row_context(source);  // after `ready`, which may move nodes
  input.stride = context.source_cols;
  input.prologue = {run_row, &context};
  vernier::linear(pool_, scratch_, matrix, input, output);
}

void CpuOps::finish_product(Id product, float* out, bool add_into_out) {
  const Node& pending = node(product);
  multiply(pending.source, *pending.matrix, {out, pending.cols, pending.bias, add_into_out});
}

CpuOps::Id CpuOps::product_of(Id x, const PackedMatrix& matrix, const PackedVector* bias) {
  CHECK(node(x).cols == matrix.cols(), "{} columns into a matrix of {}", node(x).cols, matrix.cols());
  Id id = make_pending(State::kProduct, x, matrix.rows());
  node(id).matrix = &cpu_matrix(matrix);
  node(id).bias = CpuVector::numbers(bias, matrix.rows());
  return id;
}

// ---- ops ----

Value CpuOps::embed(const Weight<Split::kNone>& table, float scale) {
  for (int32_t token : step_.tokens) {
    CHECK(token >= 0 && token < table.outputs(), "token {} of a vocabulary of {}", token, table.outputs());
  }
  Id id = make_ready(step_.rows(), table.inputs());
  embed_rows(pool_, cpu_matrix(*table.matrix), step_.tokens, scale, numbers(id), table.inputs());
  return handle<ActivationKind::kWhole>(id);
}

Value CpuOps::table_rows(const Weight<Split::kNone>& table, std::span<const int32_t> rows, float scale) {
  for (int32_t row : rows) {
    CHECK(row >= 0 && row < table.outputs(), "row {} of a table of {}", row, table.outputs());
  }
  Id id = make_ready(step_.rows(), table.inputs());
  embed_rows(pool_, cpu_matrix(*table.matrix), rows, scale, numbers(id), table.inputs());
  return handle<ActivationKind::kWhole>(id);
}

Value CpuOps::look_up(const Weight<Split::kNone>& table, LookUp by) {
  if (by == LookUp::kPosition) return table_rows(table, step_.positions, 1);
  first_rows_.resize(std::max(first_rows_.size(), step_.tokens.size()));
  return table_rows(table, std::span(first_rows_).first(step_.tokens.size()), 1);
}

Value CpuOps::embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) {
  CHECK(spec.rows == table.outputs(), "a hash of {} rows on a table of {}", spec.rows, table.outputs());
  ngram_rows(spec, step_, ngram_rows_);
  return table_rows(table, ngram_rows_, scale);
}

Value CpuOps::rms_norm(const Value& x, const Norm& norm) {
  Id id = make_pending(State::kNorm, x.id(*this), x.cols());
  node(id).norm_weight = CpuVector::numbers(norm.weight.get(), x.cols());
  node(id).norm_eps = norm.eps;
  return handle<ActivationKind::kWhole>(id);
}

/// Made at once: a product and a residual follow, which would each make it.
Value CpuOps::layer_norm(const Value& x, const LayerNorm& norm) {
  Id id = make_pending(State::kLayerNorm, x.id(*this), x.cols());
  node(id).norm_weight = CpuVector::numbers(norm.weight.get(), x.cols());
  node(id).norm_bias = CpuVector::numbers(norm.bias.get(), x.cols());
  node(id).norm_eps = norm.eps;
  Value result = handle<ActivationKind::kWhole>(id);
  ready(id);
  return result;
}

Value CpuOps::linear(const Value& x, const Weight<Split::kNone>& weight) {
  Value result = handle<ActivationKind::kWhole>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
  ready(result.id(*this));
  return result;
}

Shard CpuOps::linear(const Value& x, const Weight<Split::kColumns>& weight) {
  Shard result = handle<ActivationKind::kShard>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
  ready(result.id(*this));
  return result;
}

Partial CpuOps::linear(const Shard& x, const Weight<Split::kRows>& weight) {
  return handle<ActivationKind::kPartial>(product_of(x.id(*this), *weight.matrix, weight.bias.get()));
}

Shard CpuOps::attend(const Shard& qkv, const AttnLayer& layer) {
  CHECK(qkv.cols() == layer.spec.q_cols() + 2 * layer.spec.kv_cols(), "{} columns for attention of {} + 2 x {}",
        qkv.cols(), layer.spec.q_cols(), layer.spec.kv_cols());
  const float* from = ready(qkv.id(*this));
  Id id = make_ready(qkv.rows(), layer.spec.q_cols());
  attention_.run(layer, kv_, from, numbers(id));
  return handle<ActivationKind::kShard>(id);
}

Shard CpuOps::attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  const LatentSpec& spec = layer.spec;
  const int64_t heads = layer.attn.spec.heads;
  CHECK(q.cols() == heads * spec.query_dim() && compressed.cols() == spec.row_dim(),
        "{} and {} columns for {} x {} and {}", q.cols(), compressed.cols(), heads, spec.query_dim(), spec.row_dim());
  const float* queries = ready(q.id(*this));
  const float* rows = ready(compressed.id(*this));
  Id id = make_ready(q.rows(), heads * spec.value_dim);
  latent_.run(layer, kv_, queries, rows, q.rows(), numbers(id));
  return handle<ActivationKind::kShard>(id);
}

Shard CpuOps::gate(const Shard& gate_up, const GateSpec& spec) {
  CHECK(gate_up.cols() % 2 == 0, "gate and up side by side in {} columns", gate_up.cols());
  Id id = make_pending(State::kGate, gate_up.id(*this), gate_up.cols() / 2);
  node(id).gate = spec;
  return handle<ActivationKind::kShard>(id);
}

Shard CpuOps::activate(const Shard& x, Act act) {
  Id id = make_pending(State::kActivated, x.id(*this), x.cols());
  node(id).act = act;
  return handle<ActivationKind::kShard>(id);
}

Partial CpuOps::experts(const Value& x, const ExpertsLayer& layer) {
  CHECK(x.cols() == layer.router.inputs(), "{} columns for experts of {}", x.cols(), layer.router.inputs());
  const float* from = ready(x.id(*this));
  Id id = make_ready(x.rows(), x.cols());
  experts_.run(layer, from, x.rows(), numbers(id));
  return handle<ActivationKind::kPartial>(id);
}

Value CpuOps::reduce(Partial x) {
  Id id = x.id(*this);
  ready(id);
  return handle<ActivationKind::kWhole>(id);
}

/// A node whose numbers may be overwritten: `id` itself where its handle is the only use, or else a copy.
CpuOps::Id CpuOps::own_or_copy(Id id) {
  const float* from = ready(id);
  if (node(id).uses == 1) return id;
  Id copy = make_ready(node(id).rows, node(id).cols);
  std::copy_n(from, node(id).rows * node(id).cols, numbers(copy));
  return copy;
}

void CpuOps::add_numbers(const float* added, int64_t count, float* out) {
  pool_.parallel_for(static_cast<int>((count + kNumbersPerChunk - 1) / kNumbersPerChunk), [&](int chunk) {
    int64_t begin = chunk * kNumbersPerChunk, size = std::min(kNumbersPerChunk, count - begin);
    rows_.add(out + begin, added + begin, size, out + begin);
  });
}

Value CpuOps::reduce_add(Partial x, Value residual) {
  CHECK(x.rows() == residual.rows() && x.cols() == residual.cols(), "[{}, {}] plus [{}, {}]", x.rows(), x.cols(),
        residual.rows(), residual.cols());
  Id product = x.id(*this);
  Id sum = own_or_copy(residual.id(*this));
  Value result = handle<ActivationKind::kWhole>(sum);
  if (node(product).state == State::kProduct) {
    finish_product(product, numbers(sum), true);
  } else {
    add_numbers(numbers(product), x.rows() * x.cols(), numbers(sum));
  }
  return result;
}

Value CpuOps::add(Value x, Value residual) {
  CHECK(x.rows() == residual.rows() && x.cols() == residual.cols(), "[{}, {}] plus [{}, {}]", x.rows(), x.cols(),
        residual.rows(), residual.cols());
  const float* added = ready(x.id(*this));
  Id sum = own_or_copy(residual.id(*this));
  add_numbers(added, x.rows() * x.cols(), numbers(sum));
  return handle<ActivationKind::kWhole>(sum);
}

Value CpuOps::select_rows(const Value& x) {
  const float* from = ready(x.id(*this));
  Id id = make_ready(static_cast<int64_t>(step_.sampled_rows.size()), x.cols());
  float* to = numbers(id);
  for (int32_t row : step_.sampled_rows) to = std::copy_n(from + row * x.cols(), x.cols(), to);
  return handle<ActivationKind::kWhole>(id);
}

Value CpuOps::soft_cap(Value logits, float cap) {
  CHECK(cap > 0, "a soft cap of {}", cap);
  Id id = own_or_copy(logits.id(*this));
  float* out = numbers(id);
  int64_t count = logits.rows() * logits.cols();
  pool_.parallel_for(static_cast<int>((count + kNumbersPerChunk - 1) / kNumbersPerChunk), [&](int chunk) {
    int64_t begin = chunk * kNumbersPerChunk;
    rows_.soft_cap(out + begin, cap, std::min(kNumbersPerChunk, count - begin), out + begin);
  });
  return handle<ActivationKind::kWhole>(id);
}

Result<std::vector<float>> CpuOps::read(const Value& x) {
  const float* from = ready(x.id(*this));
  return std::vector<float>(from, from + x.rows() * x.cols());
}

}  // namespace vernier
