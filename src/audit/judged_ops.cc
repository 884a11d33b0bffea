#include "audit/judged_ops.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "audit/judged_side.h"
#include "ops/tolerance.h"

namespace vernier {

namespace {

double largest_of(std::span<const float> numbers) {
  double largest = 0;
  for (float number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(double{number}));
  }
  return largest;
}

/// "q_proj+k_proj+v_proj" of "model.layers.0.self_attn.q_proj+model.layers.0...".
std::string short_name(const std::string& name) {
  std::string text;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('+', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const size_t dot = part.rfind('.');
    text += (text.empty() ? "" : "+") + (dot == std::string::npos ? part : part.substr(dot + 1));
    begin = end + 1;
  }
  return text;
}

/// The number behind "layers." or "layer."; -1 where there is none.
int layer_of(const std::string& name) {
  for (std::string_view list : {"layers.", "layer."}) {
    const size_t at = name.find(list);
    if (at == std::string::npos) continue;
    int layer = 0;
    const char* begin = name.data() + at + list.size();
    auto [end, failure] = std::from_chars(begin, name.data() + name.size(), layer);
    if (failure == std::errc() && end != begin) return layer;
  }
  return -1;
}

}  // namespace

JudgedOps::JudgedOps(Sides sides, NumericsReport& report, std::function<void(int)> on_layer)
    : sides_(std::move(sides)), report_(report), on_layer_(std::move(on_layer)) {}

void JudgedOps::Expected::limit_to(double relative) {
  limits.assign(reference.size(), relative * largest_of(reference));
}

void JudgedOps::begin(const StepView& step) {
  step_ = step;
  layer_ = -1;
  sides_.tested->begin(step, false);
  for (NumericsPlayer* other : {sides_.unquantised.get(), sides_.reference.get(), sides_.unrounded.get()}) {
    if (other != nullptr) other->begin(step, true);
  }
}

void JudgedOps::release(int32_t id) {
  held_[static_cast<size_t>(id)] = Held{};
  free_.push_back(id);
}

template <ActivationKind K>
Activation<K> JudgedOps::hold(Activation<K> tested, Expected expected) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(held_.size()));
    held_.emplace_back();
  }
  const int32_t id = free_.back();
  free_.pop_back();
  const int64_t rows = tested.rows(), cols = tested.cols();
  Held& held = held_[static_cast<size_t>(id)];
  held.of = std::move(tested);
  held.expected = std::move(expected);
  return Activation<K>(*this, id, rows, cols);
}

template <ActivationKind K>
Activation<K>& JudgedOps::tested(const Activation<K>& x) {
  return std::get<Activation<K>>(held_[static_cast<size_t>(x.id(*this))].of);
}

template <ActivationKind K>
const JudgedOps::Numbers& JudgedOps::numbers(const Activation<K>& x) {
  Held& held = held_[static_cast<size_t>(x.id(*this))];
  if (held.numbers.empty()) held.numbers = sides_.tested->take(std::get<Activation<K>>(held.of));
  return held.numbers;
}

std::string JudgedOps::enter(const std::string& name) {
  const int layer = layer_of(name);
  if (layer != layer_ && on_layer_) on_layer_(layer);
  layer_ = layer;
  return short_name(name);
}

void JudgedOps::judge(const Expected& expected, const Numbers& found) {
  report_.add(expected.op, layer_,
              {found, expected.reference, expected.limits, expected.unquantised, expected.by_reference});
}

template <ActivationKind K>
Activation<K> JudgedOps::judged(Activation<K> result, Expected expected) {
  Activation<K> out = hold<K>(std::move(result));
  judge(expected, numbers(out));
  return out;
}

template <class Run>
JudgedOps::Expected JudgedOps::expect_shard(std::string op, const Shard& x, double relative, const Run& run) {
  NumericsPlayer& reference = *sides_.reference;
  Expected expected{
      std::move(op), reference.take(run(reference.ops(), reference.put_shard(numbers(x), x.cols()))), {}, {}};
  expected.limit_to(relative);
  return expected;
}

template <class Run>
JudgedOps::Expected JudgedOps::expect_value(std::string op, const Value& x, double relative, const Run& run) {
  NumericsPlayer& reference = *sides_.reference;
  Expected expected{std::move(op), reference.take(run(reference.ops(), reference.put(numbers(x), x.cols()))), {}, {}};
  expected.limit_to(relative);
  return expected;
}

JudgedOps::Expected JudgedOps::expect_rows(std::string op, const Weight<Split::kNone>& table,
                                           std::span<const int32_t> rows, float scale) {
  const auto& sides = dynamic_cast<const JudgedMatrix&>(*table.matrix).sides();
  Expected expected{std::move(op), {}, {}, {}};
  Numbers row(static_cast<size_t>(table.inputs()));
  for (int32_t index : rows) {
    sides.reference->decode_row(index, row);
    for (float number : row) expected.reference.push_back(static_cast<float>(double{number} * scale));
  }
  expected.limit_to(kEmbeddingTolerance);
  return expected;
}

