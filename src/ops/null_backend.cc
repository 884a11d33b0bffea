#include "ops/null_backend.h"

#include <algorithm>
#include <utility>

#include "ops/pack_info.h"

namespace vernier {
namespace {

class NullMatrix final : public PackedMatrix {
 public:
  NullMatrix(int64_t rows, int64_t cols, PackedInfo info) : PackedMatrix(rows, cols), info_(std::move(info)) {}
  PackedInfo info() const override { return info_; }

 private:
  PackedInfo info_;
};

class NullVector final : public PackedVector {
 public:
  explicit NullVector(int64_t size) : PackedVector(size) {}
};

class NullKvStore final : public KvStore {
 public:
  explicit NullKvStore(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }

 private:
  int64_t bytes_;
};

const char* describe(Act act) {
  return act == Act::kSilu ? "silu" : act == Act::kGeluTanh ? "gelu_tanh" : "gelu";
}

std::string describe(const GateSpec& spec) {
  std::string text = describe(spec.act);
  if (spec.limit > 0) text += fmt::format(", clamped at {:g}", spec.limit);
  if (spec.slope != 1) text += fmt::format(", slope {:g}", spec.slope);
  if (spec.up_offset != 0) text += fmt::format(", up + {:g}", spec.up_offset);
  return text;
}

std::string describe(const AttnSpec& spec) {
  std::string text =
      fmt::format("{}/{} heads of {}, scale {:.6g}", spec.heads, spec.kv_heads, spec.head_dim, spec.scale);
  if (spec.window) text += fmt::format(", window {}", *spec.window);
  if (spec.soft_cap > 0) text += fmt::format(", soft cap {:g}", spec.soft_cap);
  if (spec.sinks) text += ", sinks";
  if (spec.qk_norm) text += ", qk-norm";
  if (!spec.causal) text += ", all see all";
  return spec.rope.dim == 0 ? text : text + ", rope " + spec.rope.to_string();
}

}  // namespace

template <ActivationKind K>
Activation<K> NullOps::make(int64_t rows, int64_t cols) {
  bytes_.push_back(rows * cols * static_cast<int64_t>(sizeof(float)));
  live_bytes_ += bytes_.back();
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  ++live_;
  return Activation<K>(*this, static_cast<int32_t>(bytes_.size() - 1), rows, cols);
}

void NullOps::release(int32_t id) {
  live_bytes_ -= bytes_[static_cast<size_t>(id)];
  --live_;
}

void NullOps::begin(const StepView& step) {
  CHECK(live_ == 0, "a step began while {} activations of the one before lived", live_);
  CHECK(step.rows() <= max_rows_, "a step of {} rows, at most {} were asked for", step.rows(), max_rows_);
  step_ = step;
  bytes_.clear();
}

Value NullOps::embed(const Weight<Split::kNone>& table, float scale) {
  trace_.push_back(fmt::format("embed {} x{:.6g} -> [{}, {}]", table.name, scale, step_.rows(), table.inputs()));
  return make<ActivationKind::kWhole>(step_.rows(), table.inputs());
}

Value NullOps::look_up(const Weight<Split::kNone>& table, LookUp by) {
  trace_.push_back(fmt::format("look_up {} by {} -> [{}, {}]", table.name,
                               by == LookUp::kPosition ? "position" : "its first row", step_.rows(), table.inputs()));
  return make<ActivationKind::kWhole>(step_.rows(), table.inputs());
}

Value NullOps::embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) {
  CHECK(spec.rows == table.outputs(), "a hash of {} rows on a table of {}", spec.rows, table.outputs());
  trace_.push_back(fmt::format("embed_ngrams {} of {} tokens, ended by {}, x{:.6g} -> [{}, {}]", table.name, spec.order,
                               spec.end_token, scale, step_.rows(), table.inputs()));
  return make<ActivationKind::kWhole>(step_.rows(), table.inputs());
}

