// Decoding on a GPU with weights that nobody trained, and its attention alone.
//
//   cuda_bench model  [--shape smollm2] [--codec q4_1] [--kv f16] [--depth 0] [--streams 1] [--steps 200] [--numerics
//   fast] cuda_bench attend [--shape 32/8/128] [--kv bf16]... [--depth 4096]... [--streams 1] [--window 0]
//
// `model` decodes the largest logit of each stream and says tokens a second, and for the prompt that fills --depth,
// too. `attend` runs a step of many layers, each with a cache of its own, together larger than any cache of the chip
// where there is room, and says a layer's time (with the launch that writes its keys and values), the rate at which
// keys and values are read, and that as a share of copying.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/cuda_entry.h"
#include "base/clock.h"
#include "models/decoder.h"
#include "ops/binder.h"

namespace vernier {
namespace {

struct Options {
  std::string shape = "smollm2";
  std::string codec = "q4_1";
  std::vector<std::string> types = {"f16"};
  std::vector<int> depths = {0};
  int streams = 1;
  int steps = 200;
  int window = 0;
  std::string numerics = "fast";
};

Result<CodecId> cache_type(const std::string& name) {
  for (CodecId id : {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    if (cache_type_name(id) == name) return id;
  }
  return invalid_argument("--kv {}; expected f32, f16, bf16, fp8_e4m3 or fp8_e5m2", name);
}

/// Binds every name to a few random rows, again and again.
class RepeatingBinder final : public Binder {
 public:
  RepeatingBinder(Backend& backend, const Codec& codec) : backend_(backend), codec_(codec) {}

  Result<Norm> norm(const std::string& name, int64_t size, float eps, NormRule) override {
    TRY_BIND(auto vector, backend_.upload(std::vector<float>(static_cast<size_t>(size), 1.1f)));
    return Norm{name, std::move(vector), eps};
  }
  Result<LayerNorm> layer_norm(const std::string& name, int64_t, float) override {
    return unsupported("{}: no such model here", name);
  }
  Result<LatentHeads> latent_heads(const std::string& name, int, const LatentSpec&) override {
    return unsupported("{}: no such model here", name);
  }
  Result<std::shared_ptr<const PackedVector>> vector(const std::string&, int64_t size) override {
    return backend_.upload(std::vector<float>(static_cast<size_t>(size), 0.4f));
  }
  bool has(const std::string& name) const override { return name.find("embed_tokens") != std::string::npos; }

 protected:
  Result<Bound> bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule, Split, PackUse use) override {
    constexpr int64_t kRows = 16;
    Bound bound;
    std::vector<QTensor> segments;
    for (const WeightPart& part : parts) {
      std::vector<float> numbers(static_cast<size_t>(kRows * cols));
      std::normal_distribution<float> normal(0, 1.0f / std::sqrt(static_cast<float>(cols)));
      for (float& number : numbers) number = normal(random_);
      TRY_BIND(const QTensor few, encode(codec_, kRows, cols, numbers));
      std::vector<QTensor> copies(static_cast<size_t>(part.rows / kRows), few);
      TRY_BIND(QTensor whole, QTensor::concat_rows(copies));
      segments.push_back(std::move(whole));
    }
    TRY_BIND(bound.matrix, backend_.pack(segments, use));
    return bound;
  }

 private:
  Backend& backend_;
  const Codec& codec_;
  std::mt19937 random_{7};
};

struct Shape {
  AttnSpec attn;
  int64_t hidden = 0, ffn = 0, layers = 0, vocab = 0;
};

Result<Shape> parse_shape(const std::string& text) {
  Shape shape{{}, 576, 1536, 30, 49152};
  AttnSpec& attn = shape.attn;
  attn.heads = 9, attn.kv_heads = 3, attn.head_dim = 64;
  if (text != "smollm2") {
    const int read = std::sscanf(text.c_str(), "%d/%d/%d/%ld/%ld/%ld/%ld", &attn.heads, &attn.kv_heads, &attn.head_dim,
                                 &shape.hidden, &shape.ffn, &shape.layers, &shape.vocab);
    if (read != 3 && read != 7) {
      return invalid_argument("shape '{}'; expected smollm2 or HEADS/KV/DIM, and for a model /HIDDEN/FFN/LAYERS/VOCAB",
                              text);
    }
  }
  attn.scale = 1.0f / std::sqrt(static_cast<float>(attn.head_dim));
  attn.rope.dim = attn.head_dim;
  return shape;
}

constexpr int kBlockTokens = 64, kChunk = 512;

/// Streams side by side, each with the blocks of its whole context.
class Streams {
 public:
  Streams(int count, int tokens) : count_(count), blocks_each_((tokens + kBlockTokens) / kBlockTokens) {
    blocks_.resize(static_cast<size_t>(count * blocks_each_));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::ranges::shuffle(blocks_, std::mt19937(3));
    for (int i = 0; i <= count; ++i) begin_.push_back(i * blocks_each_);
    first_position_.assign(static_cast<size_t>(count), 0);
  }
  int32_t blocks() const { return count_ * blocks_each_; }

