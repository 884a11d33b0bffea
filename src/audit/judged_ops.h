#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "audit/numerics_player.h"
#include "audit/numerics_report.h"

namespace vernier {

/// The ops of a JudgedBackend: each op on every side, the tested one's result compared and handed on. One thread.
class JudgedOps final : public Ops, private ActivationOwner {
 public:
  struct Sides {
    std::unique_ptr<NumericsPlayer> tested;
    std::unique_ptr<NumericsPlayer> unquantised;  ///< null where there is none
    std::unique_ptr<NumericsPlayer> reference;
    std::unique_ptr<NumericsPlayer> unrounded;  ///< the reference over a float32 cache
    KvLayout layout;
    Numerics numerics = Numerics::kFast;
  };
  JudgedOps(Sides sides, NumericsReport& report, std::function<void(int)> on_layer);

  void begin(const StepView& step) override;
  Value embed(const Weight<Split::kNone>& table, float scale) override;
  Value look_up(const Weight<Split::kNone>& table, LookUp by) override;
  Value embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) override;
  Value rms_norm(const Value& x, const Norm& norm) override;
  Value layer_norm(const Value& x, const LayerNorm& norm) override;
  Value linear(const Value& x, const Weight<Split::kNone>& weight) override;
  Shard linear(const Value& x, const Weight<Split::kColumns>& weight) override;
  Partial linear(const Shard& x, const Weight<Split::kRows>& weight) override;
  Shard attend(const Shard& qkv, const AttnLayer& layer) override;
  Shard attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) override;
  Shard gate(const Shard& gate_up, const GateSpec& spec) override;
  Shard activate(const Shard& x, Act act) override;
  Partial experts(const Value& x, const ExpertsLayer& layer) override;
  Value reduce(Partial x) override;
  Value reduce_add(Partial x, Value residual) override;
  Value add(Value x, Value residual) override;
  Value select_rows(const Value& x) override;
  Value soft_cap(Value logits, float cap) override;
  Result<SampledRows> sample(const Value& logits, std::span<const SampleSpec> specs) override;
  Result<std::vector<float>> read(const Value& x) override;

 private:
  using Numbers = std::vector<float>;

  /// What a result should be, and how far it may be from that.
  struct Expected {
    std::string op;
    Numbers reference;
    std::vector<double> limits;
    Numbers unquantised;  ///< empty where it was not computed
    bool by_reference = false;

    /// The same limit for all: `relative` to the largest number.
    void limit_to(double relative);
  };
  /// An activation of the tested side; of a partial sum, what its reduction should be.
  struct Held {
    std::variant<std::monostate, Value, Shard, Partial> of;
    Numbers numbers;  ///< once they were read
    Expected expected;
  };

  void release(int32_t id) override;
  template <ActivationKind K>
  Activation<K> hold(Activation<K> tested, Expected expected = {});
  template <ActivationKind K>
  Activation<K>& tested(const Activation<K>& x);
  /// As the tested side has them.
  template <ActivationKind K>
  const Numbers& numbers(const Activation<K>& x);
  /// Names the layer of what follows, if `name` has one; the last part of the name.
  std::string enter(const std::string& name);
  void judge(const Expected& expected, const Numbers& found);
  template <ActivationKind K>
  Activation<K> judged(Activation<K> tested, Expected expected);

  /// x W^T on every side but the tested one, and how far it may be from that.
  template <ActivationKind From, Split S>
  Expected expect_product(const Activation<From>& x, const Weight<S>& weight);
  /// Of an op on one shard, on the reference.
  template <class Run>
  Expected expect_shard(std::string op, const Shard& x, double relative, const Run& run);
  template <class Run>
  Expected expect_value(std::string op, const Value& x, double relative, const Run& run);
  Expected expect_rows(std::string op, const Weight<Split::kNone>& table, std::span<const int32_t> rows, float scale);

  Sides sides_;
  NumericsReport& report_;
  std::function<void(int)> on_layer_;
  StepView step_;
  int layer_ = -1;
  std::vector<Held> held_;
  std::vector<int32_t> free_;
};

}  // namespace vernier