Value NullOps::rms_norm(const Value& x, const Norm& norm) {
  CHECK(norm.weight->size() == x.cols(), "norm '{}' of {} on {} columns", norm.name, norm.weight->size(), x.cols());
  trace_.push_back(fmt::format("rms_norm {} eps {:.6g} [{}, {}]", norm.name, norm.eps, x.rows(), x.cols()));
  return make<ActivationKind::kWhole>(x.rows(), x.cols());
}

Value NullOps::layer_norm(const Value& x, const LayerNorm& norm) {
  CHECK(norm.weight->size() == x.cols() && norm.bias->size() == x.cols(), "layer norm '{}' of {} and {} on {} columns",
        norm.name, norm.weight->size(), norm.bias->size(), x.cols());
  trace_.push_back(fmt::format("layer_norm {} eps {:.6g} [{}, {}]", norm.name, norm.eps, x.rows(), x.cols()));
  return make<ActivationKind::kWhole>(x.rows(), x.cols());
}

template <Split S>
void NullOps::check_product(int64_t cols, const Weight<S>& weight) {
  CHECK(cols == weight.inputs(), "{} columns times '{}' of {}", cols, weight.name, weight.inputs());
  CHECK(weight.bias == nullptr || weight.bias->size() == weight.outputs(), "a bias of {} on {} outputs",
        weight.bias->size(), weight.outputs());
}

template <ActivationKind To, ActivationKind From, Split S>
Activation<To> NullOps::product(const Activation<From>& x, const Weight<S>& weight) {
  check_product(x.cols(), weight);
  constexpr const char* kCut = S == Split::kNone ? "whole" : S == Split::kColumns ? "columns" : "rows";
  trace_.push_back(fmt::format("linear {} {}{} [{}, {}] -> [{}, {}]", weight.name, kCut,
                               weight.bias != nullptr ? " + bias" : "", x.rows(), x.cols(), x.rows(),
                               weight.outputs()));
  return make<To>(x.rows(), weight.outputs());
}

Value NullOps::linear(const Value& x, const Weight<Split::kNone>& weight) {
  return product<ActivationKind::kWhole>(x, weight);
}

Shard NullOps::linear(const Value& x, const Weight<Split::kColumns>& weight) {
  return product<ActivationKind::kShard>(x, weight);
}

Partial NullOps::linear(const Shard& x, const Weight<Split::kRows>& weight) {
  return product<ActivationKind::kPartial>(x, weight);
}

Shard NullOps::attend(const Shard& qkv, const AttnLayer& layer) {
  const AttnSpec& spec = layer.spec;
  CHECK(qkv.cols() == spec.q_cols() + 2 * spec.kv_cols(), "q, k and v have {} columns, expected {} + 2 x {}",
        qkv.cols(), spec.q_cols(), spec.kv_cols());
  CHECK(spec.qk_norm == (layer.q_norm != nullptr && layer.k_norm != nullptr), "qk-norm without its weights");
  CHECK(spec.sinks == (layer.sinks != nullptr), "sinks without their numbers");
  trace_.push_back(fmt::format("attend layer {} class {}: {} [{}, {}]", layer.layer, layer.cache_class, describe(spec),
                               qkv.rows(), qkv.cols()));
  return make<ActivationKind::kShard>(qkv.rows(), spec.q_cols());
}