  /// `rows` rows of each of the streams [from, to) at `position`.
  const StepView& step(int from, int to, int position, int rows, bool sample) {
    sequences_.clear();
    positions_.clear();
    sampled_.clear();
    for (int stream = from; stream < to; ++stream) {
      sequences_.push_back({static_cast<int32_t>(positions_.size()), rows, position});
      for (int i = 0; i < rows; ++i) positions_.push_back(position + i);
      if (sample) sampled_.push_back(static_cast<int32_t>(positions_.size()) - 1);
    }
    tokens.resize(positions_.size(), 1);
    const auto first = static_cast<size_t>(from), many = static_cast<size_t>(to - from);
    table_ = {kBlockTokens, blocks_, std::span(begin_).subspan(first, many + 1),
              std::span(first_position_).first(many)};
    view_ = {tokens, positions_, sequences_, {&table_, 1}, sampled_};
    return view_;
  }

  std::vector<int32_t> tokens;  ///< of the rows

 private:
  int count_, blocks_each_;
  std::vector<int32_t> blocks_, begin_, first_position_, positions_, sampled_;
  std::vector<SequenceRows> sequences_;
  CacheTable table_;
  StepView view_;
};

Status bench_model(const Options& options, Backend& backend, const MachineLimits& limits) {
  TRY_BIND(const Shape shape, parse_shape(options.shape));
  TRY_BIND(const CodecId stored, cache_type(options.types.front()));
  const Codec* codec = nullptr;
  for (const Codec& known : all_codecs()) codec = known.name == options.codec ? &known : codec;
  if (codec == nullptr) return invalid_argument("--codec {}: no such codec", options.codec);
  DecoderSpec spec;
  spec.family = "invented";
  spec.vocab = shape.vocab;
  spec.hidden = shape.hidden;
  spec.max_positions = 1 << 20;
  spec.layers.assign(static_cast<size_t>(shape.layers), LayerSpec{shape.attn, shape.ffn});
  spec.tied = true;
  RepeatingBinder binder(backend, *codec);
  TRY_BIND(const Decoder decoder, Decoder::bind(spec, binder));
  const int depth = options.depths.front();
  Streams streams(options.streams, depth + options.steps + 16);
  TRY_BIND(auto kv, backend.make_kv({cache_specs(spec, stored), {streams.blocks()}, kBlockTokens}));
  TRY_BIND(auto ops, backend.make_ops(*kv, std::max(kChunk, options.streams)));
  double prompt_rate = 0;
  for (int stream = 0; stream < options.streams; ++stream) {
    for (int first = 0; first < depth; first += kChunk) {
      Stopwatch watch;
      const int rows = std::min(kChunk, depth - first);
      ops->begin(streams.step(stream, stream + 1, first, rows, false));
      TRY_STATUS(ops->read(decoder.forward(*ops)));
      prompt_rate = std::max(prompt_rate, rows / watch.elapsed_seconds());
    }
  }
  const std::vector<SampleSpec> greedy(static_cast<size_t>(options.streams), SampleSpec{.temperature = 0});
  double best = 1e30, least_host = 1e30;
  streams.tokens.assign(static_cast<size_t>(options.streams), 1);
  for (int round = 0, position = depth; round < 4; ++round) {
    Stopwatch watch;
    double host = 0;
    for (int i = 0; i < options.steps / 4; ++i) {
      const double begun = watch.elapsed_seconds();
      ops->begin(streams.step(0, options.streams, position++, 1, true));
      const Value logits = decoder.head(*ops, decoder.forward(*ops));
      host += watch.elapsed_seconds() - begun;
      TRY_BIND(const SampledRows sampled, ops->sample(logits, greedy));
      for (size_t row = 0; row < sampled.size(); ++row) {
        if (!sampled[row].ok()) return sampled[row].error();
        streams.tokens[row] = sampled[row]->token;
      }
    }
    best = std::min(best, watch.elapsed_seconds() / (options.steps / 4));
    least_host = std::min(least_host, host / (options.steps / 4));
  }
  fmt::print(
      "{} {}, cache {}, {} streams at {}: {:.1f} us a step ({:.1f} until all is asked for), {:.0f} tok/s; last token "
      "{}; prompt {:.0f} tok/s; copy {:.2f} TB/s; {}\n",
      options.shape, options.codec, options.types.front(), options.streams, depth, best * 1e6, least_host * 1e6,
      options.streams / best, streams.tokens[0], prompt_rate, limits.read_bytes_per_s * 1e-12, options.numerics);
  std::fflush(stdout);
  return {};
}

/// Random queries, keys and values for rows of a step.
class RandomRows {
 public:
  static Result<RandomRows> make(Backend& backend, int64_t cols) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> words(kWords * kWords), wide(static_cast<size_t>(cols * kWords));
    for (float& number : words) number = normal(random);
    for (float& number : wide) number = normal(random) / 8;
    TRY_BIND(const QTensor few, encode(codec(CodecId::kF32), kWords, kWords, words));
    TRY_BIND(const QTensor many, encode(codec(CodecId::kF32), cols, kWords, wide));
    RandomRows rows;
    TRY_BIND(rows.embed_.matrix, backend.pack({&few, 1}, PackUse::kEmbedding));
    TRY_BIND(rows.widen_.matrix, backend.pack({&many, 1}, PackUse::kLinear));
    return rows;
  }
  Value words(Ops& ops) const { return ops.embed(embed_, 1); }
  Shard wide(Ops& ops, const Value& words) const { return ops.linear(words, widen_); }
  static constexpr int kWords = 64;

