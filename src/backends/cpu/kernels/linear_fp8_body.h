// The kernels of FP8 panels, whose codes become float32 in registers. Included after linear_body.h, in the same
// namespace. A group's products are summed column by column and then scaled, here as in tiles: so a row has one order
// of additions, and no product of code and scale is rounded.

// Several panels are read side by side, a part of the memory's delay ahead each.
constexpr int kFp8PrefetchBytes = 1024;

template <PanelFormat F>
struct Fp8Source {
  static constexpr Fp8Format kFormat = fp8_format(F);
  static constexpr bool kScaled = kFormat.scales != GroupScales::kNone;

  Fp8Source() = default;
  Fp8Source(const uint8_t* panel, const PanelLayout& layout) : scales(panel), codes(panel + layout.code_offset) {}

  /// Columns `col`, a multiple of 4, to col + 3.
  VERNIER_INLINE void columns(int64_t col, Floats (&column)[4]) const {
    const Codes four = load_codes(codes + col * kRows);
    if constexpr (kFormat.e5m2) {
      e5m2_columns(four, column);
    } else {
      e4m3_columns(four, column);
    }
  }
  VERNIER_INLINE Floats scale(int64_t group) const {
    if constexpr (kFormat.scales == GroupScales::kE8M0) {
      return load_e8m0(scales + group * kRows);
    } else {
      return load(reinterpret_cast<const float*>(scales) + group * kRows);
    }
  }

  const uint8_t* scales;
  const uint8_t* codes;
};

/// Adds the products of columns [begin, end) of P panels with T rows.
template <PanelFormat F, int P, int T>
VERNIER_INLINE void add_fp8_products(const Fp8Source<F> (&source)[P], const DenseStreamJob& job, int64_t begin,
                                     int64_t end, Floats (&sum)[P][T]) {
  const PanelLayout& layout = *job.layout;
  for (int64_t col = begin; col < end; col += 4) {
    // After a panel's end comes the panel that is P further.
    int64_t ahead = layout.code_offset + col * kRows + kFp8PrefetchBytes;
    if (ahead >= layout.panel_bytes) ahead += (P - 1) * layout.panel_bytes;
    VERNIER_UNROLL for (int p = 0; p < P; ++p) prefetch(source[p].scales + ahead);
    VERNIER_UNROLL for (int p = 0; p < P; ++p) {
      Floats column[4];
      source[p].columns(col, column);
      VERNIER_UNROLL for (int t = 0; t < T; ++t) {
        const float* x = job.x + t * job.x_stride + col;
        VERNIER_UNROLL for (int i = 0; i < 4; ++i) sum[p][t] = fma(column[i], broadcast(x[i]), sum[p][t]);
      }
    }
  }
}

/// P panels with T rows.
template <PanelFormat F, int P, int T>
void fp8_stream_of(const DenseStreamJob& job, int64_t first_panel) {
  const PanelLayout& layout = *job.layout;
  const int64_t cols = layout.cols;
  Fp8Source<F> source[P];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    source[p] = Fp8Source<F>(job.panels + (first_panel + p) * layout.panel_bytes, layout);
  }
  Floats total[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) total[p][t] = zero_floats();
  }
  if constexpr (!Fp8Source<F>::kScaled) {
    add_fp8_products<F, P, T>(source, job, 0, cols, total);
  } else {
    for (int64_t begin = 0, group = 0; begin < cols; begin += layout.group, ++group) {
      Floats sum[P][T];
      VERNIER_UNROLL for (int p = 0; p < P; ++p) {
        VERNIER_UNROLL for (int t = 0; t < T; ++t) sum[p][t] = zero_floats();
      }
      const int64_t end = begin + layout.group < cols ? begin + layout.group : cols;
      add_fp8_products<F, P, T>(source, job, begin, end, sum);
      VERNIER_UNROLL for (int p = 0; p < P; ++p) {
        const Floats scale = source[p].scale(group);
        VERNIER_UNROLL for (int t = 0; t < T; ++t) total[p][t] = fma(sum[p][t], scale, total[p][t]);
      }
    }
  }
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      store(job.out + t * job.out_stride + (first_panel + p) * kRows, total[p][t]);
    }
  }
}