Shard NullOps::attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  const LatentSpec& spec = layer.spec;
  const AttnSpec& attn = layer.attn.spec;
  const auto heads = static_cast<size_t>(attn.heads);
  CHECK(q.cols() == int64_t{attn.heads} * spec.query_dim() && compressed.cols() == spec.row_dim(),
        "queries of {} columns and rows of {}, expected {} x {} and {}", q.cols(), compressed.cols(), attn.heads,
        spec.query_dim(), spec.row_dim());
  CHECK(layer.keys.size() == heads && layer.values.size() == heads, "{} and {} matrices for {} heads",
        layer.keys.size(), layer.values.size(), attn.heads);
  CHECK(attn.kv_heads == 1 && attn.head_dim == spec.row_dim() && attn.rope.dim == 0, "{} KV heads of {} for rows of {}",
        attn.kv_heads, attn.head_dim, spec.row_dim());
  CHECK(layer.norm.weight->size() == spec.rank, "a norm of {} on {} numbers", layer.norm.weight->size(), spec.rank);
  for (size_t head = 0; head < heads; ++head) {
    check_product(spec.nope_dim, layer.keys[head]);
    check_product(spec.rank, layer.values[head]);
    CHECK(layer.keys[head].outputs() == spec.rank && layer.values[head].outputs() == spec.value_dim,
          "head {}: {} and {} outputs", head, layer.keys[head].outputs(), layer.values[head].outputs());
  }
  trace_.push_back(fmt::format(
      "attend_latent layer {} class {}: rows of {} + {}, heads of {} + {} and {}; {}, rope {}{} "
      "[{}, {}]",
      layer.attn.layer, layer.attn.cache_class, spec.rank, spec.rope_dim, spec.nope_dim, spec.rope_dim, spec.value_dim,
      describe(attn), layer.rope.to_string(), spec.neighbours ? ", pairs side by side" : "", q.rows(), q.cols()));
  const auto rows = make<ActivationKind::kShard>(q.rows(), int64_t{attn.heads + 2} * spec.row_dim());
  const auto means = make<ActivationKind::kShard>(q.rows(), int64_t{attn.heads} * spec.row_dim());
  return make<ActivationKind::kShard>(q.rows(), int64_t{attn.heads} * spec.value_dim);
}

Shard NullOps::gate(const Shard& gate_up, const GateSpec& spec) {
  CHECK(gate_up.cols() % 2 == 0, "gate and up have {} columns together", gate_up.cols());
  trace_.push_back(fmt::format("gate {} [{}, {}]", describe(spec), gate_up.rows(), gate_up.cols()));
  return make<ActivationKind::kShard>(gate_up.rows(), gate_up.cols() / 2);
}

Shard NullOps::activate(const Shard& x, Act act) {
  trace_.push_back(fmt::format("activate {} [{}, {}]", describe(act), x.rows(), x.cols()));
  return make<ActivationKind::kShard>(x.rows(), x.cols());
}

Partial NullOps::experts(const Value& x, const ExpertsLayer& layer) {
  const ExpertsSpec& spec = layer.spec;
  const auto experts = static_cast<size_t>(spec.weighted());
  CHECK(layer.gate_up.size() == experts && layer.down.size() == experts, "{}: {} and {} matrices for {} experts",
        layer.name, layer.gate_up.size(), layer.down.size(), experts);
  check_product(x.cols(), layer.router);
  CHECK(layer.router.outputs() == spec.experts, "a router of {} for {} experts", layer.router.outputs(), spec.experts);
  CHECK(layer.correction == nullptr || layer.correction->size() == spec.experts, "{} corrections for {} experts",
        layer.correction->size(), spec.experts);
  for (size_t i = 0; i < experts; ++i) {
    check_product(x.cols(), layer.gate_up[i]);
    check_product(spec.width, layer.down[i]);
    CHECK(layer.gate_up[i].outputs() == 2 * spec.width && layer.down[i].outputs() == x.cols(),
          "expert {} of {}: {} and {} outputs for a width of {} on {} columns", i, layer.name,
          layer.gate_up[i].outputs(), layer.down[i].outputs(), spec.width, x.cols());
  }
  const bool biased = layer.gate_up.front().bias != nullptr;
  trace_.push_back(fmt::format("experts {}: {}, {}{}{}{} [{}, {}]", layer.name, spec.to_string(),
                               describe(spec.gate.act), layer.router.bias != nullptr ? ", router + bias" : "",
                               layer.correction != nullptr ? ", scores corrected" : "",
                               biased ? ", experts + bias" : "", x.rows(), x.cols()));
  // Meanwhile: the logits and, at most, all rows at one expert.
  const auto logits = make<ActivationKind::kWhole>(x.rows(), spec.experts);
  const auto gate_up = make<ActivationKind::kShard>(x.rows(), 2 * spec.width);
  return make<ActivationKind::kPartial>(x.rows(), x.cols());
}

