// The float kernels of matrix products: exact decoding of panels, and products with float activations. Included after
// linear_fp8_body.h, in the same namespace.

/// Columns [begin, end) of one panel; whole blocks of 32.
template <PanelFormat F>
void decode_blocks(const uint8_t* panel, int64_t begin, int64_t end, float* out) {
  const PackedSource<F> source{panel};
  constexpr IntFormat kFormat = int_format(F);
  for (int64_t block = begin / 32; block < end / 32; ++block) {
    for (int j = 0; j < 8; ++j) {
      const int64_t group = (block * 32 + j * 4) / kFormat.group;
      const Floats scale = source.scale(group);
      const Codes codes = source.codes(block, j);
      for (int i = 0; i < 4; ++i) {
        // scale x code is exact in float32, so that only the minimum rounds, as in the format's definition.
        Floats value = mul(scale, column_of(codes, i, kFormat.zero));
        if constexpr (kFormat.minimum) value = add(value, source.minimum(group, scale));
        store(out, value);
        out += kRows;
      }
    }
  }
}

/// Column pair `pair` of a dense panel, as two vectors.
template <PanelFormat F>
VERNIER_INLINE void dense_pair(const uint8_t* panel, int64_t pair, Floats& even, Floats& odd) {
  if constexpr (F == PanelFormat::kBF16) {
    even = load_bf16_even(panel + pair * kVectorBytes);
    odd = load_bf16_odd(panel + pair * kVectorBytes);
  } else if constexpr (F == PanelFormat::kF16) {
    even = load_half(panel + pair * kVectorBytes);
    odd = load_half(panel + pair * kVectorBytes + kRows * 2);
  } else {
    even = load(reinterpret_cast<const float*>(panel) + pair * 2 * kRows);
    odd = load(reinterpret_cast<const float*>(panel) + (pair * 2 + 1) * kRows);
  }
}

template <PanelFormat F>
void decode_dense(const uint8_t* panel, int64_t begin, int64_t end, float* out) {
  for (int64_t pair = begin / 2; pair < end / 2; ++pair) {
    Floats even, odd;
    dense_pair<F>(panel, pair, even, odd);
    store(out, even);
    store(out + kRows, odd);
    out += 2 * kRows;
  }
}

void decode(const uint8_t* panel, const PanelLayout& layout, int64_t begin, int64_t end, float* out) {
  switch (layout.format) {
    case PanelFormat::kQ2K:
      return decode_blocks<PanelFormat::kQ2K>(panel, begin, end, out);
    case PanelFormat::kQ3K:
      return decode_blocks<PanelFormat::kQ3K>(panel, begin, end, out);
    case PanelFormat::kQ4_0:
      return decode_blocks<PanelFormat::kQ4_0>(panel, begin, end, out);
    case PanelFormat::kQ4_1:
      return decode_blocks<PanelFormat::kQ4_1>(panel, begin, end, out);
    case PanelFormat::kQ4K:
      return decode_blocks<PanelFormat::kQ4K>(panel, begin, end, out);
    case PanelFormat::kQ5_0:
      return decode_blocks<PanelFormat::kQ5_0>(panel, begin, end, out);
    case PanelFormat::kQ5_1:
      return decode_blocks<PanelFormat::kQ5_1>(panel, begin, end, out);
    case PanelFormat::kQ5K:
      return decode_blocks<PanelFormat::kQ5K>(panel, begin, end, out);
    case PanelFormat::kQ6K:
      return decode_blocks<PanelFormat::kQ6K>(panel, begin, end, out);
    case PanelFormat::kQ8_0:
      return decode_blocks<PanelFormat::kQ8_0>(panel, begin, end, out);
    case PanelFormat::kMxfp4:
      return decode_blocks<PanelFormat::kMxfp4>(panel, begin, end, out);
    case PanelFormat::kNvfp4:
      return decode_blocks<PanelFormat::kNvfp4>(panel, begin, end, out);
    case PanelFormat::kE4M3:
      return decode_fp8<PanelFormat::kE4M3>(panel, layout, begin, end, out);
    case PanelFormat::kE4M3E8M0:
      return decode_fp8<PanelFormat::kE4M3E8M0>(panel, layout, begin, end, out);
    case PanelFormat::kE4M3F32:
      return decode_fp8<PanelFormat::kE4M3F32>(panel, layout, begin, end, out);
    case PanelFormat::kE5M2:
      return decode_fp8<PanelFormat::kE5M2>(panel, layout, begin, end, out);
    case PanelFormat::kE5M2E8M0:
      return decode_fp8<PanelFormat::kE5M2E8M0>(panel, layout, begin, end, out);
    case PanelFormat::kE5M2F32:
      return decode_fp8<PanelFormat::kE5M2F32>(panel, layout, begin, end, out);
    case PanelFormat::kBF16:
      return decode_dense<PanelFormat::kBF16>(panel, begin, end, out);
    case PanelFormat::kF16:
      return decode_dense<PanelFormat::kF16>(panel, begin, end, out);
    case PanelFormat::kF32:
      return decode_dense<PanelFormat::kF32>(panel, begin, end, out);
  }
}

/// Adds the products of columns [begin, end) of P float panels with T rows.
template <int P, int T>
VERNIER_INLINE void add_float_products(const float* const (&weights)[P], const FloatTileJob& job, int64_t begin,
                                       int64_t end, Floats (&sum)[P][T]) {
  for (int64_t k = begin; k < end; ++k) {
    Floats w[P];
    VERNIER_UNROLL for (int p = 0; p < P; ++p) w[p] = load(weights[p] + k * kRows);
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      const Floats value = broadcast(job.x[t * job.x_stride + k]);
      VERNIER_UNROLL for (int p = 0; p < P; ++p) sum[p][t] = fma(w[p], value, sum[p][t]);
    }
  }
}