Value JudgedOps::embed(const Weight<Split::kNone>& table, float scale) {
  enter(table.name);
  Expected expected = expect_rows("embed", table, step_.tokens, scale);
  return judged(sides_.tested->ops().embed(side_of(table, JudgedSide::kTested), scale), std::move(expected));
}

Value JudgedOps::look_up(const Weight<Split::kNone>& table, LookUp by) {
  const std::vector<int32_t> first(by == LookUp::kFirst ? step_.tokens.size() : 0);
  const std::span<const int32_t> rows = by == LookUp::kFirst ? std::span<const int32_t>(first) : step_.positions;
  Expected expected = expect_rows(enter(table.name), table, rows, 1);
  return judged(sides_.tested->ops().look_up(side_of(table, JudgedSide::kTested), by), std::move(expected));
}

Value JudgedOps::embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float scale) {
  std::vector<int32_t> rows;
  ngram_rows(spec, step_, rows);
  Expected expected = expect_rows(enter(table.name), table, rows, scale);
  return judged(sides_.tested->ops().embed_ngrams(side_of(table, JudgedSide::kTested), spec, scale),
                std::move(expected));
}

Value JudgedOps::rms_norm(const Value& x, const Norm& norm) {
  Expected expected = expect_value(enter(norm.name), x, kNormTolerance, [&](Ops& ops, Value in) {
    return ops.rms_norm(in, side_of(norm, JudgedSide::kReference));
  });
  return judged(sides_.tested->ops().rms_norm(tested(x), side_of(norm, JudgedSide::kTested)), std::move(expected));
}

Value JudgedOps::layer_norm(const Value& x, const LayerNorm& norm) {
  Expected expected = expect_value(enter(norm.name), x, kNormTolerance, [&](Ops& ops, Value in) {
    return ops.layer_norm(in, side_of(norm, JudgedSide::kReference));
  });
  return judged(sides_.tested->ops().layer_norm(tested(x), side_of(norm, JudgedSide::kTested)), std::move(expected));
}

template <ActivationKind From, Split S>
JudgedOps::Expected JudgedOps::expect_product(const Activation<From>& x, const Weight<S>& weight) {
  const Numbers& in = numbers(x);
  const auto cols = static_cast<size_t>(x.cols()), outputs = static_cast<size_t>(weight.outputs());
  auto run = [&](NumericsPlayer& player, JudgedSide side) {
    // The cut of a weight says who has which part of it, not what the numbers are.
    const Weight<S> own = side_of(weight, side);
    const Value given = player.put(in, x.cols());
    return player.take(player.ops().linear(given, Weight<Split::kNone>{own.name, own.matrix, own.bias, {}}));
  };
  Expected expected{enter(weight.name), run(*sides_.reference, JudgedSide::kReference), {}, {}};
  if (layer_ < 0) expected.op = "head";  // a tied one has the table's name
  const auto& sides = dynamic_cast<const JudgedMatrix&>(*weight.matrix).sides();
  const Numerics numerics = sides.exact ? Numerics::kExact : sides_.numerics;
  if (sides_.unquantised && numerics == Numerics::kFast) {
    expected.unquantised = run(*sides_.unquantised, JudgedSide::kUnquantised);
  }
  expected.limits.resize(expected.reference.size());
  const bool e4m3 = numerics == Numerics::kFast && sides_.tested->rounds_to_e4m3(*sides.tested, x.rows());
  Numbers row(cols);
  for (size_t output = 0; output < outputs; ++output) {
    sides.reference->decode_row(static_cast<int64_t>(output), row);
    for (size_t i = 0; i < static_cast<size_t>(x.rows()); ++i) {
      const size_t at = i * outputs + output;
      const std::span<const float> own = std::span(in).subspan(i * cols, cols);
      expected.limits[at] = (e4m3 ? e4m3_rows_tolerance(own, row) : product_tolerance(own, row, numerics)) +
                            std::ldexp(std::abs(double{expected.reference[at]}), -23);
    }
  }
  return expected;
}

Value JudgedOps::linear(const Value& x, const Weight<Split::kNone>& weight) {
  Expected expected = expect_product(x, weight);
  return judged(sides_.tested->ops().linear(tested(x), side_of(weight, JudgedSide::kTested)), std::move(expected));
}

Shard JudgedOps::linear(const Value& x, const Weight<Split::kColumns>& weight) {
  Expected expected = expect_product(x, weight);
  return judged(sides_.tested->ops().linear(tested(x), side_of(weight, JudgedSide::kTested)), std::move(expected));
}

Partial JudgedOps::linear(const Shard& x, const Weight<Split::kRows>& weight) {
  Expected expected = expect_product(x, weight);
  return hold(sides_.tested->ops().linear(tested(x), side_of(weight, JudgedSide::kTested)), std::move(expected));
}

