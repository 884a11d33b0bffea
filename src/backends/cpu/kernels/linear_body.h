// The integer kernels of matrix products, written once over the vectors of a simd_<isa>.h and compiled for each: the
// including file opens the instruction set's namespace. Everything here is internal to it.

constexpr int kVectorBytes = kRows * 4;
constexpr int kPrefetchBytes = 4096;

/// Vector j of the byte codes of a block of 32 columns, out of its planes.
template <CodePlanes P>
VERNIER_INLINE Codes codes_of(const uint8_t* block, int j) {
  const auto plane = [&](int vector) __attribute__((always_inline)) {
    return load_codes(block + vector * kVectorBytes);
  };
  const auto nibble = [&]() __attribute__((always_inline)) {
    return bits(shift_right(plane(j % 4), j < 4 ? 0 : 4), 15);
  };
  if constexpr (P == CodePlanes::kByte) {
    return plane(j);
  } else if constexpr (P == CodePlanes::kNibble) {
    return nibble();
  } else if constexpr (P == CodePlanes::kE2M1) {
    return e2m1_codes(nibble());
  } else if constexpr (P == CodePlanes::kNibbleOne) {
    return merge(nibble(), bits(shift_right(plane(4), j - 4), 16));
  } else if constexpr (P == CodePlanes::kNibbleTwo) {
    return merge(nibble(), bits(shift_right(plane(4 + j / 4), 2 * (j % 4) - 4), 48));
  } else {
    const Codes low = bits(shift_right(plane(j / 4), 2 * (j % 4)), 3);
    if constexpr (P == CodePlanes::kTwo) {
      return low;
    } else {
      return merge(low, bits(shift_right(plane(2), j - 2), 4));
    }
  }
}

/// Reads blocks of a packed panel.
template <PanelFormat F>
struct PackedSource {
  static constexpr IntFormat kFormat = int_format(F);
  static constexpr StripLayout kStrip = strip_layout(F, kRows);
  static constexpr int kGroup = kFormat.group;
  static constexpr int kGroupsOfStrip = kStrip.blocks * 32 / kGroup;
  static constexpr int kMaxCode = kFormat.max_code;

  VERNIER_INLINE const uint8_t* block_codes(int64_t block) const {
    return panel + block / kStrip.blocks * kStrip.bytes + block % kStrip.blocks * kStrip.code_bytes;
  }
  VERNIER_INLINE Codes codes(int64_t block, int j) const { return codes_of<kFormat.codes>(block_codes(block), j); }
  /// The bytes that a product needs some 200 ns later.
  VERNIER_INLINE void prefetch_after(int64_t block) const {
    VERNIER_UNROLL for (int i = 0; i < kStrip.bytes / kStrip.blocks; i += 64) {
      prefetch(block_codes(block) + kPrefetchBytes + i);
    }
  }

  /// Scale of a group of the panel.
  VERNIER_INLINE Floats scale(int64_t group) const { return read_scale(kStrip.scales, kStrip.sub_scales, group); }
  /// What is added to each number of a group; -zero * scale where the format stores nothing.
  VERNIER_INLINE Floats minimum(int64_t group, Floats scale) const {
    if constexpr (!kFormat.minimum) {
      return mul(scale, broadcast(static_cast<float>(-kFormat.zero)));
    } else {
      const Floats minimum = read_scale(kStrip.minimums, kStrip.sub_minimums, group);
      // The k-quants store what is to be subtracted.
      return kFormat.scales == ScalePlanes::kSuper ? mul(minimum, broadcast(-1.0f)) : minimum;
    }
  }

  const uint8_t* panel;

 private:
  VERNIER_INLINE Floats read_scale(int first, int sub, int64_t group) const {
    const uint8_t* strip = panel + group / kGroupsOfStrip * kStrip.bytes;
    const int64_t in_strip = group % kGroupsOfStrip;
    if constexpr (kFormat.scales == ScalePlanes::kSuper) {
      const uint8_t* bytes = strip + sub + in_strip * kRows;
      return mul(load_half(strip + first), kFormat.signed_sub ? load_signed(bytes) : load_unsigned(bytes));
    } else if constexpr (kFormat.scales == ScalePlanes::kE8M0) {
      static_assert(kFormat.halves);
      return load_half_e8m0(strip + first + in_strip * kRows);
    } else if constexpr (kFormat.scales == ScalePlanes::kE4M3) {
      static_assert(kFormat.halves);
      return load_half_e4m3(strip + first + in_strip * kRows);
    } else {
      const Floats scale = load_half(strip + first + in_strip * (kRows * 2));
      return kFormat.halves ? mul(scale, broadcast(0.5f)) : scale;
    }
  }
};

/// Reads blocks of an unpacked panel.
template <int Group, int MaxCode>
struct UnpackedSource {
  static constexpr int kGroup = Group;
  static constexpr int kMaxCode = MaxCode;

  VERNIER_INLINE Codes codes(int64_t block, int j) const { return load_codes(code + (block * 8 + j) * kVectorBytes); }
  VERNIER_INLINE void prefetch_after(int64_t) const {}
  VERNIER_INLINE Floats scale(int64_t group) const { return load(scales + group * kRows); }
  VERNIER_INLINE Floats minimum(int64_t group, Floats) const { return load(minimums + group * kRows); }

