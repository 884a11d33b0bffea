// Row kernels, written once: rows_<isa>.cc includes this inside the namespace of its instruction set.

namespace {

/// Calls fn(offset, count) for each vector of a row; the last may hold fewer numbers than a vector.
template <class Fn>
VERNIER_INLINE void over_vectors(int64_t cols, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) fn(i, kLanes);
  if (i < cols) fn(i, static_cast<int>(cols - i));
}

VERNIER_INLINE Vec load_some(const float* from, int count, float pad) {
  if (count == kLanes) return load(from);
  alignas(64) float tail[kLanes];
  for (float& x : tail) x = pad;
  __builtin_memcpy(tail, from, static_cast<size_t>(count) * 4);
  return load(tail);
}

VERNIER_INLINE void store_some(float* to, Vec x, int count) {
  if (count == kLanes) return store(to, x);
  __builtin_memcpy(to, &x, static_cast<size_t>(count) * 4);
}

void norm(const float* x, const float* weight, float eps, int64_t cols, float* out) {
  Vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= cols; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      Vec v = load(x + i + j * kLanes);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  over_vectors(cols - i, [&](int64_t at, int count) {
    Vec v = load_some(x + i + at, count, 0);
    sums[0] = fma(v, v, sums[0]);
  });
  float squares = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
  float factor = 1.0f / __builtin_sqrtf(squares / static_cast<float>(cols) + eps);
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, load_some(x + at, count, 0) * factor * load_some(weight + at, count, 0), count);
  });
}

/// x / (1 + e^-x), written so that no power overflows.
VERNIER_INLINE Vec silu(Vec x) {
  Vec e = exp_of((Vec)(abs_bits(x) | 0x80000000u));  // e^-|x|
  Vec numerator = x < 0 ? e : splat(1);
  return x * numerator / (1 + e);
}

VERNIER_INLINE Vec gelu(Vec x) {
  constexpr float kRoot = 0.797884561f;  // sqrt(2 / pi)
  Vec inner = kRoot * x * fma(0.044715f * x, x, splat(1));
  return 0.5f * x * (1 + tanh_of(inner));
}

void gate_silu(const float* gate, const float* up, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, silu(load_some(gate + at, count, 0)) * load_some(up + at, count, 0), count);
  });
}

void gate_gelu(const float* gate, const float* up, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, gelu(load_some(gate + at, count, 0)) * load_some(up + at, count, 0), count);
  });
}

void add(const float* x, const float* y, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, load_some(x + at, count, 0) + load_some(y + at, count, 0), count);
  });
}

void scale(const float* x, float factor, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) { store_some(out + at, load_some(x + at, count, 0) * factor, count); });
}

void soft_cap(const float* x, float cap, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, cap * tanh_of(load_some(x + at, count, 0) / cap), count);
  });
}

float largest(const float* x, int64_t cols) {
  Vec most = splat(-__builtin_inff());
  VecI nan = {};
  over_vectors(cols, [&](int64_t at, int count) {
    Vec v = load_some(x + at, count, -__builtin_inff());
    nan |= v != v;
    most = larger(most, v);
  });
  return count_true(nan) > 0 ? __builtin_nanf("") : largest_lane(most);
}

double sum_exp(const float* x, float shift, int64_t cols) {
  constexpr int64_t kRun = 4096;  // numbers summed in float32 before they join the double
  double total = 0;
  for (int64_t begin = 0; begin < cols; begin += kRun) {
    Vec sum = {};
    over_vectors(cols - begin < kRun ? cols - begin : kRun, [&](int64_t at, int count) {
      sum += exp_of(load_some(x + begin + at, count, -__builtin_inff()) - shift);
    });
    total += sum_lanes(sum);
  }
  return total;
}

}  // namespace

constinit const RowKernels row_kernels = {norm, gate_silu, gate_gelu, add, scale, soft_cap, largest, sum_exp};
