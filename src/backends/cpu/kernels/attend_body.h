// Attention kernels, written once: attend_<isa>.cc includes this inside the namespace of its instruction set.

namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr int kDecodeTileKeys = 32;  // keys whose rows stay in the first-level cache while every query meets them
constexpr int kBlockRows = kLanes == 16 ? 12 : 6;  // rows of a register block: with two vectors each they fill the file
constexpr int kBlockCols = 2 * kLanes;
// Of matrices that hold one column for each query of a prefill task; an odd number of cache lines, so that a column
// does not fall into few sets of the cache.
constexpr int kQueryStride = kTileQueries + 16;

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
VERNIER_INLINE int64_t write_row(const float* from, int dim, float scale, std::byte* to) {
  int64_t saturated = 0;
  for (int i = 0; i < dim; i += kLanes) {
    alignas(64) float tail[kLanes] = {};
    int count = dim - i < kLanes ? dim - i : kLanes;
    if (count < kLanes) __builtin_memcpy(tail, from + i, static_cast<size_t>(count) * 4);
    Vec x = count < kLanes ? load(tail) : load(from + i);
    if (scale != 1) x = x / scale;
    VecI above = x > T::kLimit, below = x < -T::kLimit;
    saturated += count_true(above | below);
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
  return saturated;
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

int64_t prepare(const PrepareTask& t, int first_row, int end_row) {
  int64_t columns = (int64_t{t.heads} + 2 * t.kv_heads) * t.head_dim;
  int64_t saturated = 0;
  alignas(64) float head_buffer[kMaxHeadDim];
  for (int row = first_row; row < end_row; ++row) {
    const float* q = t.qkv + row * columns;
    const float* k = q + int64_t{t.heads} * t.head_dim;
    const float* v = k + int64_t{t.kv_heads} * t.head_dim;
    for (int head = 0; head < t.heads; ++head) {
      float* out = t.queries + (int64_t{row} * t.heads + head) * t.padded_dim;
      turn_head(t, row, q + int64_t{head} * t.head_dim, t.q_norm, out);
      for (int i = 0; i < t.head_dim; ++i) out[i] *= t.query_scale;
      for (int i = t.head_dim; i < t.padded_dim; ++i) out[i] = 0;
    }
    for (int head = 0; head < t.kv_heads; ++head) {
      turn_head(t, row, k + int64_t{head} * t.head_dim, t.k_norm, head_buffer);
      int64_t at = element(t.keys, t.slots[row], head);
      saturated += with_stored(t.keys.stored, [&](auto type) {
        using T = decltype(type);
        return write_row<T>(head_buffer, t.head_dim, t.keys.scale, t.keys.codes + at * T::kBytes);
      });
      saturated += with_stored(t.values.stored, [&](auto type) {
        using T = decltype(type);
        return write_row<T>(v + int64_t{head} * t.head_dim, t.head_dim, t.values.scale,
                            t.values.codes + at * T::kBytes);
      });
    }
  }
  return saturated;
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
    float* to = scores + j * kDecodeRangeKeys + first;
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
    for (int j = 0; j < NQ; ++j) weight[j] = splat(weights[j * kDecodeRangeKeys + k]);
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

/// Scores [keys] to e^(score - largest) in place.
VERNIER_INLINE void soften(float* scores, int keys, float soft_cap, float* largest, float* sum) {
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

/// Calls fn(type, rows, first, keys) for each tile of rows; a tile whose rows are no whole vectors is copied as padded
/// float32 first. While the last is worked on, the first rows behind `next_codes` are fetched.
template <class T, class Fn>
VERNIER_INLINE void over_tiles(const DecodeTask& t, const std::byte* codes, const std::byte* next_codes,
                               const int64_t* offsets, float* stage, Fn fn) {
  int keys = t.end_key - t.first_key;
  for (int first = 0; first < keys; first += kDecodeTileKeys) {
    int count = keys - first < kDecodeTileKeys ? keys - first : kDecodeTileKeys;
    if (t.head_dim == t.padded_dim) {
      int next = first + kDecodeTileKeys;
      bool last = next >= keys;
      int left = last ? keys : keys - next;
      TileRows rows{codes, offsets + first, last ? next_codes : codes, last ? offsets : offsets + next,
                    last && next_codes == nullptr ? 0 : left};
      fn(T{}, rows, first, count);
    } else {
      int64_t stage_offsets[kDecodeTileKeys];
      for (int k = 0; k < count; ++k) {
        stage_offsets[k] = int64_t{k} * t.padded_dim;
        read_row<T>(codes + offsets[first + k] * T::kBytes, t.head_dim, t.padded_dim, stage + stage_offsets[k]);
      }
      fn(StoredF32{}, TileRows{reinterpret_cast<const std::byte*>(stage), stage_offsets, nullptr, nullptr, 0}, first,
         count);
    }
  }
}

int64_t decode_scratch_floats(int group, int padded_dim) {
  return int64_t{group} * kDecodeRangeKeys + int64_t{kDecodeTileKeys} * padded_dim;
}

template <class T>
VERNIER_INLINE void decode_typed(const DecodeTask& t) {
  int64_t offsets[kDecodeRangeKeys];
  int keys = t.end_key - t.first_key;
  float* scores = t.scratch;  // [group, kDecodeRangeKeys]
  float* stage = scores + int64_t{t.group} * kDecodeRangeKeys;
  find_rows(t.pages, t.keys.extents, t.kv_head, t.first_key, keys, offsets);
  over_tiles<T>(t, t.keys.codes, t.values.codes, offsets, stage,
                [&](auto type, const TileRows& rows, int first, int count) {
                  over_queries(t.group, [&]<int NQ>(int query) {
                    score_tile<decltype(type), NQ>(t.queries + query * t.padded_dim, t.padded_dim, rows, count,
                                                   scores + query * kDecodeRangeKeys + first);
                  });
                });
  for (int query = 0; query < t.group; ++query) {
    soften(scores + query * kDecodeRangeKeys, keys, t.soft_cap, t.out.largest + query, t.out.sums + query);
  }
  for (int i = 0; i < t.group * t.padded_dim; ++i) t.out.outputs[i] = 0;
  over_tiles<T>(t, t.values.codes, nullptr, offsets, stage, [&](auto type, const TileRows& rows, int first, int count) {
    over_queries(t.group, [&]<int NQ>(int query) {
      add_tile<decltype(type), NQ>(scores + query * kDecodeRangeKeys + first, rows, count, t.padded_dim,
                                   t.out.outputs + query * t.padded_dim);
    });
  });
}

void decode(const DecodeTask& task) {
  // Keys and values of a layer are stored alike; only their scales differ.
  with_stored(task.keys.stored, [&](auto type) { decode_typed<decltype(type)>(task); });
}

void merge(const MergeTask& t) {
  for (int query = 0; query < t.group; ++query) {
    float largest = t.sinks != nullptr ? t.sinks[query] : kMinusInfinity;
    for (int r = 0; r < t.ranges; ++r) {
      float m = t.partials[r].largest[query];
      largest = m > largest ? m : largest;
    }
    float sum = t.sinks != nullptr ? exp_of(splat(t.sinks[query] - largest))[0] : 0;
    float* out = t.out + int64_t{query} * t.head_dim;
    for (int i = 0; i < t.head_dim; ++i) out[i] = 0;
    for (int r = 0; r < t.ranges; ++r) {
      float factor = exp_of(splat(t.partials[r].largest[query] - largest))[0];
      sum += factor * t.partials[r].sums[query];
      const float* part = t.partials[r].outputs + int64_t{query} * t.padded_dim;
      for (int i = 0; i < t.head_dim; ++i) out[i] += factor * part[i];
    }
    float factor = t.value_scale / sum;
    for (int i = 0; i < t.head_dim; ++i) out[i] *= factor;
  }
}

// ---- prefill ----

/// C [kBlockRows, kBlockCols] = factors * C + A B, without the first term where `factors` is null. A's element (row,
/// depth) lies at row * a_row + depth * a_depth.
/// Not inlined: beside other code its sums no longer all stay in registers, which costs half of its speed.
VERNIER_APART void multiply_block(const float* a, int64_t a_row, int64_t a_depth, const float* b, int64_t b_stride,
                                  int depth, float* c, int64_t c_stride, const float* factors) {
  Vec sums[kBlockRows][2] = {};
  if (factors != nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < kBlockRows; ++i) {
      sums[i][0] = load(c + i * c_stride) * factors[i];
      sums[i][1] = load(c + i * c_stride + kLanes) * factors[i];
    }
  }
  for (int k = 0; k < depth; ++k) {
    Vec b0 = load(b), b1 = load(b + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kBlockRows; ++i) {
      Vec x = splat(a[i * a_row]);
      sums[i][0] = fma(x, b0, sums[i][0]);
      sums[i][1] = fma(x, b1, sums[i][1]);
    }
    a += a_depth;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kBlockRows; ++i) {
    store(c + i * c_stride, sums[i][0]);
    store(c + i * c_stride + kLanes, sums[i][1]);
  }
}

/// Scratch of a prefill task. Queries lie along the vectors: a column for each.
struct PrefillScratch {
  float* queries;  // [head_dim, kQueryStride]
  float* scores;   // [tile keys, kQueryStride]
  float* keys;     // [tile keys, stride]
  float* values;   // [tile keys, stride]
  float* outputs;  // [kTileQueries, stride]
  float* largest;  // [kQueryStride] each
  float* sums;
  float* factors;
  int32_t* positions;
  int stride;
};

VERNIER_INLINE int tile_keys(int padded_dim) {
  return padded_dim > 128 ? 48 : 96;  // keys and values of a tile share the second-level cache with the outputs
}

VERNIER_INLINE int row_stride(int padded_dim) {
  return round_up(padded_dim, kBlockCols) + 16;
}

int64_t prefill_scratch_floats(int padded_dim) {
  int64_t stride = row_stride(padded_dim);
  int64_t tile = tile_keys(padded_dim);
  return int64_t{padded_dim} * kQueryStride + tile * kQueryStride + 2 * tile * stride + kTileQueries * stride +
         4 * kQueryStride;
}

VERNIER_INLINE PrefillScratch cut_scratch(const PrefillTask& t) {
  PrefillScratch s;
  int64_t tile = tile_keys(t.padded_dim);
  s.stride = row_stride(t.padded_dim);
  s.queries = t.scratch;
  s.scores = s.queries + int64_t{t.padded_dim} * kQueryStride;
  s.keys = s.scores + tile * kQueryStride;
  s.values = s.keys + tile * s.stride;
  s.outputs = s.values + tile * s.stride;
  s.largest = s.outputs + int64_t{kTileQueries} * s.stride;
  s.sums = s.largest + kQueryStride;
  s.factors = s.sums + kQueryStride;
  s.positions = reinterpret_cast<int32_t*>(s.factors + kQueryStride);
  return s;
}

/// Queries of the task, turned so that each is a column; the columns up to a whole vector repeat the first.
VERNIER_INLINE void gather_queries(const PrefillTask& t, const PrefillScratch& s, int columns) {
  int heads = t.end_head - t.first_head;
  int count = t.rows * heads;
  for (int column = 0; column < columns; ++column) {
    int at = column < count ? column : 0;
    int row = at / heads, head = t.first_head + at % heads;
    const float* from = t.queries + (int64_t{row} * t.heads + head) * t.padded_dim;
    for (int i = 0; i < t.head_dim; ++i) s.queries[int64_t{i} * kQueryStride + column] = from[i];
    s.positions[column] = t.first_position + row;
    s.largest[column] = kMinusInfinity;
    s.sums[column] = 0;
  }
}

/// Scores of one vector of queries to weights, and the running maximum and sum; `masked` where not all keys are visible
/// to all.
template <bool masked>
VERNIER_INLINE void soften_column(const PrefillTask& t, const PrefillScratch& s, int column, int first_key, int keys) {
  VecI position = load_as<VecI>(s.positions + column);
  VecI oldest = t.window > 0 ? position - (t.window - 1) : VecI{};
  Vec before = load(s.largest + column);
  Vec most = before;
  for (int k = 0; k < keys; ++k) {
    float* at = s.scores + int64_t{k} * kQueryStride + column;
    Vec score = load(at);
    if (t.soft_cap > 0) score = t.soft_cap * tanh_of(score / t.soft_cap);
    if constexpr (masked) {
      VecI key = splat_int(first_key + k);
      score = ((key <= position) & (key >= oldest)) ? score : splat(kMinusInfinity);
    }
    if (masked || t.soft_cap > 0) store(at, score);
    most = larger(most, score);
  }
  Vec shift = most == kMinusInfinity ? Vec{} : most;  // nothing visible yet
  Vec factor = exp_of(before - shift);
  Vec sum = load(s.sums + column) * factor;
  for (int k = 0; k < keys; ++k) {
    float* at = s.scores + int64_t{k} * kQueryStride + column;
    Vec weight = exp_of(load(at) - shift);
    store(at, weight);
    sum += weight;
  }
  store(s.largest + column, most);
  store(s.sums + column, sum);
  store(s.factors + column, factor);
}

/// One tile of keys against all queries of the task.
template <class T>
VERNIER_INLINE void prefill_tile(const PrefillTask& t, const PrefillScratch& s, int columns, int first_key, int keys,
                                 bool masked, bool first) {
  int64_t offsets[96];
  find_rows(t.pages, t.keys.extents, t.kv_head, first_key, keys, offsets);
  for (int k = 0; k < keys; ++k) {
    read_row<T>(t.keys.codes + offsets[k] * T::kBytes, t.head_dim, t.padded_dim, s.keys + int64_t{k} * s.stride);
    read_row<T>(t.values.codes + offsets[k] * T::kBytes, t.head_dim, s.stride - 16, s.values + int64_t{k} * s.stride);
  }
  for (int column = 0; column < columns; column += kBlockCols) {
    for (int k = 0; k < keys; k += kBlockRows) {
      multiply_block(s.keys + int64_t{k} * s.stride, s.stride, 1, s.queries + column, kQueryStride, t.head_dim,
                     s.scores + int64_t{k} * kQueryStride + column, kQueryStride, nullptr);
    }
    for (int vector = column; vector < column + kBlockCols; vector += kLanes) {
      if (masked) {
        soften_column<true>(t, s, vector, first_key, keys);
      } else {
        soften_column<false>(t, s, vector, first_key, keys);
      }
    }
  }
  int queries = t.rows * (t.end_head - t.first_head);
  for (int query = 0; query < queries; query += kBlockRows) {
    for (int at = 0; at < s.stride - 16; at += kBlockCols) {
      multiply_block(s.scores + query, 1, kQueryStride, s.values + at, s.stride, keys,
                     s.outputs + int64_t{query} * s.stride + at, s.stride, first ? nullptr : s.factors + query);
    }
  }
}

VERNIER_INLINE void finish_queries(const PrefillTask& t, const PrefillScratch& s) {
  int heads = t.end_head - t.first_head;
  for (int query = 0; query < t.rows * heads; ++query) {
    int row = query / heads, head = t.first_head + query % heads;
    float sum = s.sums[query], factor = 1;
    if (t.sinks != nullptr) {
      float sink = t.sinks[head], largest = s.largest[query] > sink ? s.largest[query] : sink;
      factor = exp_of(splat(s.largest[query] - largest))[0];
      sum = sum * factor + exp_of(splat(sink - largest))[0];
    }
    factor *= t.values.scale / sum;
    const float* from = s.outputs + int64_t{query} * s.stride;
    float* to = t.out + (int64_t{row} * t.heads + head) * t.head_dim;
    for (int i = 0; i < t.head_dim; ++i) to[i] = from[i] * factor;
  }
}

void prefill(const PrefillTask& t) {
  PrefillScratch s = cut_scratch(t);
  int columns = round_up(t.rows * (t.end_head - t.first_head), kBlockCols);
  gather_queries(t, s, columns);
  int last = t.end_key > 0 ? t.end_key - 1 : t.first_position + t.rows - 1;
  int first_key = t.window > 0 && t.first_position >= t.window ? t.first_position - t.window + 1 : 0;
  int tile = tile_keys(t.padded_dim);
  for (int key = first_key; key <= last; key += tile) {
    int end = last + 1 - key < tile ? last + 1 : key + tile;
    bool masked = t.end_key == 0 && (end - 1 > t.first_position || (t.window > 0 && key <= last - t.window));
    with_stored(t.keys.stored, [&](auto type) {
      prefill_tile<decltype(type)>(t, s, columns, key, end - key, masked, key == first_key);
    });
  }
  finish_queries(t, s);
}

}  // namespace

constinit const AttendKernels attend_kernels = {
    kIsa, kLanes, prepare, decode, merge, prefill, decode_scratch_floats, prefill_scratch_floats};