Shard JudgedOps::attend(const Shard& qkv, const AttnLayer& layer) {
  const CacheSpec& cache = sides_.layout.layers[static_cast<size_t>(layer.layer)];
  auto run = [&](Ops& ops, Shard in) { return ops.attend(in, side_of(layer, JudgedSide::kReference)); };
  Expected expected = expect_shard("attend", qkv, attend_tolerance(cache.stored, sides_.numerics), run);
  NumericsPlayer& unrounded = *sides_.unrounded;
  expected.unquantised = unrounded.take(run(unrounded.ops(), unrounded.put_shard(numbers(qkv), qkv.cols())));
  expected.by_reference = true;
  return judged(sides_.tested->ops().attend(tested(qkv), side_of(layer, JudgedSide::kTested)), std::move(expected));
}

Shard JudgedOps::attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  auto run = [&](NumericsPlayer& player) {
    const Shard queries = player.put_shard(numbers(q), q.cols());
    const Value rows = player.put(numbers(compressed), compressed.cols());
    return player.take(player.ops().attend_latent(queries, rows, side_of(layer, JudgedSide::kReference)));
  };
  const CacheSpec& cache = sides_.layout.layers[static_cast<size_t>(layer.attn.layer)];
  Expected expected{"attend", run(*sides_.reference), {}, run(*sides_.unrounded), true};
  // Each head's two products stand around the attention.
  expected.limit_to(attend_tolerance(cache.stored, sides_.numerics) + 2 * experts_tolerance(sides_.numerics));
  return judged(sides_.tested->ops().attend_latent(tested(q), tested(compressed), side_of(layer, JudgedSide::kTested)),
                std::move(expected));
}

Shard JudgedOps::gate(const Shard& gate_up, const GateSpec& spec) {
  Expected expected =
      expect_shard("gate", gate_up, kNormTolerance, [&](Ops& ops, Shard in) { return ops.gate(in, spec); });
  return judged(sides_.tested->ops().gate(tested(gate_up), spec), std::move(expected));
}

Shard JudgedOps::activate(const Shard& x, Act act) {
  Expected expected =
      expect_shard("activate", x, kNormTolerance, [&](Ops& ops, Shard in) { return ops.activate(in, act); });
  return judged(sides_.tested->ops().activate(tested(x), act), std::move(expected));
}

Partial JudgedOps::experts(const Value& x, const ExpertsLayer& layer) {
  enter(layer.name);
  const Numbers& in = numbers(x);
  auto run = [&](NumericsPlayer& player, JudgedSide side) {
    const Value given = player.put(in, x.cols());
    return player.take(player.ops().reduce(player.ops().experts(given, side_of(layer, side))));
  };
  Expected expected{"experts", run(*sides_.reference, JudgedSide::kReference), {}, {}};
  if (sides_.unquantised) expected.unquantised = run(*sides_.unquantised, JudgedSide::kUnquantised);
  expected.limit_to(experts_tolerance(sides_.numerics));
  return hold(sides_.tested->ops().experts(tested(x), side_of(layer, JudgedSide::kTested)), std::move(expected));
}

Value JudgedOps::reduce(Partial x) {
  Expected expected = std::move(held_[static_cast<size_t>(x.id(*this))].expected);
  return judged(sides_.tested->ops().reduce(std::move(tested(x))), std::move(expected));
}

Value JudgedOps::reduce_add(Partial x, Value residual) {
  Expected expected = std::move(held_[static_cast<size_t>(x.id(*this))].expected);
  const Numbers& rest = numbers(residual);
  for (size_t i = 0; i < rest.size(); ++i) {
    expected.reference[i] += rest[i];
    if (!expected.unquantised.empty()) expected.unquantised[i] += rest[i];
    expected.limits[i] += kSumTolerance * std::abs(double{expected.reference[i]}) + std::ldexp(std::abs(rest[i]), -23);
  }
  return judged(sides_.tested->ops().reduce_add(std::move(tested(x)), std::move(tested(residual))),
                std::move(expected));
}

Value JudgedOps::add(Value x, Value residual) {
  Expected expected{"add", numbers(x), {}, {}};
  const Numbers& rest = numbers(residual);
  for (size_t i = 0; i < rest.size(); ++i) expected.reference[i] += rest[i];
  expected.limit_to(kSumTolerance);
  return judged(sides_.tested->ops().add(std::move(tested(x)), std::move(tested(residual))), std::move(expected));
}

Value JudgedOps::select_rows(const Value& x) {
  return hold(sides_.tested->ops().select_rows(tested(x)));
}

Value JudgedOps::soft_cap(Value logits, float cap) {
  Expected expected = expect_value("soft_cap", logits, kSoftCapTolerance,
                                   [&](Ops& ops, Value in) { return ops.soft_cap(std::move(in), cap); });
  return judged(sides_.tested->ops().soft_cap(std::move(tested(logits)), cap), std::move(expected));
}

Result<SampledRows> JudgedOps::sample(const Value& logits, std::span<const SampleSpec> specs) {
  return sides_.tested->ops().sample(tested(logits), specs);
}

Result<std::vector<float>> JudgedOps::read(const Value& x) {
  return numbers(x);
}

}  // namespace vernier
