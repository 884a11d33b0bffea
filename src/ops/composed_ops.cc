#include "ops/composed_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vernier {

template <ActivationKind K>
Activation<K> ComposedOps::make(int64_t rows, int64_t cols) {
  Array array = create(rows, cols);
  if (static_cast<size_t>(array) >= uses_.size()) uses_.resize(static_cast<size_t>(array) + 1);
  uses_[static_cast<size_t>(array)] = 1;
  ++live_;
  return Activation<K>(*this, array, rows, cols);
}

/// The same array under another kind: with one rank, a reduction has nothing to add.
template <ActivationKind To, ActivationKind From>
Activation<To> ComposedOps::relabel(const Activation<From>& x) {
  ++uses_[static_cast<size_t>(x.id(*this))];
  return Activation<To>(*this, x.id(*this), x.rows(), x.cols());
}

template <ActivationKind K>
Activation<K> ComposedOps::copy(const Activation<K>& x) {
  std::vector<int32_t> rows(static_cast<size_t>(x.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  Activation<K> out = make<K>(x.rows(), x.cols());
  copy_rows(x.id(*this), rows, out.id(*this));
  return out;
}

void ComposedOps::release(int32_t id) {
  if (--uses_[static_cast<size_t>(id)] > 0) return;
  destroy(id);
  --live_;
}

void ComposedOps::begin(const StepView& step) {
  CHECK(live_ == 0, "a step began while {} activations of the one before lived", live_);
  step_ = step;
}

Value ComposedOps::embed(const Weight<Split::kNone>& table, float factor) {
  Value out = make<ActivationKind::kWhole>(step_.rows(), table.inputs());
  gather(*table.matrix, step_.tokens, out.id(*this));
  scale(out.id(*this), factor);
  return out;
}

Value ComposedOps::look_up(const Weight<Split::kNone>& table, LookUp by) {
  Value out = make<ActivationKind::kWhole>(step_.rows(), table.inputs());
  const std::vector<int32_t> first(by == LookUp::kFirst ? step_.tokens.size() : 0);
  gather(*table.matrix, by == LookUp::kFirst ? std::span<const int32_t>(first) : step_.positions, out.id(*this));
  return out;
}

Value ComposedOps::embed_ngrams(const Weight<Split::kNone>& table, const NgramSpec& spec, float factor) {
  CHECK(spec.rows == table.outputs(), "a hash of {} rows on a table of {}", spec.rows, table.outputs());
  std::vector<int32_t> rows;
  ngram_rows(spec, step_, rows);
  Value out = make<ActivationKind::kWhole>(step_.rows(), table.inputs());
  gather(*table.matrix, rows, out.id(*this));
  scale(out.id(*this), factor);
  return out;
}

Value ComposedOps::rms_norm(const Value& x, const Norm& norm) {
  CHECK(norm.weight->size() == x.cols(), "norm '{}' of {} on {} columns", norm.name, norm.weight->size(), x.cols());
  Value out = copy(x);
  normalize(out.id(*this), Heads{0, 1, static_cast<int>(x.cols())}, *norm.weight, norm.eps);
  return out;
}

Value ComposedOps::layer_norm(const Value& x, const LayerNorm& norm) {
  CHECK(norm.weight->size() == x.cols() && norm.bias->size() == x.cols(), "layer norm '{}' of {} and {} on {} columns",
        norm.name, norm.weight->size(), norm.bias->size(), x.cols());
  Value out = copy(x);
  standardize(out.id(*this), norm);
  return out;
}

template <ActivationKind To, ActivationKind From>
Activation<To> ComposedOps::product(const Activation<From>& x, const PackedMatrix& matrix, const PackedVector* bias) {
  CHECK(x.cols() == matrix.cols(), "{} columns times a matrix of {}", x.cols(), matrix.cols());
  Activation<To> out = make<To>(x.rows(), matrix.rows());
  matmul(x.id(*this), matrix, out.id(*this));
  if (bias != nullptr) add_vector(out.id(*this), *bias);
  return out;
}

Value ComposedOps::linear(const Value& x, const Weight<Split::kNone>& weight) {
  return product<ActivationKind::kWhole>(x, *weight.matrix, weight.bias.get());
}

Shard ComposedOps::linear(const Value& x, const Weight<Split::kColumns>& weight) {
  return product<ActivationKind::kShard>(x, *weight.matrix, weight.bias.get());
}

Partial ComposedOps::linear(const Shard& x, const Weight<Split::kRows>& weight) {
  return product<ActivationKind::kPartial>(x, *weight.matrix, weight.bias.get());
}

Shard ComposedOps::gate(const Shard& gate_up, const GateSpec& spec) {
  CHECK(gate_up.cols() % 2 == 0, "gate and up have {} columns together", gate_up.cols());
  Shard out = make<ActivationKind::kShard>(gate_up.rows(), gate_up.cols() / 2);
  activate_multiply(gate_up.id(*this), spec, out.id(*this));
  return out;
}

Shard ComposedOps::activate(const Shard& x, Act act) {
  Shard out = copy(x);
  activate_each(out.id(*this), act);
  return out;
}

/// The choices of all rows, [rows, spec.chosen].
std::vector<ChosenExpert> ComposedOps::route(const Value& x, const ExpertsLayer& layer) {
  const Value logits = linear(x, layer.router);
  const std::vector<float> numbers = download(logits.id(*this));
  const std::vector<float> correction = layer.correction ? download(*layer.correction) : std::vector<float>();
  const auto experts = static_cast<size_t>(layer.spec.experts), each = static_cast<size_t>(layer.spec.chosen);
  std::vector<ChosenExpert> chosen(static_cast<size_t>(x.rows()) * each);
  for (size_t row = 0; row < static_cast<size_t>(x.rows()); ++row) {
    route_row(layer.spec, std::span(numbers).subspan(row * experts, experts), correction,
              std::span(chosen).subspan(row * each, each));
  }
  return chosen;
}

Partial ComposedOps::experts(const Value& x, const ExpertsLayer& layer) {
  const ExpertsSpec& spec = layer.spec;
  CHECK(layer.router.outputs() == spec.experts && static_cast<int>(layer.gate_up.size()) == spec.weighted() &&
            static_cast<int>(layer.down.size()) == spec.weighted(),
        "{}: a router of {}, {} and {} matrices for {} experts, {} of them identity", layer.name,
        layer.router.outputs(), layer.gate_up.size(), layer.down.size(), spec.experts, spec.identity);
  const std::vector<ChosenExpert> chosen = route(x, layer);
  Partial out = make<ActivationKind::kPartial>(x.rows(), x.cols());
  clear(out.id(*this));
  for (int expert = 0; expert < spec.experts; ++expert) {
    std::vector<int32_t> rows;
    std::vector<float> weights;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i].expert != expert) continue;
      rows.push_back(static_cast<int32_t>(i / static_cast<size_t>(spec.chosen)));
      weights.push_back(chosen[i].weight);
    }
    if (rows.empty()) continue;
    Value own = make<ActivationKind::kWhole>(static_cast<int64_t>(rows.size()), x.cols());
    copy_rows(x.id(*this), rows, own.id(*this));
    if (expert >= spec.weighted()) {
      scatter_add(own.id(*this), rows, weights, out.id(*this));
      continue;
    }
    const auto at = static_cast<size_t>(expert);
    const Partial answer = linear(gate(linear(own, layer.gate_up[at]), spec.gate), layer.down[at]);
    scatter_add(answer.id(*this), rows, weights, out.id(*this));
  }
  return out;
}

