#pragma once

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/binder.h"
#include "tensor/tensor.h"

namespace vernier::testing {

/// Binds whatever a model names to random numbers of the right size for its place, equal for equal seeds, so that
/// several backends can be given the same model. Keeps the names, and says that heads are absent.
class InventedBinder : public Binder {
 public:
  InventedBinder(Backend& backend, unsigned seed) : backend_(backend), random_(seed) {}

  std::vector<std::string> names;     ///< in order of binding; a matrix with a bias says so
  std::set<std::string> stored_also;  ///< what `has` affirms

  Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule rule) override {
    names.push_back(name);
    std::vector<float> weights = numbers(size, 0.3f);
    // The rule's one is folded, or the plain weight is near it.
    for (float& weight : weights) weight = rule.scale * (weight + 1);
    TRY_BIND(auto vector, backend_.upload(weights));
    return Norm{name, std::move(vector), eps};
  }
  Result<LayerNorm> layer_norm(const std::string& name, int64_t size, float eps) override {
    TRY_BIND(Norm norm, this->norm(name, size, eps, NormRule::kPlain));
    TRY_BIND(auto bias, backend_.upload(numbers(size, 0.2f)));
    return LayerNorm{name, std::move(norm.weight), std::move(bias), eps};
  }
  Result<std::shared_ptr<const PackedVector>> vector(const std::string& name, int64_t size) override {
    names.push_back(name);
    return backend_.upload(numbers(size, 0.5f));
  }
  Result<LatentHeads> latent_heads(const std::string& name, int heads, const LatentSpec& spec) override {
    LatentHeads made;
    for (int head = 0; head < heads; ++head) {
      TRY_BIND(Bound keys,
               bind_matrix({{name, spec.rank}}, spec.nope_dim, BiasRule::kNone, Split::kNone, PackUse::kLinear));
      TRY_BIND(Bound values,
               bind_matrix({{name, spec.value_dim}}, spec.rank, BiasRule::kNone, Split::kNone, PackUse::kLinear));
      made.keys.push_back({name, std::move(keys.matrix), nullptr, {}});
      made.values.push_back({name, std::move(values.matrix), nullptr, {}});
    }
    return made;
  }
  bool has(const std::string& name) const override { return stored_also.contains(name); }

 protected:
  Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias, Split,
                            PackUse use) override {
    Bound bound;
    std::vector<QTensor> segments;
    std::vector<float> all_biases;
    for (const WeightPart& part : parts) {
      names.push_back(part.name + (bias == BiasRule::kRequired ? " with bias" : ""));
      bound.name += (bound.name.empty() ? "" : "+") + part.name;
      float spread = use == PackUse::kEmbedding ? 1.0f : 1.2f / std::sqrt(static_cast<float>(cols));
      Tensor dense = Tensor::from_floats(Shape{part.rows, cols}, numbers(part.rows * cols, spread));
      TRY_BIND(QTensor segment, QTensor::from_dense(dense, part.name));
      segments.push_back(std::move(segment));
      if (bias == BiasRule::kNone) continue;
      std::vector<float> biases = numbers(part.rows, 0.2f);
      all_biases.insert(all_biases.end(), biases.begin(), biases.end());
    }
    TRY_BIND(bound.matrix, backend_.pack(segments, use));
    if (bias == BiasRule::kRequired) {
      TRY_BIND(bound.bias, backend_.upload(all_biases));
    }
    return bound;
  }

 private:
  std::vector<float> numbers(int64_t count, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }

  Backend& backend_;
  std::mt19937 random_;
};

}  // namespace vernier::testing