  const uint8_t* code;
  const float* scales;
  const float* minimums;
};

/// Products of the P panels of `source` with T rows, into out[t][p * kRows + r].
template <int P, int T, class Source>
VERNIER_INLINE void int_tile_of(const Source (&source)[P], int64_t blocks, const IntRows& x, float* out,
                                int64_t out_stride, bool accumulate) {
  constexpr int kSteps = Source::kGroup / 4;
  constexpr int kGroups = 32 / Source::kGroup;
  Floats sum[P][T];
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) {
      sum[p][t] = accumulate ? load(out + t * out_stride + p * kRows) : zero_floats();
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    VERNIER_UNROLL for (int p = 0; p < P; ++p) source[p].prefetch_after(block);
    VERNIER_UNROLL for (int part = 0; part < kGroups; ++part) {
      Dot<Source::kMaxCode> dot[P][T];
      VERNIER_UNROLL for (int step = 0; step < kSteps; ++step) {
        const int column = part * kSteps + step;
        Codes codes[P];
        VERNIER_UNROLL for (int p = 0; p < P; ++p) codes[p] = source[p].codes(block, column);
        VERNIER_UNROLL for (int t = 0; t < T; ++t) {
          const Quad quad = load_quad(x.codes + t * x.codes_stride + block * 32 + column * 4);
          VERNIER_UNROLL for (int p = 0; p < P; ++p) dot[p][t].step(step, codes[p], quad);
        }
      }
      const int64_t group = block * kGroups + part;
      Floats scale[P];
      Floats minimum[P];
      VERNIER_UNROLL for (int p = 0; p < P; ++p) {
        scale[p] = source[p].scale(group);
        minimum[p] = source[p].minimum(group, scale[p]);
      }
      VERNIER_UNROLL for (int t = 0; t < T; ++t) {
        const Floats x_scale = broadcast(x.scale[t * x.stride + group]);
        const Floats x_sum = broadcast(x.sum[t * x.stride + group]);
        VERNIER_UNROLL for (int p = 0; p < P; ++p) {
          const Floats product = dot[p][t].finish(kSteps);
          sum[p][t] = fma(product, mul(scale[p], x_scale), fma(minimum[p], x_sum, sum[p][t]));
        }
      }
    }
  }
  VERNIER_UNROLL for (int p = 0; p < P; ++p) {
    VERNIER_UNROLL for (int t = 0; t < T; ++t) store(out + t * out_stride + p * kRows, sum[p][t]);
  }
}

template <PanelFormat F, int T>
void stream_of(const StreamJob& job) {
  for (int64_t p = 0; p < job.panel_count; ++p) {
    const PackedSource<F> source[1] = {{job.panels + p * job.layout->panel_bytes}};
    int_tile_of<1, T>(source, job.layout->blocks, job.x, job.out + p * kRows, job.out_stride, false);
  }
}

/// As many rows at a time as registers hold sums for.
template <PanelFormat F, int T = kStreamTokens>
void stream_format(const StreamJob& job) {
  if (job.tokens >= T) stream_of<F, T>(job);
  if constexpr (T > 1) {
    if (job.tokens < T) stream_format<F, T / 2>(job);
  }
}

template <PanelFormat F>
void unpack_format(const UnpackJob& job) {
  const PackedSource<F> source{job.panel};
  constexpr int kGroups = 32 / PackedSource<F>::kGroup;
  for (int64_t block = job.begin_block; block < job.end_block; ++block) {
    uint8_t* codes = job.codes + (block - job.begin_block) * (8 * kVectorBytes);
    VERNIER_UNROLL for (int j = 0; j < 8; ++j) store_codes(codes + j * kVectorBytes, source.codes(block, j));
    for (int part = 0; part < kGroups; ++part) {
      const int64_t group = block * kGroups + part;
      const int64_t to = (group - job.begin_block * kGroups) * kRows;
      const Floats scale = source.scale(group);
      store(job.scale + to, scale);
      store(job.minimum + to, source.minimum(group, scale));
    }
  }
}

template <int Group, int MaxCode, int P, int T>
void int_tile_rows(const IntTileJob& job) {
  UnpackedSource<Group, MaxCode> source[P];
  for (int p = 0; p < P; ++p) {
    source[p] = {job.codes + p * job.codes_stride, job.scale + p * job.scale_stride,
                 job.minimum + p * job.scale_stride};
  }
  IntRows x = job.x;
  float* out = job.out;
  for (int64_t t = 0; t + T <= job.tokens; t += T) {
    int_tile_of<P, T>(source, job.blocks, x, out, job.out_stride, job.accumulate);
    x.codes += T * x.codes_stride;
    x.scale += T * x.stride;
    x.sum += T * x.stride;
    out += T * job.out_stride;
  }
}