Value ComposedOps::reduce(Partial x) {
  return relabel<ActivationKind::kWhole>(x);
}

Value ComposedOps::reduce_add(Partial x, Value residual) {
  return add(reduce(std::move(x)), std::move(residual));
}

Value ComposedOps::add(Value x, Value residual) {
  CHECK(x.rows() == residual.rows() && x.cols() == residual.cols(), "[{}, {}] added to a residual of [{}, {}]",
        x.rows(), x.cols(), residual.rows(), residual.cols());
  accumulate(residual.id(*this), x.id(*this));
  return residual;
}

Value ComposedOps::select_rows(const Value& x) {
  Value out = make<ActivationKind::kWhole>(static_cast<int64_t>(step_.sampled_rows.size()), x.cols());
  copy_rows(x.id(*this), step_.sampled_rows, out.id(*this));
  return out;
}

Value ComposedOps::soft_cap(Value logits, float cap) {
  CHECK(cap > 0, "a soft cap of {}", cap);
  squash(logits.id(*this), cap);
  return logits;
}

Shard ComposedOps::attend(const Shard& qkv, const AttnLayer& layer) {
  const AttnSpec& spec = layer.spec;
  CHECK(qkv.cols() == spec.q_cols() + 2 * spec.kv_cols(), "q, k and v have {} columns, expected {} + 2 x {}",
        qkv.cols(), spec.q_cols(), spec.kv_cols());
  CHECK(spec.causal || (!spec.window && !spec.sinks), "attention that is not causal has neither window nor sinks");
  CHECK(qkv.rows() == step_.rows(), "{} rows of q, k and v in a step of {}", qkv.rows(), step_.rows());
  const Heads q{0, spec.heads, spec.head_dim};
  const Heads k{spec.q_cols(), spec.kv_heads, spec.head_dim};
  const Heads v{spec.q_cols() + spec.kv_cols(), spec.kv_heads, spec.head_dim};

  Shard work = copy(qkv);
  const Array array = work.id(*this);
  if (spec.qk_norm) {
    normalize(array, q, *layer.q_norm, layer.qk_norm_eps);
    normalize(array, k, *layer.k_norm, layer.qk_norm_eps);
  }
  rotate(array, q, spec.rope);
  rotate(array, k, spec.rope);
  if (spec.causal) {
    cache_write(array, k, layer, KvRole::kKey);
    cache_write(array, v, layer, KvRole::kValue);
  }
  const FreshRows fresh = spec.causal ? fresh_rows(layer) : FreshRows::kStored;
  if (fresh == FreshRows::kRoundTrip) {
    cache_round(array, k, layer, KvRole::kKey);
    cache_round(array, v, layer, KvRole::kValue);
  }

  Shard out = make<ActivationKind::kShard>(qkv.rows(), spec.q_cols());
  for (size_t sequence = 0; sequence < step_.sequences.size(); ++sequence) {
    for (int head = 0; head < spec.kv_heads; ++head) {
      if (fresh == FreshRows::kStored) {
        attend_head(array, layer, sequence, head, out.id(*this));
      } else {
        attend_head_split(array, layer, sequence, head, out.id(*this));
      }
    }
  }
  return out;
}

