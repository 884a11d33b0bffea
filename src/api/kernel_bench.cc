#include "api/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/clock.h"
#include "engine/sequence_runner.h"
#include "models/registry.h"
#include "tensor/qtensor.h"

namespace vernier {
namespace {

constexpr int kBlockTokens = 64;
constexpr int kWords = 64;  // different tokens

std::vector<float> normal_numbers(int64_t count, double spread) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

/// A matrix whose first rows, as many as a scale acts on and at least 16, come again and again.
Result<QTensor> repeating(const Codec& codec, int64_t rows, int64_t cols) {
  const int64_t few = std::min(rows, std::max<int64_t>(16, codec.group_rows));
  const double spread = 1 / std::sqrt(static_cast<double>(cols));
  TRY_BIND(const QTensor first, encode(codec, few, cols, normal_numbers(few * cols, spread)));
  std::vector<QTensor> parts(static_cast<size_t>(rows / few), first);
  if (rows % few > 0) {
    TRY_BIND(QTensor rest, encode(codec, rows % few, cols, normal_numbers(rows % few * cols, spread)));
    parts.push_back(std::move(rest));
  }
  return QTensor::concat_rows(parts);
}

template <Split S>
Result<Weight<S>> random_weight(Backend& backend, const Codec& codec, int64_t rows, int64_t cols,
                                PackUse use = PackUse::kLinear) {
  Weight<S> weight;
  TRY_BIND(const QTensor matrix, repeating(codec, rows, cols));
  TRY_BIND(weight.matrix, backend.pack({&matrix, 1}, use));
  return weight;
}

const Codec& codec_of(CodecId id) {
  static const Codec kE4M3Blocks = block_codec(CodecId::kE4M3Block, 128, 128, ScaleType::kF32);
  return id == CodecId::kE4M3Block ? kE4M3Blocks : codec(id);
}

int buffers(const BenchEffort& effort, double bytes_each) {
  return std::clamp(static_cast<int>(std::ceil(effort.other_bytes / bytes_each)), 1, effort.many);
}

/// Rows of one sequence from a position on, and its blocks.
class Sequence {
 public:
  explicit Sequence(int tokens) : blocks_(static_cast<size_t>(tokens / kBlockTokens + 1)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::ranges::shuffle(blocks_, std::mt19937(3));
    begin_ = {0, blocks()};
  }
  int32_t blocks() const { return static_cast<int32_t>(blocks_.size()); }

  const StepView& rows(int position, int count) {
    positions_.resize(static_cast<size_t>(count));
    std::iota(positions_.begin(), positions_.end(), position);
    tokens_.resize(positions_.size());
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = (positions_[i] * 7 + positions_[i] / kWords) % kWords;
    sequence_ = {0, count, position};
    table_ = {kBlockTokens, blocks_, begin_, first_position_};
    view_ = {tokens_, positions_, {&sequence_, 1}, {&table_, 1}, {}};
    return view_;
  }

 private:
  std::vector<int32_t> blocks_, begin_, first_position_{0}, positions_, tokens_;
  SequenceRows sequence_;
  CacheTable table_;
  StepView view_;
};

/// Seconds of one of a step's launches. `step(n)` runs one with n of them to its end.
template <class Step>
Result<double> seconds_each(const BenchEffort& effort, int few, int many, Step step) {
  const auto best_of = [&](int launches) -> Result<double> {
    double best = 1e30;
    for (int i = 0; i < effort.rounds + 2; ++i) {  // the first ones make graphs
      Stopwatch watch;
      TRY_STATUS(step(launches));
      if (i >= 2) best = std::min(best, watch.elapsed_seconds());
    }
    return best;
  };
  TRY_BIND(const double short_step, best_of(few));
  TRY_BIND(const double long_step, best_of(many));
  return std::max(long_step - short_step, 1e-9) / (many - few);
}

/// A step's rows of numbers, out of a table of random ones.
class RandomRows {
 public:
  static Result<RandomRows> make(Backend& backend, int64_t cols) {
    RandomRows rows;
    TRY_BIND(const QTensor words, encode(codec(CodecId::kF32), kWords, kWords, normal_numbers(kWords * kWords, 1)));
    TRY_BIND(rows.embed_.matrix, backend.pack({&words, 1}, PackUse::kEmbedding));
    TRY_BIND(rows.widen_, random_weight<Split::kColumns>(backend, codec(CodecId::kF32), cols, kWords));
    return rows;
  }
  Value words(Ops& ops) const { return ops.embed(embed_, 1); }
  Shard wide(Ops& ops, const Value& words) const { return ops.linear(words, widen_); }