/// Whole tiles of T rows, then the rest with lower tiles.
template <int Group, int MaxCode, int P, int T>
void int_tiles(const IntTileJob& job) {
  if (job.tokens >= T) int_tile_rows<Group, MaxCode, P, T>(job);
  if constexpr (T > 1) {
    const int64_t done = job.tokens / T * T;
    if (done == job.tokens) return;
    IntTileJob rest = job;
    rest.tokens = job.tokens - done;
    rest.x.codes += done * job.x.codes_stride;
    rest.x.scale += done * job.x.stride;
    rest.x.sum += done * job.x.stride;
    rest.out += done * job.out_stride;
    int_tiles<Group, MaxCode, P, (T > 2 ? 2 : 1)>(rest);
  }
}

template <int Group, int MaxCode>
void int_tile_panels(const IntTileJob& job) {
  constexpr int kPanels = MaxCode > 63 ? kByteTilePanels : kTilePanels;
  constexpr int kTokens = MaxCode > 63 ? kByteTileTokens : kIntTileTokens;
  if (job.panel_count == kPanels) return int_tiles<Group, MaxCode, kPanels, kTokens>(job);
  for (int p = 0; p < job.panel_count; ++p) {
    IntTileJob one = job;
    one.codes += p * job.codes_stride;
    one.scale += p * job.scale_stride;
    one.minimum += p * job.scale_stride;
    one.out += p * kRows;
    int_tiles<Group, MaxCode, 1, kTokens>(one);
  }
}

void stream(const StreamJob& job) {
  switch (job.layout->format) {
    case PanelFormat::kQ2K:
      return stream_format<PanelFormat::kQ2K>(job);
    case PanelFormat::kQ3K:
      return stream_format<PanelFormat::kQ3K>(job);
    case PanelFormat::kQ4_0:
      return stream_format<PanelFormat::kQ4_0>(job);
    case PanelFormat::kQ4_1:
      return stream_format<PanelFormat::kQ4_1>(job);
    case PanelFormat::kQ4K:
      return stream_format<PanelFormat::kQ4K>(job);
    case PanelFormat::kQ5_0:
      return stream_format<PanelFormat::kQ5_0>(job);
    case PanelFormat::kQ5_1:
      return stream_format<PanelFormat::kQ5_1>(job);
    case PanelFormat::kQ5K:
      return stream_format<PanelFormat::kQ5K>(job);
    case PanelFormat::kQ6K:
      return stream_format<PanelFormat::kQ6K>(job);
    case PanelFormat::kQ8_0:
      return stream_format<PanelFormat::kQ8_0>(job);
    case PanelFormat::kMxfp4:
      return stream_format<PanelFormat::kMxfp4>(job);
    default:
      return stream_format<PanelFormat::kNvfp4>(job);
  }
}

void unpack(const UnpackJob& job) {
  switch (job.layout->format) {
    case PanelFormat::kQ2K:
      return unpack_format<PanelFormat::kQ2K>(job);
    case PanelFormat::kQ3K:
      return unpack_format<PanelFormat::kQ3K>(job);
    case PanelFormat::kQ4_0:
      return unpack_format<PanelFormat::kQ4_0>(job);
    case PanelFormat::kQ4_1:
      return unpack_format<PanelFormat::kQ4_1>(job);
    case PanelFormat::kQ4K:
      return unpack_format<PanelFormat::kQ4K>(job);
    case PanelFormat::kQ5_0:
      return unpack_format<PanelFormat::kQ5_0>(job);
    case PanelFormat::kQ5_1:
      return unpack_format<PanelFormat::kQ5_1>(job);
    case PanelFormat::kQ5K:
      return unpack_format<PanelFormat::kQ5K>(job);
    case PanelFormat::kQ6K:
      return unpack_format<PanelFormat::kQ6K>(job);
    case PanelFormat::kQ8_0:
      return unpack_format<PanelFormat::kQ8_0>(job);
    case PanelFormat::kMxfp4:
      return unpack_format<PanelFormat::kMxfp4>(job);
    default:
      return unpack_format<PanelFormat::kNvfp4>(job);
  }
}

/// Codes up to 15, 31, 63 and 255 have kernels of their own.
void int_tile(const IntTileJob& job) {
  const IntFormat format = int_format(job.format);
  const bool narrow = format.group == 16;
  if (format.max_code <= 15) return narrow ? int_tile_panels<16, 15>(job) : int_tile_panels<32, 15>(job);
  if (format.max_code <= 31) return narrow ? int_tile_panels<16, 31>(job) : int_tile_panels<32, 31>(job);
  if (format.max_code <= 63) return int_tile_panels<16, 63>(job);
  int_tile_panels<32, 255>(job);
}

void quantise(const float* x, int64_t cols, int group, int8_t* codes, float* scale, float* sum) {
  for (int64_t at = 0; at < cols; at += group) {
    const float most = max_magnitude(x + at, group);
    // Below this, 127 / most would overflow; such a group counts as zero. A NaN is not below.
    const bool zero = most < 0x1p-100f;
    const int total = round_codes(x + at, zero ? 0.0f : 127.0f / most, codes + at, group);
    const float unit = zero ? 0.0f : most / 127.0f;
    scale[at / group] = unit;
    sum[at / group] = unit * static_cast<float>(total);
  }
}