/// The rotating numbers that begin at `from`, pairs half a row apart and rotated, to column `column` of `to`.
void ComposedOps::paste_rotated(Cell from, const LatentLayer& layer, Array to, int64_t column) {
  const int dim = layer.spec.rope_dim;
  const int64_t rows = step_.rows();
  Shard turned = make<ActivationKind::kShard>(rows, dim);
  for (int i = 0; i < dim; ++i) {
    Shard one = make<ActivationKind::kShard>(rows, 1);
    const int64_t source = layer.spec.neighbours ? (i < dim / 2 ? 2 * i : 2 * (i - dim / 2) + 1) : i;
    copy_block({from.array, from.row, from.first + source}, one.id(*this));
    paste(one.id(*this), {turned.id(*this), 0, i});
  }
  rotate(turned.id(*this), Heads{0, 1, dim}, layer.rope);
  paste(turned.id(*this), {to, 0, column});
}

/// Queries that meet compressed rows, and those rows as key and as value: [rows, heads * row_dim | row_dim | row_dim].
Shard ComposedOps::latent_rows(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  const LatentSpec& spec = layer.spec;
  const int heads = layer.attn.spec.heads;
  const int64_t rows = step_.rows(), row_dim = spec.row_dim(), key = heads * row_dim;
  Shard out = make<ActivationKind::kShard>(rows, key + 2 * row_dim);
  for (int head = 0; head < heads; ++head) {
    const int64_t from = int64_t{head} * spec.query_dim(), to = head * row_dim;
    paste_rotated({q.id(*this), 0, from + spec.nope_dim}, layer, out.id(*this), to);
    Value own = make<ActivationKind::kWhole>(rows, spec.nope_dim);
    copy_block({q.id(*this), 0, from}, own.id(*this));
    paste(linear(own, layer.keys[static_cast<size_t>(head)]).id(*this), {out.id(*this), 0, to + spec.rope_dim});
  }
  Value latent = make<ActivationKind::kWhole>(rows, spec.rank);
  copy_block({compressed.id(*this), 0, 0}, latent.id(*this));
  normalize(latent.id(*this), Heads{0, 1, spec.rank}, *layer.norm.weight, layer.norm.eps);
  for (int64_t to : {key, key + row_dim}) {
    paste_rotated({compressed.id(*this), 0, spec.rank}, layer, out.id(*this), to);
    paste(latent.id(*this), {out.id(*this), 0, to + spec.rope_dim});
  }
  return out;
}

