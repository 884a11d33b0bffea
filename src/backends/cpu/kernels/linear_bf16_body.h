// Products of bf16 pairs, packed or made of FP8 codes, with rows rounded to bf16, for instruction sets that multiply
// pairs of them. Included after linear_fp8_body.h, in the same namespace.

/// Adds the products of columns [begin, end) of P panels with T rows.
template <int P, int T>
VERNIER_INLINE void add_bf16_products(const Bf16TileJob& job, const uint16_t* x, int64_t begin, int64_t end,
                                      Floats (&sum)[P][T]) {
  for (int64_t pair = begin / 2; pair < end / 2; ++pair) {
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
}

/// Products of P panels with T rows.
template <int P, int T>
VERNIER_INLINE void bf16_tile_of(const Bf16TileJob& job, int64_t first_row) {
  float* out = job.out + first_row * job.out_stride;
  Floats sum[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      sum[p][t] = job.accumulate ? load(out + t * job.out_stride + p * kRows) : zero_floats();
    }
  }
  add_bf16_products<P, T>(job, job.x + first_row * job.x_stride, 0, job.cols, sum);
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) store(out + t * job.out_stride + p * kRows, sum[p][t]);
  }
}

/// The same with scales: sums of a group live in registers, totals in `out`.
template <int P, int T>
VERNIER_INLINE void scaled_bf16_tile_of(const Bf16TileJob& job, int64_t first_row) {
  float* out = job.out + first_row * job.out_stride;
  for (int64_t begin = 0, group = 0; begin < job.cols; begin += job.group, ++group) {
    Floats sum[P][T];
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      VERNIER_UNROLL for (int t = 0; t < T; ++t) sum[p][t] = zero_floats();
    }
    const int64_t end = begin + job.group < job.cols ? begin + job.group : job.cols;
    add_bf16_products<P, T>(job, job.x + first_row * job.x_stride, begin, end, sum);
    const bool first = group == 0 && !job.accumulate;
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      const Floats scale = load(job.scale + p * job.scale_stride + group * kRows);
      VERNIER_UNROLL for (int t = 0; t < T; ++t) {
        float* to = out + t * job.out_stride + p * kRows;
        store(to, fma(sum[p][t], scale, first ? zero_floats() : load(to)));
      }
    }
  }
}

/// Whole tiles of T rows from `first_row` on, then the rest with lower tiles.
template <int P, int T>
void bf16_tiles(const Bf16TileJob& job, int64_t first_row) {
  for (; first_row + T <= job.tokens; first_row += T) {
    if (job.scale != nullptr) {
      scaled_bf16_tile_of<P, T>(job, first_row);
    } else {
      bf16_tile_of<P, T>(job, first_row);
    }
  }
  if constexpr (T > 1) {
    if (first_row < job.tokens) bf16_tiles<P, T / 2>(job, first_row);
  }
}

void bf16_tile(const Bf16TileJob& job) {
  if (job.panel_count > 1) return bf16_tiles<kTilePanels, kFloatTileTokens>(job, 0);
  bf16_tiles<1, kFloatTileTokens>(job, 0);
}

template <PanelFormat F>
void fp8_unpack_bf16_format(const Fp8UnpackJob& job) {
  const Fp8Source<F> source(job.panel, *job.layout);
  uint16_t* pairs = job.pairs;
  for (int64_t col = job.begin; col < job.end; col += 4) {
    const uint8_t* codes = source.codes + col * kRows;
    prefetch(codes + kPrefetchBytes);
    VERNIER_UNROLL for (int half = 0; half < 2; ++half) {
      store_pairs(pairs, bf16_of_fp8<Fp8Source<F>::kFormat.e5m2>(codes + half * (2 * kRows)));
      pairs += 2 * kRows;
    }
  }
  unpack_fp8_scales(source, job);
}

void fp8_unpack_bf16(const Fp8UnpackJob& job) {
  switch (job.layout->format) {
    case PanelFormat::kE4M3:
      return fp8_unpack_bf16_format<PanelFormat::kE4M3>(job);
    case PanelFormat::kE4M3E8M0:
      return fp8_unpack_bf16_format<PanelFormat::kE4M3E8M0>(job);
    case PanelFormat::kE4M3F32:
      return fp8_unpack_bf16_format<PanelFormat::kE4M3F32>(job);
    case PanelFormat::kE5M2:
      return fp8_unpack_bf16_format<PanelFormat::kE5M2>(job);
    case PanelFormat::kE5M2E8M0:
      return fp8_unpack_bf16_format<PanelFormat::kE5M2E8M0>(job);
    default:
      return fp8_unpack_bf16_format<PanelFormat::kE5M2F32>(job);
  }
}
