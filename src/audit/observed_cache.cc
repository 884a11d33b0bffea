#include "audit/observed_cache.h"

#include <algorithm>
#include <cmath>

#include "tensor/tensor.h"

namespace vernier {
namespace {

/// Passes everything on; attention's rows are looked at on their way.
class ObservingOps final : public Ops {
 public:
  ObservingOps(ObservingBackend& backend, std::unique_ptr<Ops> inner) : backend_(backend), inner_(std::move(inner)) {}

  void begin(const StepView& step) override {
    step_ = step;
    inner_->begin(step);
  }
  Value embed(const Weight<Split::kNone>& table, float scale) override { return inner_->embed(table, scale); }
  Value look_up(const Weight<Split::kNone>& table, LookUp by) override { return inner_->look_up(table, by); }
  Value embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) override {
    return inner_->embed_ngrams(table, spec, scale);
  }
  Value rms_norm(const Value& x, const Norm& norm) override { return inner_->rms_norm(x, norm); }
  Value layer_norm(const Value& x, const LayerNorm& norm) override { return inner_->layer_norm(x, norm); }
  Value linear(const Value& x, const Weight<Split::kNone>& weight) override { return inner_->linear(x, weight); }
  Shard linear(const Value& x, const Weight<Split::kColumns>& weight) override { return inner_->linear(x, weight); }
  Partial linear(const Shard& x, const Weight<Split::kRows>& weight) override { return inner_->linear(x, weight); }
  Shard attend(const Shard& qkv, const AttnLayer& layer) override {
    auto columns = backend_.key_value_columns(qkv.cols(), 2 * layer.spec.kv_cols());
    CHECK(columns.ok(), "{}", columns.ok() ? "" : columns.error().to_string());
    Result<std::vector<float>> rows = inner_->read(inner_->reduce(inner_->linear(qkv, *columns)));
    CHECK(rows.ok(), "{}", rows.ok() ? "" : rows.error().to_string());
    backend_.see(layer, step_.positions, *rows);
    return inner_->attend(qkv, layer);
  }
  Shard attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) override {
    Result<std::vector<float>> rows = inner_->read(compressed);
    CHECK(rows.ok(), "{}", rows.ok() ? "" : rows.error().to_string());
    backend_.see(layer, step_.positions, *rows);
    return inner_->attend_latent(q, compressed, layer);
  }
  Shard gate(const Shard& gate_up, const GateSpec& spec) override { return inner_->gate(gate_up, spec); }
  Shard activate(const Shard& x, Act act) override { return inner_->activate(x, act); }
  Partial experts(const Value& x, const ExpertsLayer& layer) override { return inner_->experts(x, layer); }
  Value reduce(Partial x) override { return inner_->reduce(std::move(x)); }
  Value reduce_add(Partial x, Value residual) override { return inner_->reduce_add(std::move(x), std::move(residual)); }
  Value add(Value x, Value residual) override { return inner_->add(std::move(x), std::move(residual)); }
  Value select_rows(const Value& x) override { return inner_->select_rows(x); }
  Value soft_cap(Value logits, float cap) override { return inner_->soft_cap(std::move(logits), cap); }
  Result<SampledRows> sample(const Value& logits, std::span<const SampleSpec> specs) override {
    return inner_->sample(logits, specs);
  }
  Result<std::vector<float>> read(const Value& x) override { return inner_->read(x); }

 private:
  ObservingBackend& backend_;
  std::unique_ptr<Ops> inner_;
  StepView step_;
};

/// NaN stays: it must not pass for a small number.
void raise(float& most, float value) {
  if (!std::isnan(most) && !(value <= most)) most = value;
}

void norm(std::span<float> x, std::span<const float> weight, float eps) {
  double squares = 0;
  for (float value : x) squares += double{value} * value;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{eps});
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(x[i] * factor * weight[i]);
}

/// The largest magnitude of a head after its pairs are turned; pair i is (first[i], second[i]).
float largest_turned(std::span<const float> x, std::span<const float> frequencies, float magnitude, bool neighbours,
                     int32_t position) {
  float most = 0;
  const size_t pairs = frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = double{frequencies[i]} * position;
    const double low = x[neighbours ? 2 * i : i], high = x[neighbours ? 2 * i + 1 : i + pairs];
    const double cosine = std::cos(angle), sine = std::sin(angle);
    raise(most, static_cast<float>(std::abs(low * cosine - high * sine) * double{magnitude}));
    raise(most, static_cast<float>(std::abs(high * cosine + low * sine) * double{magnitude}));
  }
  for (size_t i = 2 * pairs; i < x.size(); ++i) raise(most, std::abs(x[i]));
  return most;
}