Shard ComposedOps::attend_latent(const Shard& q, const Value& compressed, const LatentLayer& layer) {
  const LatentSpec& spec = layer.spec;
  const int heads = layer.attn.spec.heads;
  CHECK(q.cols() == int64_t{heads} * spec.query_dim() && compressed.cols() == spec.row_dim(),
        "queries of {} columns and rows of {}, expected {} x {} and {}", q.cols(), compressed.cols(), heads,
        spec.query_dim(), spec.row_dim());
  const Shard means = attend(latent_rows(q, compressed, layer), layer.attn);
  Shard out = make<ActivationKind::kShard>(q.rows(), int64_t{heads} * spec.value_dim);
  for (int head = 0; head < heads; ++head) {
    Value own = make<ActivationKind::kWhole>(q.rows(), spec.rank);
    copy_block({means.id(*this), 0, int64_t{head} * spec.row_dim() + spec.rope_dim}, own.id(*this));
    paste(linear(own, layer.values[static_cast<size_t>(head)]).id(*this),
          {out.id(*this), 0, int64_t{head} * spec.value_dim});
  }
  return out;
}

/// All rows of one sequence against one kv head. Keys are read back from the cache, a row's own included, so that each
/// is seen as it is stored; an encoder's, which are not stored, from the step's rows.
void ComposedOps::attend_head(Array q, const AttnLayer& layer, size_t sequence, int kv_head, Array out) {
  const AttnSpec& spec = layer.spec;
  const SequenceRows& rows = step_.sequences[sequence];
  const int group = spec.heads / spec.kv_heads;
  auto first_visible = [&](int32_t position) { return spec.window ? std::max(0, position - *spec.window + 1) : 0; };
  const CacheRange range{sequence, kv_head, first_visible(rows.first_position), rows.first_position + rows.rows};

  Shard keys = make<ActivationKind::kShard>(range.end - range.begin, spec.head_dim);
  Shard values = make<ActivationKind::kShard>(range.end - range.begin, spec.head_dim);
  if (spec.causal) {
    cache_read(layer, KvRole::kKey, range, keys.id(*this));
    cache_read(layer, KvRole::kValue, range, values.id(*this));
  } else {
    CHECK(rows.first_position == 0, "a sequence of an encoder begins at position {}", rows.first_position);
    const int64_t first = spec.q_cols() + int64_t{kv_head} * spec.head_dim;
    copy_block({q, rows.first_row, first}, keys.id(*this));
    copy_block({q, rows.first_row, first + spec.kv_cols()}, values.id(*this));
  }
  for (int32_t row = 0; row < rows.rows; ++row) {
    const int32_t position = rows.first_position + row;
    const int64_t begin = first_visible(position) - range.begin;
    const int64_t end = (spec.causal ? position + 1 : range.end) - range.begin;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const int64_t column = int64_t{head} * spec.head_dim;
      Shard scores = make<ActivationKind::kShard>(1, end - begin);
      dot_rows(Cell{q, rows.first_row + row, column}, keys.id(*this), begin, end, spec.scale, scores.id(*this));
      if (spec.soft_cap > 0) squash(scores.id(*this), spec.soft_cap);
      softmax(scores.id(*this), spec.sinks ? layer.sinks.get() : nullptr, head);
      mix_rows(scores.id(*this), values.id(*this), begin, end, Cell{out, rows.first_row + row, column});
    }
  }
}

