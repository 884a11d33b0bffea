// Products of bf16 panels with rows rounded to bf16, for instruction sets that multiply pairs of them. Included after
// linear_body.h, in the same namespace.

/// Products of P packed panels with T rows.
template <int P, int T>
VERNIER_INLINE void bf16_tile_of(const Bf16TileJob& job, int64_t first_row) {
  const uint16_t* x = job.x + first_row * job.x_stride;
  Floats sum[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) sum[p][t] = zero_floats();
  }
  for (int64_t pair = 0; pair < job.cols / 2; ++pair) {
    Pairs w[P];
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      const uint8_t* weights = job.panels + p * job.panel_bytes + pair * kVectorBytes;
      prefetch(weights + kPrefetchBytes);
      w[p] = load_pairs(weights);
    }
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      const Pairs value = broadcast_pair(x + t * job.x_stride + pair * 2);
      VERNIER_UNROLL for (int p = 0; p < P; ++p) sum[p][t] = add_products(sum[p][t], w[p], value);
    }
  }
  float* out = job.out + first_row * job.out_stride;
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) store(out + t * job.out_stride + p * kRows, sum[p][t]);
  }
}

/// Whole tiles of T rows from `first_row` on, then the rest with lower tiles.
template <int P, int T>
void bf16_tiles(const Bf16TileJob& job, int64_t first_row) {
  for (; first_row + T <= job.tokens; first_row += T) bf16_tile_of<P, T>(job, first_row);
  if constexpr (T > 1) {
    if (first_row < job.tokens) bf16_tiles<P, T / 2>(job, first_row);
  }
}

void bf16_tile(const Bf16TileJob& job) {
  if (job.panel_count > 1) return bf16_tiles<kTilePanels, kFloatTileTokens>(job, 0);
  bf16_tiles<1, kFloatTileTokens>(job, 0);
}