 private:
  Weight<Split::kNone> embed_;
  Weight<Split::kColumns> widen_;
};

/// Layers of one sort of attention, and a cache for each.
class AttendBench {
 public:
  static Result<AttendBench> make(Backend& backend, const Shape& shape, const CacheSpec& cache, int layers,
                                  int32_t blocks, int max_rows) {
    AttendBench bench;
    KvLayout layout{{}, {blocks}, kBlockTokens};
    layout.layers.assign(static_cast<size_t>(layers), cache);
    for (int i = 0; i < layers; ++i) layout.layers[static_cast<size_t>(i)].layer = i;
    TRY_BIND(bench.kv_, backend.make_kv(layout));
    TRY_BIND(bench.ops_, backend.make_ops(*bench.kv_, max_rows));
    TRY_BIND(bench.rows_, RandomRows::make(backend, shape.attn.q_cols() + 2 * shape.attn.kv_cols()));
    bench.layer_.spec = shape.attn;
    bench.layers_ = layers;
    return bench;
  }

  Status run(const StepView& view, int window) {
    ops_->begin(view);
    const Value words = rows_->words(*ops_);
    const Shard qkv = rows_->wide(*ops_, words);
    layer_.spec.window.reset();
    if (window > 0) layer_.spec.window = window;
    for (layer_.layer = 0; layer_.layer < layers_; ++layer_.layer) (void)ops_->attend(qkv, layer_);
    TRY_STATUS(ops_->read(words));
    return {};
  }

