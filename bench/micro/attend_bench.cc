// Attention of the CPU backend, alone: all layers of a model's shape over one sequence.
//
//   attend_bench SHAPE DEPTH [THREADS [ISA]]     SHAPE: smollm2, gemma3, or HEADS/KV/DIM/LAYERS
//
// Prints the time of a decode step at that depth with the bytes of keys and values it reads, and the time of feeding
// the whole depth in chunks of 512 rows with the multiplications that are not masked; best of several rounds.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "backends/cpu/attention.h"
#include "base/clock.h"

namespace vernier {
namespace {

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

Status bench(const Shape& shape, int depth, int threads, Isa isa) {
  constexpr int kBlockTokens = 64, kChunk = 512;
  ThreadPool pool(threads);
  Attention attention(isa, pool);
  CacheSpec cache;
  cache.kv_heads = shape.spec.kv_heads;
  cache.head_dim = shape.spec.head_dim;
  KvLayout layout;
  layout.block_tokens = kBlockTokens;
  layout.class_blocks = {depth / kBlockTokens + 2};
  for (int i = 0; i < shape.layers; ++i) {
    cache.layer = i;
    layout.layers.push_back(cache);
  }
  TRY_BIND(auto kv, CpuKvStore::make(layout));
  Sequence sequence;
  sequence.blocks.resize(static_cast<size_t>(layout.class_blocks[0]));
  std::iota(sequence.blocks.begin(), sequence.blocks.end(), 0);
  int64_t columns = shape.spec.q_cols() + 2 * shape.spec.kv_cols();
  std::vector<float> qkv(static_cast<size_t>(kChunk * columns)), out(static_cast<size_t>(kChunk * shape.spec.q_cols()));
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  auto step = [&](int32_t first, int32_t count) {
    sequence.place(first, count, kBlockTokens);
    attention.begin(sequence.view);
    AttnLayer layer;
    layer.spec = shape.spec;
    for (layer.layer = 0; layer.layer < shape.layers; ++layer.layer) {
      attention.run(layer, *kv, qkv.data(), out.data());
    }
  };
  double feed = 1e30, token = 1e30;
  for (int round = 0; round < 3; ++round) {
    Stopwatch watch;
    for (int first = 0; first < depth; first += kChunk) step(first, std::min(kChunk, depth - first));
    feed = std::min(feed, watch.elapsed_seconds());
  }
  for (int round = 0; round < 60; ++round) {
    Stopwatch watch;
    step(depth, 1);
    token = std::min(token, watch.elapsed_seconds());
  }
  double bytes = static_cast<double>(cache.bytes_per_token()) * depth * shape.layers;
  double flops = 4.0 * static_cast<double>(shape.spec.q_cols()) * depth * (depth + 1) / 2 * shape.layers;
  fmt::print("{} {} threads, depth {}: decode {:.3f} ms ({:.1f} GB/s), feed {:.1f} ms ({:.1f} GFLOP/s)\n", name(isa),
             threads, depth, token * 1e3, bytes / token * 1e-9, feed * 1e3, flops / feed * 1e-9);
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 3) return invalid_argument("attend_bench SHAPE DEPTH [THREADS [ISA]]");
  TRY_BIND(Shape shape, parse_shape(argv[1]));
  TRY_BIND(Isa isa, choose_isa(argc > 4 ? argv[4] : ""));
  return bench(shape, std::max(1, std::atoi(argv[2])), argc > 3 ? std::max(1, std::atoi(argv[3])) : usable_cpus(), isa);
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  vernier::Status status = vernier::run(argc, argv);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 2;
}
