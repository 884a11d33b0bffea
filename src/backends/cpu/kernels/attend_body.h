// Attention kernels, written once: attend_<isa>.cc includes this inside the namespace of its instruction set.

namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr int kDecodeTileKeys = 32;  // keys whose rows stay in the first-level cache while every query meets them
constexpr int kBlockRows = kLanes == 16 ? 12 : 6;  // rows of a register block: with two vectors each they fill the file
constexpr int kBlockCols = 2 * kLanes;
// Of a query's scores: a range and what its last vector may hold beyond; an odd number of cache lines, so that a column
// does not fall into few sets of the cache.
constexpr int kScoreStride = kDecodeRangeKeys + 16;

VERNIER_INLINE int round_up(int x, int step) {
  return (x + step - 1) / step * step;
}

/// Runs `fn` with the type that says how a cache element is stored.
template <class Fn>
VERNIER_INLINE auto with_stored(CodecId stored, Fn fn) {
  switch (stored) {
    case CodecId::kF32:
      return fn(StoredF32{});
    case CodecId::kBF16:
      return fn(StoredBF16{});
    case CodecId::kE4M3Tensor:
      return fn(StoredE4M3{});
    case CodecId::kE5M2Tensor:
      return fn(StoredE5M2{});
    default:
      return fn(StoredF16{});
  }
}

template <KvRole R>
VERNIER_INLINE int64_t element(const KvView<R>& view, int64_t slot, int head) {
  return ((slot / view.extents.block_tokens * view.extents.kv_heads + head) * view.extents.block_tokens +
          slot % view.extents.block_tokens) *
         view.extents.head_dim;
}

/// Element offsets of keys [first, first + keys).
VERNIER_INLINE void find_rows(const KvPages& pages, const KvExtents& extents, int head, int first, int keys,
                              int64_t* offsets) {
  int at = first - pages.first_position;
  int block = at / pages.block_tokens, token = at % pages.block_tokens;
  for (int done = 0; done < keys; ++block, token = 0) {
    int64_t base = (int64_t{pages.blocks[block]} * extents.kv_heads + head) * extents.block_tokens;
    for (; token < pages.block_tokens && done < keys; ++token) offsets[done++] = (base + token) * extents.head_dim;
  }
}

/// `dim` stored numbers as float32, then zeros up to `padded`.
template <class T>
VERNIER_INLINE void read_row(const std::byte* from, int dim, int padded, float* to) {
  int i = 0;
#if defined(VERNIER_WIDE_CODES)
  if constexpr (requires { T::read_wide(from, to); }) {
    for (; i + kWideCodes <= dim; i += kWideCodes) T::read_wide(from + i, to + i);
  }
#endif
  for (; i + kLanes <= dim; i += kLanes) store(to + i, T::read(from + i * T::kBytes));
  if (i < dim) {
    alignas(64) std::byte tail[kLanes * 4] = {};
    __builtin_memcpy(tail, from + i * T::kBytes, static_cast<size_t>(dim - i) * T::kBytes);
    store(to + i, T::read(tail));
    i += kLanes;
  }
  for (; i < padded; ++i) to[i] = 0;
}

// ---- prepare ----

template <class T>
VERNIER_INLINE void write_row(const float* from, int dim, float scale, std::byte* to, KvWritten& written) {
  VecI nan = {};
  for (int i = 0; i < dim; i += kLanes) {
    alignas(64) float tail[kLanes] = {};
    int count = dim - i < kLanes ? dim - i : kLanes;
    if (count < kLanes) __builtin_memcpy(tail, from + i, static_cast<size_t>(count) * 4);
    Vec x = count < kLanes ? load(tail) : load(from + i);
    if (scale != 1) x = x / scale;
    VecI above = x > T::kLimit, below = x < -T::kLimit;
    written.saturated += count_true(above | below);
    if constexpr (T::kNanIsCode) nan |= x != x;
    x = above ? splat(T::kLargest) : x;
    x = below ? splat(-T::kLargest) : x;
    if (count == kLanes) {
      T::write(to + i * T::kBytes, x);
    } else {
      alignas(64) std::byte codes[kLanes * 4];
      T::write(codes, x);
      __builtin_memcpy(to + i * T::kBytes, codes, static_cast<size_t>(count) * T::kBytes);
    }
  }
  if constexpr (T::kNanIsCode) written.nan |= count_true(nan) > 0;
}

