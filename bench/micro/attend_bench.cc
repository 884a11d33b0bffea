// Attention of the CPU backend, alone: all layers of a model's shape over one sequence.
//
//   attend_bench SHAPE DEPTH [--threads N] [--isa NAME] [--kv TYPE]... [--rounds N] [--cpu-time]
//
// SHAPE is smollm2, gemma3, or HEADS/KV/DIM/LAYERS. For each type of the cache: the time of a decode step at that depth
// with the bytes of keys and values it reads, and the time of 512 rows that follow the depth, with the multiplications
// that are not masked. All types are measured in turn in each round, so that their ratio mixes no two minutes: the best
// of each, and the median of the rounds' ratios to the first type. With --cpu-time, one thread's own time counts, which
// other processes on the machine stretch less than the clock.

#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/attention.h"

namespace vernier {
namespace {

constexpr std::array<std::pair<std::string_view, CodecId>, 5> kTypes = {{{"f32", CodecId::kF32},
                                                                         {"f16", CodecId::kF16},
                                                                         {"bf16", CodecId::kBF16},
                                                                         {"fp8_e4m3", CodecId::kE4M3Tensor},
                                                                         {"fp8_e5m2", CodecId::kE5M2Tensor}}};

struct Options {
  std::string shape;
  int depth = 0;
  int threads = usable_cpus();
  std::string isa;
  std::vector<std::string> types = {"f16"};
  int rounds = 3;
  bool cpu_time = false;
};

/// Seconds from some moment on, of the clock or of this process's work.
double seconds_now(bool cpu_time) {
  timespec now{};
  ::clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Shape {
  AttnSpec spec;
  int layers = 30;
};

Result<Shape> parse_shape(const std::string& text) {
  Shape shape;
  AttnSpec& spec = shape.spec;
  if (text == "smollm2") {
    spec.heads = 9, spec.kv_heads = 3, spec.head_dim = 64, shape.layers = 30;
  } else if (text == "gemma3") {
    spec.heads = 4, spec.kv_heads = 1, spec.head_dim = 256, shape.layers = 18;
  } else if (std::sscanf(text.c_str(), "%d/%d/%d/%d", &spec.heads, &spec.kv_heads, &spec.head_dim, &shape.layers) !=
             4) {
    return invalid_argument("shape '{}'; expected smollm2, gemma3 or HEADS/KV/DIM/LAYERS", text);
  }
  spec.scale = 0.1f;
  spec.rope.dim = spec.head_dim;
  return shape;
}

/// One sequence that holds the blocks of its whole depth.
struct Sequence {
  std::vector<int32_t> tokens, positions, blocks, begin, first_position{0};
  SequenceRows rows;
  CacheTable table;
  StepView view;

  void place(int32_t first, int32_t count, int32_t block_tokens) {
    tokens.assign(static_cast<size_t>(count), 0);
    positions.resize(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), first);
    rows = {0, count, first};
    begin = {0, static_cast<int32_t>(blocks.size())};
    table = {block_tokens, blocks, begin, first_position};
    view = {tokens, positions, {&rows, 1}, {&table, 1}, {}};
  }
};

constexpr int kBlockTokens = 64, kChunk = 512;

/// A cache of one type, full up to the depth, and what was measured with it.
class TypeBench {
 public:
  static Result<TypeBench> make(const Shape& shape, const Options& options, CodecId stored) {
    TypeBench bench;
    bench.shape_ = shape;
    bench.depth_ = options.depth;
    bench.cpu_time_ = options.cpu_time;
    CacheSpec cache;
    cache.kv_heads = shape.spec.kv_heads;
    cache.head_dim = shape.spec.head_dim;
    cache.stored = stored;
    bench.token_bytes_ = cache.bytes_per_token() * shape.layers;
    KvLayout layout;
    layout.block_tokens = kBlockTokens;
    layout.class_blocks = {(options.depth + kChunk) / kBlockTokens + 2};
    for (cache.layer = 0; cache.layer < shape.layers; ++cache.layer) layout.layers.push_back(cache);
    TRY_BIND(bench.kv_, CpuKvStore::make(layout));
    bench.sequence_.blocks.resize(static_cast<size_t>(layout.class_blocks[0]));
    std::iota(bench.sequence_.blocks.begin(), bench.sequence_.blocks.end(), 0);
    return bench;
  }