template <PanelFormat F, int T = kStreamTokens>
void fp8_stream_format(const DenseStreamJob& job) {
  if (job.tokens >= T) {
    constexpr int kPanels = T > 2 && kRows < 16 ? 2 : 4;
    int64_t panel = 0;
    for (; panel + kPanels <= job.panel_count; panel += kPanels) fp8_stream_of<F, kPanels, T>(job, panel);
    for (; panel < job.panel_count; ++panel) fp8_stream_of<F, 1, T>(job, panel);
  }
  if constexpr (T > 1) {
    if (job.tokens < T) fp8_stream_format<F, T / 2>(job);
  }
}

void fp8_stream(const DenseStreamJob& job) {
  switch (job.layout->format) {
    case PanelFormat::kE4M3:
      return fp8_stream_format<PanelFormat::kE4M3>(job);
    case PanelFormat::kE4M3E8M0:
      return fp8_stream_format<PanelFormat::kE4M3E8M0>(job);
    case PanelFormat::kE4M3F32:
      return fp8_stream_format<PanelFormat::kE4M3F32>(job);
    case PanelFormat::kE5M2:
      return fp8_stream_format<PanelFormat::kE5M2>(job);
    case PanelFormat::kE5M2E8M0:
      return fp8_stream_format<PanelFormat::kE5M2E8M0>(job);
    default:
      return fp8_stream_format<PanelFormat::kE5M2F32>(job);
  }
}

template <PanelFormat F>
VERNIER_INLINE void unpack_fp8_scales(const Fp8Source<F>& source, const Fp8UnpackJob& job) {
  if constexpr (Fp8Source<F>::kScaled) {
    const int64_t first = job.begin / job.layout->group;
    for (int64_t group = first; group * job.layout->group < job.end; ++group) {
      store(job.scale + (group - first) * kRows, source.scale(group));
    }
  }
}

template <PanelFormat F>
void fp8_unpack_format(const Fp8UnpackJob& job) {
  const Fp8Source<F> source(job.panel, *job.layout);
  float* numbers = job.numbers;
  for (int64_t col = job.begin; col < job.end; col += 4) {
    Floats column[4];
    source.columns(col, column);
    VERNIER_UNROLL for (int i = 0; i < 4; ++i) store(numbers + i * kRows, column[i]);
    numbers += 4 * kRows;
  }
  unpack_fp8_scales(source, job);
}

void fp8_unpack(const Fp8UnpackJob& job) {
  switch (job.layout->format) {
    case PanelFormat::kE4M3:
      return fp8_unpack_format<PanelFormat::kE4M3>(job);
    case PanelFormat::kE4M3E8M0:
      return fp8_unpack_format<PanelFormat::kE4M3E8M0>(job);
    case PanelFormat::kE4M3F32:
      return fp8_unpack_format<PanelFormat::kE4M3F32>(job);
    case PanelFormat::kE5M2:
      return fp8_unpack_format<PanelFormat::kE5M2>(job);
    case PanelFormat::kE5M2E8M0:
      return fp8_unpack_format<PanelFormat::kE5M2E8M0>(job);
    default:
      return fp8_unpack_format<PanelFormat::kE5M2F32>(job);
  }
}

/// Columns [begin, end) of one panel, code times scale, rounded once as the format's definition has it.
template <PanelFormat F>
void decode_fp8(const uint8_t* panel, const PanelLayout& layout, int64_t begin, int64_t end, float* out) {
  const Fp8Source<F> source(panel, layout);
  for (int64_t col = begin; col < end; col += 4) {
    Floats column[4];
    source.columns(col, column);
    for (const Floats& number : column) {
      if constexpr (Fp8Source<F>::kScaled) {
        store(out, mul(number, source.scale(col / layout.group)));
      } else {
        store(out, number);
      }
      out += kRows;
    }
  }
}
