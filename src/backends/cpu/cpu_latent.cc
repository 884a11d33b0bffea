#include "backends/cpu/cpu_latent.h"

#include <algorithm>

#include "backends/cpu/cpu_vector.h"

namespace vernier {
namespace {

constexpr int64_t kLatentRowsPerChunk = 4;

struct Turn {
  const float* cosines;  // [pairs]
  const float* sines;
  int pairs;
  bool neighbours;

  /// The rotated numbers, pairs half of them apart.
  void run(const float* from, float* to) const {
    for (int i = 0; i < pairs; ++i) {
      const float low = neighbours ? from[2 * i] : from[i];
      const float high = neighbours ? from[2 * i + 1] : from[i + pairs];
      to[i] = low * cosines[i] - high * sines[i];
      to[i + pairs] = high * cosines[i] + low * sines[i];
    }
  }
};

/// One head's product: columns of wider rows into columns of wider rows.
void multiply_head(ThreadPool& pool, LinearScratch& scratch, const Weight<Split::kNone>& weight, const float* x,
                   int64_t stride, int64_t rows, float* out, int64_t out_stride) {
  const CpuMatrix& matrix = cpu_matrix(*weight.matrix);
  linear(pool, scratch, matrix, {.x = x, .rows = rows, .cols = matrix.cols(), .stride = stride, .read_ahead = false},
         {out, out_stride, nullptr, false});
}

}  // namespace

/// All of rows_ but what the heads' matrices make: rotated parts, and the normed row as key and as value.
void CpuLatent::fill_rows(const LatentLayer& layer, const float* q, const float* compressed, int64_t rows) {
  const LatentSpec& spec = layer.spec;
  const RopeRows::Table& rope = rope_.table(layer.rope, pool_);
  const float* weight = CpuVector::numbers(layer.norm.weight.get(), spec.rank);
  const int64_t heads = layer.attn.spec.heads, row_dim = spec.row_dim(), stride = (heads + 2) * row_dim;
  pool_.parallel_for(static_cast<int>((rows + kLatentRowsPerChunk - 1) / kLatentRowsPerChunk), [&](int chunk) {
    for (int64_t row = chunk * kLatentRowsPerChunk; row < std::min(rows, (chunk + 1) * kLatentRowsPerChunk); ++row) {
      const Turn turn{rope.cosines.data() + row * rope.pairs, rope.sines.data() + row * rope.pairs, rope.pairs,
                      spec.neighbours};
      float* to = rows_.data() + row * stride;
      const float* query = q + row * heads * spec.query_dim() + spec.nope_dim;
      for (int64_t head = 0; head < heads; ++head) turn.run(query + head * spec.query_dim(), to + head * row_dim);
      float* key = to + heads * row_dim;
      const float* from = compressed + row * row_dim;
      turn.run(from + spec.rank, key);
      kernels_.norm(from, weight, layer.norm.eps, spec.rank, key + spec.rope_dim);
      std::copy_n(key, row_dim, key + row_dim);
    }
  });
}

void CpuLatent::run(const LatentLayer& layer, CpuKvStore& kv, const float* q, const float* compressed, int64_t rows,
                    float* out) {
  const LatentSpec& spec = layer.spec;
  const int64_t heads = layer.attn.spec.heads, row_dim = spec.row_dim(), stride = (heads + 2) * row_dim;
  rows_.reserve(rows * stride);
  means_.reserve(rows * heads * row_dim);
  fill_rows(layer, q, compressed, rows);
  for (int64_t head = 0; head < heads; ++head) {
    multiply_head(pool_, scratch_, layer.keys[static_cast<size_t>(head)], q + head * spec.query_dim(),
                  heads * spec.query_dim(), rows, rows_.data() + head * row_dim + spec.rope_dim, stride);
  }
  attention_.run(layer.attn, kv, rows_.data(), means_.data());
  for (int64_t head = 0; head < heads; ++head) {
    multiply_head(pool_, scratch_, layer.values[static_cast<size_t>(head)],
                  means_.data() + head * row_dim + spec.rope_dim, heads * row_dim, rows, out + head * spec.value_dim,
                  heads * spec.value_dim);
  }
}

}  // namespace vernier