/// Products of P float panels with the first T rows of the job.
template <int P, int T>
VERNIER_INLINE void float_tile_of(const float* const (&weights)[P], const FloatTileJob& job) {
  Floats sum[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      sum[p][t] = job.accumulate ? load(job.out + t * job.out_stride + p * kRows) : zero_floats();
    }
  }
  add_float_products<P, T>(weights, job, 0, job.cols, sum);
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) store(job.out + t * job.out_stride + p * kRows, sum[p][t]);
  }
}

/// The same with scales: sums of a group live in registers, totals in `out`.
template <int P, int T>
VERNIER_INLINE void scaled_tile_of(const float* const (&weights)[P], const FloatTileJob& job) {
  for (int64_t begin = 0, group = 0; begin < job.cols; begin += job.group, ++group) {
    Floats sum[P][T];
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      VERNIER_UNROLL for (int t = 0; t < T; ++t) sum[p][t] = zero_floats();
    }
    const int64_t end = begin + job.group < job.cols ? begin + job.group : job.cols;
    add_float_products<P, T>(weights, job, begin, end, sum);
    const bool first = group == 0 && !job.accumulate;
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      const Floats scale = load(job.scale + p * job.scale_stride + group * kRows);
      VERNIER_UNROLL for (int t = 0; t < T; ++t) {
        float* out = job.out + t * job.out_stride + p * kRows;
        store(out, fma(sum[p][t], scale, first ? zero_floats() : load(out)));
      }
    }
  }
}

/// Whole tiles of T rows, then the rest with lower tiles.
template <int P, int T>
void float_tiles(FloatTileJob job) {
  const float* weights[P];
  for (int p = 0; p < P; ++p) weights[p] = job.weights + p * job.weights_stride;
  while (job.tokens >= T) {
    if (job.scale != nullptr) {
      scaled_tile_of<P, T>(weights, job);
    } else {
      float_tile_of<P, T>(weights, job);
    }
    job.tokens -= T;
    job.x += T * job.x_stride;
    job.out += T * job.out_stride;
  }
  if constexpr (T > 1) {
    if (job.tokens > 0) float_tiles<P, (T > 3 ? 3 : T > 2 ? 2 : 1)>(job);
  }
}

void float_tile(const FloatTileJob& job) {
  if (kTilePanels > 1 && job.panel_count > 1) return float_tiles<kTilePanels, kFloatTileTokens>(job);
  float_tiles<1, kFloatTileTokens>(job);
}

/// P panels with T rows: as many sums as hide the latency of fma. Each adds its columns in order, as float_tile does.
template <PanelFormat F, int P, int T>
void dense_stream_of(const DenseStreamJob& job, int64_t first_panel) {
  constexpr int kPairBytes = kVectorBytes * (F == PanelFormat::kF32 ? 2 : 1);
  const int64_t pairs = job.layout->cols / 2;
  const uint8_t* panels = job.panels + first_panel * job.layout->panel_bytes;
  Floats sum[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) sum[p][t] = zero_floats();
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      const uint8_t* panel = panels + p * job.layout->panel_bytes;
      prefetch(panel + pair * kPairBytes + kPrefetchBytes);
      Floats even, odd;
      dense_pair<F>(panel, pair, even, odd);
      VERNIER_UNROLL for (int t = 0; t < T; ++t) {
        const float* x = job.x + t * job.x_stride + pair * 2;
        sum[p][t] = fma(odd, broadcast(x[1]), fma(even, broadcast(x[0]), sum[p][t]));
      }
    }
  }
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      store(job.out + t * job.out_stride + (first_panel + p) * kRows, sum[p][t]);
    }
  }
}

template <PanelFormat F, int T = kStreamTokens>
void dense_stream_format(const DenseStreamJob& job) {
  if (job.tokens >= T) {
    constexpr int kPanels = T > 2 && kRows < 16 ? 2 : 4;
    int64_t panel = 0;
    for (; panel + kPanels <= job.panel_count; panel += kPanels) dense_stream_of<F, kPanels, T>(job, panel);
    for (; panel < job.panel_count; ++panel) dense_stream_of<F, 1, T>(job, panel);
  }
  if constexpr (T > 1) {
    if (job.tokens < T) dense_stream_format<F, T / 2>(job);
  }
}

void dense_stream(const DenseStreamJob& job) {
  if (job.layout->format == PanelFormat::kBF16) return dense_stream_format<PanelFormat::kBF16>(job);
  if (job.layout->format == PanelFormat::kF16) return dense_stream_format<PanelFormat::kF16>(job);
  dense_stream_format<PanelFormat::kF32>(job);
}

void finish(const FinishJob& job) {
  for (int64_t t = 0; t < job.tokens; ++t) {
    const float* tile = job.tile + t * job.tile_stride;
    float* out = job.out + t * job.out_stride;
    int64_t r = 0;
    for (; r + kRows <= job.rows; r += kRows) {
      Floats value = load(tile + r);
      if (job.row_scale != nullptr) value = mul(value, load(job.row_scale + r));
      if (job.bias != nullptr) value = add(value, load(job.bias + r));
      if (job.add_into_out) value = add(value, load(out + r));
      store(out + r, value);
    }
    for (; r < job.rows; ++r) {
      float value = tile[r];
      if (job.row_scale != nullptr) value *= job.row_scale[r];
      if (job.bias != nullptr) value += job.bias[r];
      out[r] = job.add_into_out ? out[r] + value : value;
    }
  }
}