/// x * weight / rms(x), of one head.
VERNIER_INLINE void norm_head(const float* x, const float* weight, float eps, int dim, float* out) {
  float squares[8] = {};
  int i = 0;
  for (; i + 8 <= dim; i += 8) {
    for (int j = 0; j < 8; ++j) squares[j] += x[i + j] * x[i + j];
  }
  for (int j = 0; i < dim; ++i, ++j) squares[j] += x[i] * x[i];
  float sum = 0;
  for (float s : squares) sum += s;
  float factor = 1.0f / __builtin_sqrtf(sum / static_cast<float>(dim) + eps);
  for (int j = 0; j < dim; ++j) out[j] = x[j] * factor * weight[j];
}

/// Turns pair (i, i + pairs) of a head by its angle; in place.
VERNIER_INLINE void rotate(float* head, const float* cosines, const float* sines, int pairs) {
  for (int i = 0; i < pairs; ++i) {
    float a = head[i], b = head[i + pairs];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + pairs] = b * cosines[i] + a * sines[i];
  }
}

/// One head of a row to `out`, normed and turned.
VERNIER_INLINE void turn_head(const PrepareTask& t, int row, const float* from, const float* norm, float* out) {
  if (norm != nullptr) {
    norm_head(from, norm, t.norm_eps, t.head_dim, out);
  } else {
    __builtin_memcpy(out, from, static_cast<size_t>(t.head_dim) * 4);
  }
  const float* cosines = t.cosines + int64_t{row} * t.rope_pairs;
  const float* sines = t.sines + int64_t{row} * t.rope_pairs;
  rotate(out, cosines, sines, t.rope_pairs);
}

/// By which a read value, or a mean of read values, is multiplied to be the number that was stored.
VERNIER_INLINE float unit_scale(CodecId stored, float scale) {
  return with_stored(stored, [&](auto type) { return scale / decltype(type)::kUnit; });
}

/// Writes one head's numbers to the cache and, where the step keeps its own beside it, there: in what a read would
/// give, rounded as the cache has them or as they are.
template <KvRole R>
VERNIER_INLINE void write_head(const PrepareTask& t, const KvView<R>& to, const KvView<R>& fresh, int row, int head,
                               const float* from, KvWritten& written) {
  const int64_t at = element(to, t.slots[row], head);
  const float scale = to.scales[head];
  float* own = fresh.codes == nullptr ? nullptr : reinterpret_cast<float*>(fresh.codes) + element(fresh, row, head);
  with_stored(to.stored, [&](auto type) {
    using T = decltype(type);
    std::byte* codes = to.codes + at * T::kBytes;
    write_row<T>(from, t.head_dim, scale, codes, written);
    if (own != nullptr && t.fresh_is_read) {
      alignas(64) float numbers[kMaxHeadDim];
      read_row<typename T::Exact>(codes, t.head_dim, round_up(t.head_dim, kLanes), numbers);
      __builtin_memcpy(own, numbers, static_cast<size_t>(t.head_dim) * 4);
    } else if (own != nullptr) {
      for (int i = 0; i < t.head_dim; ++i) own[i] = from[i] / scale * T::kUnit;
    }
  });
}

KvWritten prepare(const PrepareTask& t, int first_row, int end_row) {
  int64_t columns = (int64_t{t.heads} + 2 * t.kv_heads) * t.head_dim;
  KvWritten written;
  const int group = t.heads / t.kv_heads;
  alignas(64) float head_buffer[kMaxHeadDim];
  for (int row = first_row; row < end_row; ++row) {
    const float* q = t.qkv + row * columns;
    const float* k = q + int64_t{t.heads} * t.head_dim;
    const float* v = k + int64_t{t.kv_heads} * t.head_dim;
    for (int head = 0; head < t.heads; ++head) {
      float* out = t.queries + (int64_t{row} * t.heads + head) * t.padded_dim;
      turn_head(t, row, q + int64_t{head} * t.head_dim, t.q_norm, out);
      const float scale = t.query_scale * unit_scale(t.keys.stored, t.keys.scales[head / group]);
      for (int i = 0; i < t.head_dim; ++i) out[i] *= scale;
      for (int i = t.head_dim; i < t.padded_dim; ++i) out[i] = 0;
    }
    for (int head = 0; head < t.kv_heads; ++head) {
      turn_head(t, row, k + int64_t{head} * t.head_dim, t.k_norm, head_buffer);
      write_head(t, t.keys, t.fresh.keys, row, head, head_buffer, written);
      write_head(t, t.values, t.fresh.values, row, head, v + int64_t{head} * t.head_dim, written);
    }
  }
  return written;
}