Value NullOps::reduce(Partial x) {
  trace_.push_back(fmt::format("reduce [{}, {}]", x.rows(), x.cols()));
  return make<ActivationKind::kWhole>(x.rows(), x.cols());
}

Value NullOps::reduce_add(Partial x, Value residual) {
  CHECK(x.rows() == residual.rows() && x.cols() == residual.cols(), "[{}, {}] added to a residual of [{}, {}]",
        x.rows(), x.cols(), residual.rows(), residual.cols());
  trace_.push_back(fmt::format("reduce_add [{}, {}]", x.rows(), x.cols()));
  return residual;
}

Value NullOps::add(Value x, Value residual) {
  CHECK(x.rows() == residual.rows() && x.cols() == residual.cols(), "[{}, {}] added to a residual of [{}, {}]",
        x.rows(), x.cols(), residual.rows(), residual.cols());
  trace_.push_back(fmt::format("add [{}, {}]", x.rows(), x.cols()));
  return residual;
}

Value NullOps::select_rows(const Value& x) {
  const int64_t rows = static_cast<int64_t>(step_.sampled_rows.size());
  trace_.push_back(fmt::format("select_rows [{}, {}] -> [{}, {}]", x.rows(), x.cols(), rows, x.cols()));
  return make<ActivationKind::kWhole>(rows, x.cols());
}

Value NullOps::soft_cap(Value logits, float cap) {
  CHECK(cap > 0, "a soft cap of {}", cap);
  trace_.push_back(fmt::format("soft_cap {:g} [{}, {}]", cap, logits.rows(), logits.cols()));
  return logits;
}

Result<SampledRows> NullOps::sample(const Value&, std::span<const SampleSpec>) {
  return unsupported("a dry run has no logits to draw from; choose a backend that computes");
}

Result<std::vector<float>> NullOps::read(const Value&) {
  return unsupported("a dry run has no numbers to read; choose a backend that computes");
}

Features NullBackend::features() const {
  return Features{"nothing: shapes and bytes", "none", 1, Numerics::kExact};
}

Result<std::shared_ptr<const PackedMatrix>> NullBackend::pack(std::span<const QTensor> segments, PackUse) {
  TRY_STATUS(check_segments(segments));
  int64_t rows = 0;
  for (const QTensor& segment : segments) rows += segment.rows();
  PackedInfo info = describe_segments(segments, "as stored");
  weight_bytes_ += info.bytes;
  return std::shared_ptr<const PackedMatrix>(std::make_shared<NullMatrix>(rows, segments[0].cols(), std::move(info)));
}

Result<std::shared_ptr<const PackedVector>> NullBackend::upload(std::span<const float> values) {
  weight_bytes_ += static_cast<int64_t>(values.size_bytes());
  return std::shared_ptr<const PackedVector>(std::make_shared<NullVector>(static_cast<int64_t>(values.size())));
}

Result<std::unique_ptr<KvStore>> NullBackend::make_kv(const KvLayout& layout) {
  TRY_STATUS(check_layout(layout));
  return std::unique_ptr<KvStore>(std::make_unique<NullKvStore>(layout_bytes(layout)));
}

Result<std::unique_ptr<Ops>> NullBackend::make_ops(KvStore&, int64_t max_rows) {
  return std::unique_ptr<Ops>(std::make_unique<NullOps>(max_rows));
}

std::vector<Choice> NullBackend::explain_linear(const PackedMatrix& matrix, int64_t batch_rows) const {
  return {only_choice(linear_problem(matrix, batch_rows), "none", matrix.info().layout)};
}

Choice NullBackend::explain_attend(const AttnSpec& spec, const CacheSpec& cache, int64_t batch_rows) const {
  return only_choice(attend_problem(spec, cache, batch_rows), "none", "none");
}

}  // namespace vernier