  /// Seconds of a step of all layers.
  double step(Attention& attention, int32_t first, int32_t count) {
    const int64_t columns = shape_.spec.q_cols() + 2 * shape_.spec.kv_cols();
    if (qkv_.empty()) {
      qkv_.resize(static_cast<size_t>(kChunk * columns));
      out_.resize(static_cast<size_t>(kChunk * shape_.spec.q_cols()));
      for (size_t i = 0; i < qkv_.size(); ++i) qkv_[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    }
    const double begin = seconds_now(cpu_time_);
    sequence_.place(first, count, kBlockTokens);
    attention.begin(sequence_.view);
    AttnLayer layer;
    layer.spec = shape_.spec;
    for (layer.layer = 0; layer.layer < shape_.layers; ++layer.layer) {
      attention.run(layer, *kv_, qkv_.data(), out_.data());
    }
    return seconds_now(cpu_time_) - begin;
  }
  void fill(Attention& attention) {
    for (int first = 0; first < depth_; first += kChunk) step(attention, first, std::min(kChunk, depth_ - first));
  }

  double bytes() const { return static_cast<double>(token_bytes_) * depth_; }
  std::vector<double> chunk_seconds, token_seconds;  ///< of each round

 private:
  Shape shape_;
  int depth_ = 0;
  bool cpu_time_ = false;
  int64_t token_bytes_ = 0;
  std::unique_ptr<CpuKvStore> kv_;
  Sequence sequence_;
  std::vector<float> qkv_, out_;
};

double best(const std::vector<double>& seconds) {
  return *std::ranges::min_element(seconds);
}

/// Median over the rounds of how many times faster than `than`.
double speed_up(const std::vector<double>& seconds, const std::vector<double>& than) {
  std::vector<double> ratios;
  for (size_t i = 0; i < seconds.size(); ++i) ratios.push_back(than[i] / seconds[i]);
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

Status bench(const Options& options) {
  TRY_BIND(const Shape shape, parse_shape(options.shape));
  TRY_BIND(const Isa isa, choose_isa(options.isa));
  const int threads = options.cpu_time ? 1 : options.threads;
  ThreadPool pool(threads);
  Attention attention(isa, pool);
  std::vector<TypeBench> types;
  for (const std::string& name : options.types) {
    const auto found = std::ranges::find(kTypes, name, &std::pair<std::string_view, CodecId>::first);
    if (found == kTypes.end()) return invalid_argument("--kv {}; expected f32, f16, bf16, fp8_e4m3 or fp8_e5m2", name);
    TRY_BIND(TypeBench type, TypeBench::make(shape, options, found->second));
    type.fill(attention);
    types.push_back(std::move(type));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (TypeBench& type : types) type.chunk_seconds.push_back(type.step(attention, options.depth, kChunk));
    for (TypeBench& type : types) {
      double token = 1e30;
      for (int i = 0; i < 20; ++i) token = std::min(token, type.step(attention, options.depth, 1));
      type.token_seconds.push_back(token);
    }
  }
  const double keys = options.depth + (kChunk + 1) / 2.0;
  const double flops = 4.0 * static_cast<double>(shape.spec.q_cols()) * kChunk * keys * shape.layers;
  for (size_t i = 0; i < types.size(); ++i) {
    const TypeBench& type = types[i];
    const double token = best(type.token_seconds), chunk = best(type.chunk_seconds);
    fmt::print(
        "{} {} threads, {} at {}: decode {:.3f} ms ({:.1f} GB/s), {:.2f}x; {} rows {:.1f} ms ({:.1f} GFLOP/s), "
        "{:.3f}x\n",
        name(isa), threads, options.types[i], options.depth, token * 1e3, type.bytes() / token * 1e-9,
        speed_up(type.token_seconds, types[0].token_seconds), kChunk, chunk * 1e3, flops / chunk * 1e-9,
        speed_up(type.chunk_seconds, types[0].chunk_seconds));
  }
  return {};
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  vernier::Options options;
  CLI::App app("Attention of the CPU backend");
  app.add_option("SHAPE", options.shape)->required();
  app.add_option("DEPTH", options.depth)->required()->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--isa", options.isa);
  app.add_option("--kv", options.types);
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_flag("--cpu-time", options.cpu_time, "One thread's own time, not the clock's");
  CLI11_PARSE(app, argc, argv);
  vernier::Status status = vernier::bench(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 2;
}