// ---- decode ----

/// Stored rows of one tile, and the rows to fetch ahead while it is worked on.
struct TileRows {
  const std::byte* base;
  const int64_t* offsets;  // [keys], in elements
  const std::byte* ahead_base;
  const int64_t* ahead;  // [ahead_keys]
  int ahead_keys;
};

template <class T>
VERNIER_INLINE void fetch_row(const TileRows& rows, int key, int dim) {
  if (key >= rows.ahead_keys) return;
  const std::byte* row = rows.ahead_base + rows.ahead[key] * T::kBytes;
  for (int at = 0; at < dim * T::kBytes; at += 64) __builtin_prefetch(row + at);
}

/// Scores of NQ queries with NK keys from `first`.
template <class T, int NQ, int NK>
VERNIER_INLINE void dot_keys(const float* queries, int dim, const TileRows& rows, int first, float* scores) {
  Vec sums[NQ][NK] = {};
  const std::byte* row[NK];
  for (int k = 0; k < NK; ++k) row[k] = rows.base + rows.offsets[first + k] * T::kBytes;
  for (int i = 0; i < dim; i += kLanes) {
    Vec q[NQ];
#pragma GCC unroll 8
    for (int j = 0; j < NQ; ++j) q[j] = load(queries + j * dim + i);
#pragma GCC unroll 8
    for (int k = 0; k < NK; ++k) {
      Vec key = T::read(row[k] + i * T::kBytes);
#pragma GCC unroll 8
      for (int j = 0; j < NQ; ++j) sums[j][k] = fma(q[j], key, sums[j][k]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < NQ; ++j) {
    float* to = scores + j * kScoreStride + first;
    if constexpr (NK == 4) {
      store_sums(to, sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
    } else {
      for (int k = 0; k < NK; ++k) to[k] = sum_lanes(sums[j][k]);
    }
  }
}

template <class T, int NQ>
VERNIER_APART void score_tile(const float* queries, int dim, const TileRows& rows, int keys, float* scores) {
  constexpr int kStep = NQ == 4 && kLanes < 16 ? 2 : 4;
  int k = 0;
  for (; k + kStep <= keys; k += kStep) {
    for (int j = 0; j < kStep; ++j) fetch_row<T>(rows, k + j, dim);
    dot_keys<T, NQ, kStep>(queries, dim, rows, k, scores);
  }
  for (; k < keys; ++k) dot_keys<T, NQ, 1>(queries, dim, rows, k, scores);
}

/// outputs += weights x values, for NQ queries and NV vectors of columns from `column`.
template <class T, int NQ, int NV>
VERNIER_INLINE void add_columns(const float* weights, const TileRows& rows, int keys, int column, int dim,
                                float* outputs) {
  Vec sums[NQ][NV];
#pragma GCC unroll 8
  for (int j = 0; j < NQ; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) sums[j][v] = load(outputs + j * dim + column + v * kLanes);
  }
  for (int k = 0; k < keys; ++k) {
    if (column == 0) fetch_row<T>(rows, k, dim);
    const std::byte* row = rows.base + (rows.offsets[k] + column) * T::kBytes;
    Vec weight[NQ];  // NQ weights, one value and NQ x NV sums fill 16 registers
#pragma GCC unroll 8
    for (int j = 0; j < NQ; ++j) weight[j] = splat(weights[j * kScoreStride + k]);
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      Vec value = T::read(row + v * kLanes * T::kBytes);
#pragma GCC unroll 8
      for (int j = 0; j < NQ; ++j) sums[j][v] = fma(weight[j], value, sums[j][v]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < NQ; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) store(outputs + j * dim + column + v * kLanes, sums[j][v]);
  }
}

template <class T, int NQ>
VERNIER_APART void add_tile(const float* weights, const TileRows& rows, int keys, int dim, float* outputs) {
  constexpr int kVectors = kLanes == 16 ? 4 : NQ == 1 ? 8 : NQ == 4 ? 2 : 4;
  int column = 0;
  for (; column + kVectors * kLanes <= dim; column += kVectors * kLanes) {
    add_columns<T, NQ, kVectors>(weights, rows, keys, column, dim, outputs);
  }
  for (; column < dim; column += kLanes) add_columns<T, NQ, 1>(weights, rows, keys, column, dim, outputs);
}

/// Calls fn.template operator()<NQ>(first query) over the group, four queries at a time.
template <class Fn>
VERNIER_INLINE void over_queries(int group, Fn fn) {
  int first = 0;
  for (; first + 4 <= group; first += 4) fn.template operator()<4>(first);
  switch (group - first) {
    case 3:
      return fn.template operator()<3>(first);
    case 2:
      return fn.template operator()<2>(first);
    case 1:
      return fn.template operator()<1>(first);
    default:
      return;
  }
}

/// Scores [keys] to e^(score - largest) in place, up to the end of the last vector.
VERNIER_APART void soften(float* scores, int keys, float soft_cap, float* largest, float* sum) {
  int padded = round_up(keys, kLanes);
  for (int k = keys; k < padded; ++k) scores[k] = kMinusInfinity;
  Vec most = splat(kMinusInfinity);
  for (int k = 0; k < padded; k += kLanes) {
    Vec s = load(scores + k);
    if (soft_cap > 0) {
      Vec capped = soft_cap * tanh_of(s / soft_cap);
      s = s == kMinusInfinity ? s : capped;
      store(scores + k, s);
    }
    most = larger(most, s);
  }
  *largest = largest_lane(most);
  Vec total = {};
  for (int k = 0; k < padded; k += kLanes) {
    Vec e = exp_of(load(scores + k) - *largest);
    store(scores + k, e);
    total += e;
  }
  *sum = sum_lanes(total);
}

/// Of one range of keys: where the rows of those in [first, end), counted from the range's first, lie.
struct RangeRows {
  const std::byte* codes;
  bool may_hold_nan;            // codes of the type's NaN
  const std::byte* next_codes;  // whose first rows are fetched while the last tile is worked on, or null
  const int64_t* offsets;       // [end], in elements
  int first;
  int end;
};

/// Calls fn(type, rows, first, keys) for each tile of rows; a tile whose rows are no whole vectors, or hold codes that
/// the type's own read gets wrong, is copied as padded float32 first.
template <class T, class Fn>
VERNIER_INLINE void over_tiles(const DecodeTask& t, const RangeRows& range, float* stage, Fn fn) {
  for (int first = range.first; first < range.end; first += kDecodeTileKeys) {
    int count = range.end - first < kDecodeTileKeys ? range.end - first : kDecodeTileKeys;
    const int64_t* offsets = range.offsets + first;
    bool staged = t.head_dim != t.padded_dim;
    if constexpr (T::kNanIsCode) {
      staged |= range.may_hold_nan && has_nan_code(range.codes, offsets, count, t.head_dim);
    }
    if (!staged) {
      int next = first + kDecodeTileKeys;
      bool last = next >= range.end;
      int left = last ? range.end - range.first : range.end - next;
      TileRows rows{range.codes, offsets, last ? range.next_codes : range.codes,
                    last ? range.offsets + range.first : range.offsets + next,
                    last && range.next_codes == nullptr ? 0 : left};
      fn(T{}, rows, first, count);
    } else {
      int64_t stage_offsets[kDecodeTileKeys];
      for (int k = 0; k < count; ++k) {
        stage_offsets[k] = int64_t{k} * t.padded_dim;
        read_row<typename T::Exact>(range.codes + offsets[k] * T::kBytes, t.head_dim, t.padded_dim,
                                    stage + stage_offsets[k]);
      }
      fn(StoredF32{}, TileRows{reinterpret_cast<const std::byte*>(stage), stage_offsets, nullptr, nullptr, 0}, first,
         count);
    }
  }
}

/// How many of `keys` keys from position `first` on are read from the cache; the others are the step's own.
VERNIER_INLINE int cached_keys(const FreshView& fresh, int first, int keys) {
  const int cached = fresh.position <= first ? 0 : fresh.position - first;
  return cached < keys ? cached : keys;
}

/// Element offsets of keys from position `first` on: of the first `cached` in the cache, then in the step's own rows.
VERNIER_INLINE void find_range(const KvPages& pages, const KvExtents& extents, const FreshView& fresh, int head,
                               int first, int cached, int keys, int64_t* offsets) {
  find_rows(pages, extents, head, first, cached, offsets);
  for (int k = cached; k < keys; ++k) offsets[k] = element(fresh.keys, fresh.row + first + k - fresh.position, head);
}

int64_t decode_scratch_floats(int group, int padded_dim) {
  return int64_t{group} * kScoreStride + int64_t{kDecodeTileKeys} * padded_dim;
}

template <class T>
VERNIER_INLINE void decode_typed(const DecodeTask& t) {
  int64_t offsets[kDecodeRangeKeys];
  int keys = t.end_key - t.first_key;
  const int cached = cached_keys(t.fresh, t.first_key, keys);
  float* scores = t.scratch;  // [group, kScoreStride]
  float* stage = scores + int64_t{t.group} * kScoreStride;
  find_range(t.pages, t.keys.extents, t.fresh, t.kv_head, t.first_key, cached, keys, offsets);
  const auto score = [&](auto type, const TileRows& rows, int first, int count) {
    over_queries(t.group, [&]<int NQ>(int query) {
      score_tile<decltype(type), NQ>(t.queries + query * t.padded_dim, t.padded_dim, rows, count,
                                     scores + query * kScoreStride + first);
    });
  };
  over_tiles<T>(t, {t.keys.codes, t.keys.may_hold_nan, t.values.codes, offsets, 0, cached}, stage, score);
  over_tiles<StoredF32>(t, {t.fresh.keys.codes, false, nullptr, offsets, cached, keys}, stage, score);
  for (int query = 0; query < t.group; ++query) {
    soften(scores + query * kScoreStride, keys, t.soft_cap, t.out.largest + query, t.out.sums + query);
  }
  for (int i = 0; i < t.group * t.padded_dim; ++i) t.out.outputs[i] = 0;
  const auto mix = [&](auto type, const TileRows& rows, int first, int count) {
    over_queries(t.group, [&]<int NQ>(int query) {
      add_tile<decltype(type), NQ>(scores + query * kScoreStride + first, rows, count, t.padded_dim,
                                   t.out.outputs + query * t.padded_dim);
    });
  };
  over_tiles<T>(t, {t.values.codes, t.values.may_hold_nan, nullptr, offsets, 0, cached}, stage, mix);
  over_tiles<StoredF32>(t, {t.fresh.values.codes, false, nullptr, offsets, cached, keys}, stage, mix);
}

void decode(const DecodeTask& task) {
  // Keys and values of a layer are stored alike; only their scales differ.
  with_stored(task.keys.stored, [&](auto type) { decode_typed<decltype(type)>(task); });
}

/// A query's softmax so far, `outputs` [dim] not yet divided by the sum, and that of the next range to one.
/// Not inlined, like the others that both ways to attend share: code compiled once rounds in one way.
VERNIER_APART void merge_range(float* outputs, float* largest, float* sum, const float* range_outputs,
                               float range_largest, float range_sum, int dim) {
  float most = range_largest > *largest ? range_largest : *largest;
  Vec before = exp_of(splat(*largest - most)), now = exp_of(splat(range_largest - most));
  for (int i = 0; i < dim; i += kLanes) {
    store(outputs + i, fma(load(range_outputs + i), now, load(outputs + i) * before));
  }
  Vec total = fma(splat(range_sum), now, splat(*sum) * before);
  *largest = most;
  *sum = total[0];
}

/// The softmax of nothing but the query's sink, if it has one.
VERNIER_INLINE void begin_merge(const float* sink, float* outputs, float* largest, float* sum, int dim) {
  for (int i = 0; i < dim; ++i) outputs[i] = 0;
  *largest = sink != nullptr ? *sink : kMinusInfinity;
  *sum = sink != nullptr ? 1 : 0;
}

VERNIER_INLINE void end_merge(const float* outputs, float sum, float value_scale, int dim, float* out) {
  float factor = value_scale / sum;
  for (int i = 0; i < dim; ++i) out[i] = outputs[i] * factor;
}

void merge(const MergeTask& t) {
  alignas(64) float outputs[kMaxHeadDim];
  for (int query = 0; query < t.group; ++query) {
    float largest, sum;
    begin_merge(t.sinks != nullptr ? t.sinks + query : nullptr, outputs, &largest, &sum, t.padded_dim);
    for (int r = 0; r < t.ranges; ++r) {
      const Partials& part = t.partials[r];
      merge_range(outputs, &largest, &sum, part.outputs + int64_t{query} * t.padded_dim, part.largest[query],
                  part.sums[query], t.padded_dim);
    }
    end_merge(outputs, sum, unit_scale(t.values.stored, t.values.scales[t.kv_head]), t.head_dim,
              t.out + int64_t{query} * t.head_dim);
  }
}

// ---- prefill ----

// Many rows of a sequence at once, in the order of operations of `decode` and `merge`: a row's result is the same to
// the bit whichever of them computes it, and beside whichever rows.

/// C [kBlockRows, kBlockCols] = A B, plus C where `accumulate`. A's rows are kScoreStride apart.
/// Not inlined: beside other code its sums no longer all stay in registers, which costs half of its speed.
VERNIER_APART void multiply_block(const float* a, const float* b, int64_t b_stride, int depth, float* c,
                                  int64_t c_stride, bool accumulate) {
  Vec sums[kBlockRows][2] = {};
  if (accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < kBlockRows; ++i) {
      sums[i][0] = load(c + i * c_stride);
      sums[i][1] = load(c + i * c_stride + kLanes);
    }
  }
  for (int k = 0; k < depth; ++k) {
    Vec b0 = load(b), b1 = load(b + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kBlockRows; ++i) {
      Vec x = splat(a[i * kScoreStride + k]);
      sums[i][0] = fma(x, b0, sums[i][0]);
      sums[i][1] = fma(x, b1, sums[i][1]);
    }
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kBlockRows; ++i) {
    store(c + i * c_stride, sums[i][0]);
    store(c + i * c_stride + kLanes, sums[i][1]);
  }
}

/// Scratch of a prefill task.
struct PrefillScratch {
  float* queries;        // [kTileQueries, padded_dim]
  float* scores;         // [kTileQueries, kScoreStride]
  float* stage;          // [value_tile_keys, stride]
  float* range_outputs;  // [kTileQueries, stride]
  float* outputs;        // [kTileQueries, stride]
  float* range_largest;  // [kTileQueries] each
  float* range_sums;
  float* largest;
  float* sums;
  int stride;
};

constexpr int kMostTileKeys = 64;

/// Keys of a tile stay in the first-level cache while every query meets them.
VERNIER_INLINE int key_tile_keys(int padded_dim) {
  return padded_dim > 128 ? 16 : kMostTileKeys;
}
/// Of values, kBlockCols columns at a time do.
VERNIER_INLINE int value_tile_keys(int padded_dim) {
  return padded_dim > 128 ? 128 : 256;
}

VERNIER_INLINE int row_stride(int padded_dim) {
  return round_up(padded_dim, kBlockCols) + 16;
}

int64_t prefill_scratch_floats(int padded_dim) {
  int64_t stride = row_stride(padded_dim);
  return kTileQueries * (int64_t{padded_dim} + kScoreStride + 2 * stride + 4) + value_tile_keys(padded_dim) * stride;
}

VERNIER_INLINE PrefillScratch cut_scratch(const PrefillTask& t) {
  PrefillScratch s;
  s.stride = row_stride(t.padded_dim);
  s.queries = t.scratch;
  s.scores = s.queries + int64_t{kTileQueries} * t.padded_dim;
  s.stage = s.scores + int64_t{kTileQueries} * kScoreStride;
  s.range_outputs = s.stage + int64_t{value_tile_keys(t.padded_dim)} * s.stride;
  s.outputs = s.range_outputs + int64_t{kTileQueries} * s.stride;
  s.range_largest = s.outputs + int64_t{kTileQueries} * s.stride;
  s.range_sums = s.range_largest + kTileQueries;
  s.largest = s.range_sums + kTileQueries;
  s.sums = s.largest + kTileQueries;
  return s;
}

VERNIER_INLINE void begin_queries(const PrefillTask& t, const PrefillScratch& s) {
  const int heads = t.end_head - t.first_head;
  const size_t bytes = static_cast<size_t>(heads) * static_cast<size_t>(t.padded_dim) * 4;
  for (int row = 0; row < t.rows; ++row) {
    __builtin_memcpy(s.queries + int64_t{row} * heads * t.padded_dim,
                     t.queries + (int64_t{row} * t.heads + t.first_head) * t.padded_dim, bytes);
  }
  for (int query = 0; query < t.rows * heads; ++query) {
    begin_merge(t.sinks != nullptr ? t.sinks + t.first_head + query % heads : nullptr,
                s.outputs + int64_t{query} * s.stride, s.largest + query, s.sums + query, t.padded_dim);
  }
}

VERNIER_INLINE int first_visible(const PrefillTask& t, int position) {
  return t.window > 0 && position >= t.window ? position - t.window + 1 : 0;
}

/// The first query that sees a key, down to a multiple of `step`: the queries before see no later key either.
VERNIER_INLINE int first_query(const PrefillTask& t, int key, int step) {
  const int row = t.end_key == 0 && key > t.first_position ? key - t.first_position : 0;
  return row * (t.end_head - t.first_head) / step * step;
}

/// What follows the last key that a row sees.
VERNIER_INLINE int end_visible(const PrefillTask& t, int row) {
  return t.end_key > 0 ? t.end_key : t.first_position + row + 1;
}

/// Keys or values of one range: `cached` rows of the cache, then rows of the step's own.
struct StageSource {
  const std::byte* codes;
  bool may_hold_nan;  // among the codes
  const std::byte* fresh;
  const int64_t* offsets;  // [keys]
  int cached;
  int keys;
};

/// Rows of the cache as float32 of `padded` columns.
template <class T>
VERNIER_INLINE void stage_rows(const std::byte* codes, const int64_t* offsets, int count, int dim, int padded,
                               float* to, int64_t stride) {
  for (int k = 0; k < count; ++k) read_row<T>(codes + offsets[k] * T::kBytes, dim, padded, to + k * stride);
}

/// Calls fn(first, keys) for each tile of a range, staged as float32 of `padded` columns.
template <class T, class Fn>
VERNIER_INLINE void over_stages(const PrefillTask& t, const PrefillScratch& s, const StageSource& source, int tile,
                                int padded, Fn fn) {
  for (int first = 0; first < source.keys; first += tile) {
    const int count = source.keys - first < tile ? source.keys - first : tile;
    const int left = source.cached - first;
    const int cached = left < 0 ? 0 : left < count ? left : count;
    const int64_t* offsets = source.offsets + first;
    bool nan = false;
    if constexpr (T::kNanIsCode) {
      nan = source.may_hold_nan && has_nan_code(source.codes, offsets, cached, t.head_dim);
    }
    if (nan) {
      stage_rows<typename T::Exact>(source.codes, offsets, cached, t.head_dim, padded, s.stage, s.stride);
    } else {
      stage_rows<T>(source.codes, offsets, cached, t.head_dim, padded, s.stage, s.stride);
    }
    stage_rows<StoredF32>(source.fresh, offsets + cached, count - cached, t.head_dim, padded,
                          s.stage + int64_t{cached} * s.stride, s.stride);
    fn(first, count);
  }
}

/// As many queries as fill the register file with their sums for four keys.
VERNIER_INLINE void score_queries(const PrefillTask& t, const PrefillScratch& s, int query, int queries, int first,
                                  int keys) {
  constexpr int kQueries = kLanes == 16 ? 4 : 3;
  int64_t offsets[kMostTileKeys];
  for (int k = 0; k < keys; ++k) offsets[k] = int64_t{k} * s.stride;
  const TileRows rows{reinterpret_cast<const std::byte*>(s.stage), offsets, nullptr, nullptr, 0};
  for (; query + kQueries <= queries; query += kQueries) {
    score_tile<StoredF32, kQueries>(s.queries + int64_t{query} * t.padded_dim, t.padded_dim, rows, keys,
                                    s.scores + int64_t{query} * kScoreStride + first);
  }
  for (; query < queries; ++query) {
    score_tile<StoredF32, 1>(s.queries + int64_t{query} * t.padded_dim, t.padded_dim, rows, keys,
                             s.scores + int64_t{query} * kScoreStride + first);
  }
}

/// A query's scores of keys [first, first + keys) to weights: zero where it does not see the key.
VERNIER_INLINE void soften_query(const PrefillTask& t, const PrefillScratch& s, int query, int first, int keys) {
  const int row = query / (t.end_head - t.first_head);
  const int oldest = first_visible(t, t.first_position + row);
  const int last = end_visible(t, row);
  const int before = oldest > first ? (oldest - first < keys ? oldest - first : keys) : 0;
  const int end = last - first < keys ? last - first : keys;
  float* scores = s.scores + int64_t{query} * kScoreStride;
  s.range_largest[query] = kMinusInfinity;
  s.range_sums[query] = 0;
  if (before < end) soften(scores + before, end - before, t.soft_cap, s.range_largest + query, s.range_sums + query);
  for (int k = 0; k < before; ++k) scores[k] = 0;
  for (int k = end > 0 ? end : 0; k < keys; ++k) scores[k] = 0;
}

/// All queries of the task against keys [first, first + keys), which lie in one range.
template <class T>
VERNIER_INLINE void prefill_range(const PrefillTask& t, const PrefillScratch& s, int first, int keys) {
  const int queries = t.rows * (t.end_head - t.first_head);
  int64_t offsets[kDecodeRangeKeys];
  const int cached = cached_keys(t.fresh, first, keys);
  find_range(t.pages, t.keys.extents, t.fresh, t.kv_head, first, cached, keys, offsets);
  const StageSource key_rows{t.keys.codes, t.keys.may_hold_nan, t.fresh.keys.codes, offsets, cached, keys};
  const StageSource value_rows{t.values.codes, t.values.may_hold_nan, t.fresh.values.codes, offsets, cached, keys};
  over_stages<T>(t, s, key_rows, key_tile_keys(t.padded_dim), t.padded_dim,
                 [&](int at, int count) { score_queries(t, s, first_query(t, first + at, 1), queries, at, count); });
  for (int query = 0; query < queries; ++query) soften_query(t, s, query, first, keys);
  const auto add_values = [&](int at, int count) {
    for (int column = 0; column < s.stride - 16; column += kBlockCols) {
      for (int query = first_query(t, first + at, kBlockRows); query < queries; query += kBlockRows) {
        multiply_block(s.scores + int64_t{query} * kScoreStride + at, s.stage + column, s.stride, count,
                       s.range_outputs + int64_t{query} * s.stride + column, s.stride, at > 0);
      }
    }
  };
  over_stages<T>(t, s, value_rows, value_tile_keys(t.padded_dim), s.stride - 16, add_values);
  for (int query = 0; query < queries; ++query) {
    if (s.range_largest[query] == kMinusInfinity && s.range_sums[query] == 0) continue;  // it sees none of these keys
    merge_range(s.outputs + int64_t{query} * s.stride, s.largest + query, s.sums + query,
                s.range_outputs + int64_t{query} * s.stride, s.range_largest[query], s.range_sums[query], t.padded_dim);
  }
}

void prefill(const PrefillTask& t) {
  const PrefillScratch s = cut_scratch(t);
  begin_queries(t, s);
  const int heads = t.end_head - t.first_head;
  const int end = end_visible(t, t.rows - 1);
  for (int first = first_visible(t, t.first_position), next; first < end; first = next) {
    next = (first / kDecodeRangeKeys + 1) * kDecodeRangeKeys;
    next = next < end ? next : end;
    with_stored(t.keys.stored, [&](auto type) { prefill_range<decltype(type)>(t, s, first, next - first); });
  }
  const float value_scale = unit_scale(t.values.stored, t.values.scales[t.kv_head]);
  for (int query = 0; query < t.rows * heads; ++query) {
    end_merge(s.outputs + int64_t{query} * s.stride, s.sums[query], value_scale, t.head_dim,
              t.out + (int64_t{query / heads} * t.heads + t.first_head + query % heads) * t.head_dim);
  }
}

}  // namespace

constinit const AttendKernels attend_kernels = {
    kIsa, kLanes, prepare, decode, merge, prefill, decode_scratch_floats, prefill_scratch_floats};