 private:
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Ops> ops_;
  std::optional<RandomRows> rows_;
  AttnLayer layer_;
  int layers_ = 0;
};

Status bench_attend(const Options& options, const std::string& type, int depth, Backend& backend,
                    const MachineLimits& limits) {
  TRY_BIND(const Shape shape, parse_shape(options.shape));
  CacheSpec cache;
  TRY_BIND(cache.stored, cache_type(type));
  cache.kv_heads = shape.attn.kv_heads;
  cache.head_dim = shape.attn.head_dim;
  if (has_cache_scale(cache.stored)) cache.k_scale = 0.03f, cache.v_scale = 0.07f;
  const int seen = options.window > 0 ? std::min(options.window, depth) : depth;
  const double layer_bytes = static_cast<double>(cache.bytes_per_token()) * seen * options.streams;
  const double all_bytes = static_cast<double>(cache.bytes_per_token()) * depth * options.streams;
  const int layers = std::clamp(static_cast<int>(60e9 / all_bytes), 4, 100);
  Streams streams(options.streams, depth + 600);
  TRY_BIND(AttendBench bench,
           AttendBench::make(backend, shape, cache, layers, streams.blocks(), std::max(4 * kChunk, options.streams)));
  // Rows that see themselves alone fill the cache at no cost.
  for (int stream = 0; stream < options.streams; ++stream) {
    for (int first = 0; first < depth; first += 4 * kChunk) {
      const int rows = std::min(4 * kChunk, depth - first);
      streams.tokens.resize(static_cast<size_t>(rows));
      for (int i = 0; i < rows; ++i) streams.tokens[static_cast<size_t>(i)] = (first + i * 7) % RandomRows::kWords;
      TRY_STATUS(bench.run(streams.step(stream, stream + 1, first, rows, false), 1));
    }
  }
  double best = 1e30;
  for (int i = 0; i < 24; ++i) {
    const StepView& view = streams.step(0, options.streams, depth + i, 1, false);
    Stopwatch watch;
    TRY_STATUS(bench.run(view, options.window));
    best = std::min(best, watch.elapsed_seconds());
  }
  const double each = best / layers, rate = layer_bytes / each;
  fmt::print(
      "attend {} {} at {}, {} streams, window {}: {:.2f} us, {:.1f} MB, {:.0f} GB/s, {:.2f} of copy ({} layers)\n",
      options.shape, type, depth, options.streams, options.window, each * 1e6, layer_bytes * 1e-6, rate * 1e-9,
      rate / limits.read_bytes_per_s, layers);
  std::fflush(stdout);
  return {};
}

Status bench(const Options& options, bool model) {
  CudaOptions cuda;
  cuda.numerics = options.numerics == "exact" ? Numerics::kExact : Numerics::kFast;
  TRY_BIND(std::unique_ptr<Backend> backend, make_cuda_backend(cuda));
  TRY_BIND(const MachineLimits limits, backend->measure_limits(0));
  if (model) return bench_model(options, *backend, limits);
  for (int depth : options.depths) {
    for (const std::string& type : options.types) TRY_STATUS(bench_attend(options, type, depth, *backend, limits));
  }
  return {};
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  vernier::Options options;
  CLI::App app("Decoding on a GPU");
  app.require_subcommand(1);
  auto add = [&](const char* name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("--shape", options.shape);
    command->add_option("--codec", options.codec);
    command->add_option("--kv", options.types);
    command->add_option("--depth", options.depths);
    command->add_option("--streams", options.streams)->check(CLI::PositiveNumber);
    command->add_option("--steps", options.steps)->check(CLI::PositiveNumber);
    command->add_option("--window", options.window);
    command->add_option("--numerics", options.numerics)->check(CLI::IsMember({"fast", "exact"}));
    return command;
  };
  const CLI::App* model = add("model", "A whole decoder");
  add("attend", "Attention of one row a stream");
  CLI11_PARSE(app, argc, argv);
  const vernier::Status status = vernier::bench(options, model->parsed());
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 2;
}