 private:
  Weight<Split::kNone> embed_;
  Weight<Split::kColumns> widen_;
};

Result<KernelTime> measure(Backend& backend, const AttendWork& work, const BenchEffort& effort) {
  CacheSpec cache;
  cache.stored = work.stored, cache.kv_heads = work.kv_heads, cache.head_dim = work.head_dim;
  if (work.window > 0) cache.window = work.window;
  if (has_cache_scale(work.stored)) cache.k_scale = 0.03f, cache.v_scale = 0.07f;
  KernelTime time{0, work.bytes(), work.operations()};
  const int layers = work.prompt > 0 ? 1 : buffers(effort, static_cast<double>(cache.bytes_per_token()) * work.depth);
  Sequence sequence(std::max(work.depth + 1, work.prompt));
  KvLayout layout{{}, {sequence.blocks()}, kBlockTokens};
  layout.layers.assign(static_cast<size_t>(layers), cache);
  for (int i = 0; i < layers; ++i) layout.layers[static_cast<size_t>(i)].layer = i;
  TRY_BIND(const auto kv, backend.make_kv(layout));
  TRY_BIND(const auto ops, backend.make_ops(*kv, std::max(work.prompt, effort.tokens_a_chunk)));
  AttnLayer layer;
  layer.spec = work.spec();
  TRY_BIND(const RandomRows rows, RandomRows::make(backend, layer.spec.q_cols() + 2 * layer.spec.kv_cols()));
  const auto step = [&](const StepView& view, int launches) -> Status {
    ops->begin(view);
    const Value words = rows.words(*ops);
    const Shard qkv = rows.wide(*ops, words);
    for (int i = 0; i < launches; ++i) {
      layer.layer = i % layers;
      (void)ops->attend(qkv, layer);
    }
    TRY_STATUS(ops->read(words));
    return {};
  };
  // A long cache is filled by rows that see themselves alone, which costs no more than writing it.
  if (work.depth > effort.tokens_a_chunk && work.window == 0) layer.spec.window = 1;
  for (int first = 0; first < work.depth; first += effort.tokens_a_chunk) {
    TRY_STATUS(step(sequence.rows(first, std::min(effort.tokens_a_chunk, work.depth - first)), layers));
  }
  layer.spec = work.spec();
  const bool prompt = work.prompt > 0;
  const StepView& view = prompt ? sequence.rows(0, work.prompt) : sequence.rows(work.depth, 1);
  TRY_BIND(time.seconds, seconds_each(effort, prompt ? 1 : effort.few, prompt ? 3 : effort.many,
                                      [&](int launches) { return step(view, launches); }));
  return time;
}

/// Ops without a cache to speak of.
struct Bench {
  std::unique_ptr<KvStore> kv;
  std::unique_ptr<Ops> ops;
};
Result<Bench> make_bench(Backend& backend, int rows) {
  CacheSpec cache;
  cache.kv_heads = 1, cache.head_dim = 64;
  Bench bench;
  TRY_BIND(bench.kv, backend.make_kv({{cache}, {1}, kBlockTokens}));
  TRY_BIND(bench.ops, backend.make_ops(*bench.kv, rows));
  return bench;
}

Result<KernelTime> measure(Backend& backend, const ProductWork& work, const BenchEffort& effort) {
  TRY_BIND(const Bench bench, make_bench(backend, work.rows));
  TRY_BIND(const RandomRows rows, RandomRows::make(backend, work.inputs));
  TRY_BIND(const QTensor matrix, repeating(codec_of(work.codec), work.outputs, work.inputs));
  const auto bytes = static_cast<double>(matrix.view().codes.size() + matrix.view().inner_scales.size());
  const bool many_rows = work.rows > kWords;
  std::vector<Weight<Split::kRows>> weights(static_cast<size_t>(many_rows ? 1 : buffers(effort, bytes)));
  for (Weight<Split::kRows>& weight : weights) {
    TRY_BIND(weight.matrix, backend.pack({&matrix, 1}, PackUse::kLinear));
  }
  Sequence sequence(work.rows);
  const StepView& view = sequence.rows(0, work.rows);
  KernelTime time{0, bytes, 2.0 * static_cast<double>(work.outputs * work.inputs) * work.rows};
  const auto step = [&](int launches) -> Status {
    bench.ops->begin(view);
    const Value words = rows.words(*bench.ops);
    const Shard x = rows.wide(*bench.ops, words);
    for (int i = 0; i < launches; ++i) {
      (void)bench.ops->reduce(bench.ops->linear(x, weights[static_cast<size_t>(i) % weights.size()]));
    }
    TRY_STATUS(bench.ops->read(words));
    return {};
  };
  TRY_BIND(time.seconds, seconds_each(effort, many_rows ? 1 : effort.few, many_rows ? 5 : effort.many, step));
  return time;
}

/// How many experts a step's rows choose, by the definition.
int distinct_experts(const ExpertsSpec& spec, const std::vector<float>& words, const std::vector<float>& router,
                     std::span<const int32_t> tokens, int64_t hidden) {
  std::set<int> chosen;
  std::vector<ChosenExpert> of(static_cast<size_t>(spec.chosen));
  for (int32_t token : tokens) {
    std::vector<float> logits;
    for (int expert = 0; expert < spec.experts; ++expert) {
      const float* x = words.data() + token * hidden;
      logits.push_back(
          static_cast<float>(std::inner_product(x, x + hidden, router.data() + expert * hidden, 0.0, std::plus<>(),
                                                [](float a, float b) { return double{a} * double{b}; })));
    }
    route_row(spec, logits, {}, of);
    for (const ChosenExpert& one : of) chosen.insert(one.expert);
  }
  return static_cast<int>(chosen.size());
}

Result<KernelTime> measure(Backend& backend, const ExpertsWork& work, const BenchEffort& effort) {
  TRY_BIND(const Bench bench, make_bench(backend, work.rows));
  const ExpertsSpec& spec = work.spec;
  const std::vector<float> words = normal_numbers(kWords * work.hidden, 1);
  const std::vector<float> choices = normal_numbers((spec.experts + 1) * work.hidden, 0.02);
  TRY_BIND(const QTensor table, encode(codec(CodecId::kF32), kWords, work.hidden, words));
  Weight<Split::kNone> embed;
  TRY_BIND(embed.matrix, backend.pack({&table, 1}, PackUse::kEmbedding));
  // Not the words' own beginning: an expert would be as good as named by its word.
  const std::vector<float> router(choices.begin() + work.hidden / 2,
                                  choices.begin() + work.hidden / 2 + spec.experts * work.hidden);
  TRY_BIND(const QTensor routes, encode(codec(CodecId::kF32), spec.experts, work.hidden, router));
  TRY_BIND(const QTensor gate_up, repeating(codec_of(work.codec), 2 * spec.width, work.hidden));
  TRY_BIND(const QTensor down, repeating(codec_of(work.codec), work.hidden, spec.width));
  const auto bytes_of = [](const QTensor& of) { return of.view().codes.size() + of.view().inner_scales.size(); };
  const auto each = static_cast<double>(bytes_of(gate_up) + bytes_of(down));
  Sequence sequence(work.rows);
  const StepView& view = sequence.rows(0, work.rows);
  const int distinct = distinct_experts(spec, words, router, view.tokens, work.hidden);
  std::vector<ExpertsLayer> layers(static_cast<size_t>(std::max(1, buffers(effort, each * distinct))));
  layers.resize(std::min<size_t>(layers.size(), std::max<size_t>(2, static_cast<size_t>(12e9 / each / spec.experts))));
  for (ExpertsLayer& layer : layers) {
    layer.spec = spec;
    TRY_BIND(layer.router.matrix, backend.pack({&routes, 1}, PackUse::kRouter));
    layer.gate_up.resize(static_cast<size_t>(spec.experts));
    layer.down.resize(static_cast<size_t>(spec.experts));
    for (auto& weight : layer.gate_up) {
      TRY_BIND(weight.matrix, backend.pack({&gate_up, 1}, PackUse::kLinear));
    }
    for (auto& weight : layer.down) {
      TRY_BIND(weight.matrix, backend.pack({&down, 1}, PackUse::kLinear));
    }
  }
  KernelTime time{0, each * distinct,
                  2.0 * work.rows * spec.chosen * 3 * static_cast<double>(spec.width * work.hidden)};
  const auto step = [&](int launches) -> Status {
    bench.ops->begin(view);
    const Value x = bench.ops->embed(embed, 1);
    for (int i = 0; i < launches; ++i) {
      (void)bench.ops->reduce(bench.ops->experts(x, layers[static_cast<size_t>(i) % layers.size()]));
    }
    TRY_STATUS(bench.ops->read(x));
    return {};
  };
  TRY_BIND(time.seconds, seconds_each(effort, effort.few, effort.many, step));
  return time;
}

/// Binds every name to random numbers: rows that come again and again.
class RandomBinder final : public Binder {
 public:
  RandomBinder(Backend& backend, const DecodeWork& work) : backend_(backend), work_(work) {}

  Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule) override {
    TRY_BIND(auto vector, backend_.upload(std::vector<float>(static_cast<size_t>(size), 1.1f)));
    return Norm{name, std::move(vector), eps};
  }
  Result<LayerNorm> layer_norm(const std::string& name, int64_t, float) override {
    return unsupported("{}: no such model is measured", name);
  }
  Result<LatentHeads> latent_heads(const std::string& name, int, const LatentSpec&) override {
    return unsupported("{}: no such model is measured", name);
  }
  Result<std::shared_ptr<const PackedVector>> vector(const std::string&, int64_t size) override {
    return backend_.upload(normal_numbers(size, 0.3));
  }
  bool has(const std::string& name) const override { return name.find("embed_tokens") != std::string::npos; }