float largest_magnitude(std::span<const float> x) {
  float most = 0;
  for (float value : x) raise(most, std::abs(value));
  return most;
}

LargestNumbers& numbers_of(std::map<int, LargestNumbers>& all, int layer, int kv_heads) {
  LargestNumbers& of_layer = all[layer];
  of_layer.k.resize(static_cast<size_t>(kv_heads));
  of_layer.v.resize(static_cast<size_t>(kv_heads));
  return of_layer;
}

}  // namespace

Result<std::shared_ptr<const PackedVector>> ObservingBackend::upload(std::span<const float> values) {
  TRY_BIND(std::shared_ptr<const PackedVector> vector, inner_->upload(values));
  uploaded_[vector.get()] = {values.begin(), values.end()};
  return vector;
}

Result<std::unique_ptr<KvStore>> ObservingBackend::make_kv(const KvLayout& layout) {
  return inner_->make_kv(layout);
}

Result<std::unique_ptr<Ops>> ObservingBackend::make_ops(KvStore& kv, int64_t max_rows) {
  TRY_BIND(std::unique_ptr<Ops> ops, inner_->make_ops(kv, max_rows));
  return std::unique_ptr<Ops>(std::make_unique<ObservingOps>(*this, std::move(ops)));
}

const std::vector<float>& ObservingBackend::numbers(const PackedVector* vector) const {
  const auto found = uploaded_.find(vector);
  CHECK(found != uploaded_.end(), "the vector belongs to another backend");
  return found->second;
}

Result<Weight<Split::kRows>> ObservingBackend::key_value_columns(int64_t cols, int64_t kept) {
  Weight<Split::kRows>& weight = columns_[{cols, kept}];
  if (weight.matrix != nullptr) return weight;
  std::vector<float> ones(static_cast<size_t>(kept * cols));
  for (int64_t i = 0; i < kept; ++i) ones[static_cast<size_t>(i * cols + cols - kept + i)] = 1;
  TRY_BIND(const QTensor tensor, QTensor::from_dense(Tensor::from_floats(Shape{kept, cols}, ones), "keys and values"));
  // As a router: exact whatever the numerics.
  TRY_BIND(weight.matrix, inner_->pack({&tensor, 1}, PackUse::kRouter));
  weight.name = "keys and values";
  return weight;
}

void ObservingBackend::see(const AttnLayer& layer, std::span<const int32_t> positions,
                           std::span<const float> keys_and_values) {
  const AttnSpec& spec = layer.spec;
  const auto dim = static_cast<size_t>(spec.head_dim), heads = static_cast<size_t>(spec.kv_heads);
  const std::vector<float> frequencies = spec.rope.dim > 0 ? spec.rope.frequencies() : std::vector<float>();
  const float magnitude = spec.rope.dim > 0 ? spec.rope.magnitude() : 1;
  LargestNumbers& most = numbers_of(largest_, layer.layer, spec.kv_heads);
  std::vector<float> key(dim);
  for (size_t row = 0; row < positions.size(); ++row) {
    const auto of_row = keys_and_values.subspan(row * 2 * heads * dim, 2 * heads * dim);
    for (size_t head = 0; head < heads; ++head) {
      const auto stored = of_row.subspan(head * dim, dim);
      std::copy(stored.begin(), stored.end(), key.begin());
      if (spec.qk_norm) norm(key, numbers(layer.k_norm.get()), layer.qk_norm_eps);
      raise(most.k[head], largest_turned(key, frequencies, magnitude, false, positions[row]));
      raise(most.v[head], largest_magnitude(of_row.subspan((heads + head) * dim, dim)));
    }
  }
}

void ObservingBackend::see(const LatentLayer& layer, std::span<const int32_t> positions, std::span<const float> rows) {
  const LatentSpec& spec = layer.spec;
  const auto rank = static_cast<size_t>(spec.rank), row_dim = static_cast<size_t>(spec.row_dim());
  const std::vector<float> frequencies = layer.rope.frequencies();
  LargestNumbers& most = numbers_of(largest_, layer.attn.layer, 1);
  for (size_t row = 0; row < positions.size(); ++row) {
    std::vector<float> own(rows.begin() + static_cast<std::ptrdiff_t>(row * row_dim),
                           rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * row_dim));
    const std::span<float> all(own);
    norm(all.first(rank), numbers(layer.norm.weight.get()), layer.norm.eps);
    raise(most.k[0], largest_magnitude(all.first(rank)));
    raise(most.k[0],
          largest_turned(all.subspan(rank), frequencies, layer.rope.magnitude(), spec.neighbours, positions[row]));
    most.v[0] = most.k[0];
  }
}

}  // namespace vernier