/// The same in two parts: keys of earlier steps from the cache, those of this step from its rows. Each part has a
/// softmax of its own; their answers are weighted by what each kept of the denominator.
void ComposedOps::attend_head_split(Array q, const AttnLayer& layer, size_t sequence, int kv_head, Array out) {
  const AttnSpec& spec = layer.spec;
  const SequenceRows& rows = step_.sequences[sequence];
  const int group = spec.heads / spec.kv_heads;
  auto first_visible = [&](int32_t position) { return spec.window ? std::max(0, position - *spec.window + 1) : 0; };
  const CacheRange cached{sequence, kv_head, first_visible(rows.first_position), rows.first_position};
  struct Part {
    Shard keys, values;
    int32_t first, end;  // positions
  };
  auto part = [&](int32_t first, int32_t end) {
    return Part{make<ActivationKind::kShard>(end - first, spec.head_dim),
                make<ActivationKind::kShard>(end - first, spec.head_dim), first, end};
  };
  const Part parts[] = {part(cached.begin, cached.end), part(rows.first_position, rows.first_position + rows.rows)};
  cache_read(layer, KvRole::kKey, cached, parts[0].keys.id(*this));
  cache_read(layer, KvRole::kValue, cached, parts[0].values.id(*this));
  const int64_t column = spec.q_cols() + int64_t{kv_head} * spec.head_dim;
  copy_block({q, rows.first_row, column}, parts[1].keys.id(*this));
  copy_block({q, rows.first_row, column + spec.kv_cols()}, parts[1].values.id(*this));

  for (int32_t row = 0; row < rows.rows; ++row) {
    const int32_t position = rows.first_position + row;
    const int used = first_visible(position) < cached.end ? 2 : 1;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Cell query{q, rows.first_row + row, int64_t{head} * spec.head_dim};
      Shard answers = make<ActivationKind::kShard>(used, spec.head_dim);
      Shard lse = make<ActivationKind::kShard>(1, used);
      for (int i = 0; i < used; ++i) {
        const Part& of = parts[2 - used + i];
        const int64_t begin = std::max(first_visible(position), of.first) - of.first;
        const int64_t end = std::min(position + 1, of.end) - of.first;
        Shard scores = make<ActivationKind::kShard>(1, end - begin);
        dot_rows(query, of.keys.id(*this), begin, end, spec.scale, scores.id(*this));
        if (spec.soft_cap > 0) squash(scores.id(*this), spec.soft_cap);
        part_softmax(scores.id(*this), {lse.id(*this), 0, i});
        mix_rows(scores.id(*this), of.values.id(*this), begin, end, {answers.id(*this), i, 0});
      }
      merge_parts(answers.id(*this), lse.id(*this), spec.sinks ? layer.sinks.get() : nullptr, head,
                  {out, rows.first_row + row, int64_t{head} * spec.head_dim});
    }
  }
}

Result<SampledRows> ComposedOps::sample(const Value& logits, std::span<const SampleSpec> specs) {
  CHECK(static_cast<int64_t>(specs.size()) == logits.rows(), "{} sample specs for {} rows", specs.size(),
        logits.rows());
  std::vector<float> numbers = download(logits.id(*this));
  SampledRows tokens;
  for (size_t row = 0; row < specs.size(); ++row) {
    std::span<float> all(numbers);
    const size_t vocab = static_cast<size_t>(logits.cols());
    tokens.push_back(sample_row(all.subspan(row * vocab, vocab), specs[row]));
  }
  return tokens;
}

Result<std::vector<float>> ComposedOps::read(const Value& x) {
  return download(x.id(*this));
}

}  // namespace vernier