 protected:
  Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule bias, Split,
                            PackUse use) override {
    const bool experts = parts.front().name.find(".experts.") != std::string::npos;
    const CodecId id = use == PackUse::kRouter ? CodecId::kBF16 : experts ? work_.experts : work_.codec;
    Bound bound;
    std::vector<QTensor> segments;
    int64_t rows = 0;
    for (const WeightPart& part : parts) {
      rows += part.rows;
      const auto key = std::tuple(id, part.rows, cols);
      auto known = made_.find(key);
      if (known == made_.end()) {
        TRY_BIND(QTensor made, repeating(codec_of(id), part.rows, cols));
        known = made_.emplace(key, std::move(made)).first;
      }
      segments.push_back(known->second);
    }
    TRY_BIND(bound.matrix, backend_.pack(segments, use));
    if (bias == BiasRule::kRequired) {
      TRY_BIND(bound.bias, backend_.upload(normal_numbers(rows, 0.3)));
    }
    return bound;
  }

 private:
  Backend& backend_;
  const DecodeWork& work_;
  std::map<std::tuple<CodecId, int64_t, int64_t>, QTensor> made_;
};

Result<KernelTime> measure(Backend& backend, const DecodeWork& work, const BenchEffort& effort) {
  Config config(nlohmann::json::parse(work.config), "the shape that is measured");
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  RandomBinder binder(backend, work);
  TRY_BIND(const Decoder decoder, Decoder::bind(std::move(spec), binder));
  RunnerOptions options;
  options.context_tokens = work.tokens + 8;
  TRY_BIND(const auto runner, SequenceRunner::make(backend, decoder, options));
  KernelTime time{1e30};
  for (int round = 0; round < effort.rounds; ++round) {
    runner->reset();
    int32_t token = 1;
    Stopwatch watch;
    for (int i = 0; i < work.tokens; ++i) {
      TRY_BIND(const SampledToken next, runner->feed_and_sample({&token, 1}, {.temperature = 0}));
      token = next.token;
    }
    time.seconds = std::min(time.seconds, watch.elapsed_seconds() / work.tokens);
  }
  return time;
}

}  // namespace

Result<KernelTime> measure_row(Backend& backend, const KernelRow& row, const BenchEffort& effort) {
  return std::visit([&](const auto& work) { return measure(backend, work, effort); }, row.work);
}

Result<KernelLimits> measure_kernel_limits(Backend& backend) {
  KernelLimits limits;
  TRY_BIND(const MachineLimits machine, backend.measure_limits(0));
  limits.copy_bytes_per_s = machine.read_bytes_per_s;
  const Result<double> products = backend.measure_library_products();
  if (products.ok()) {
    limits.product_ops_per_s = *products;
  } else {
    limits.no_products = products.error().message;
  }
  return limits;
}

}  // namespace vernier
