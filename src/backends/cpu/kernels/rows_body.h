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

/// y / (1 + e^-x), written so that no power overflows.
VERNIER_INLINE Vec sigmoid_times(Vec x, Vec y) {
  Vec e = exp_of((Vec)(abs_bits(x) | 0x80000000u));  // e^-|x|
  Vec numerator = x < 0 ? e : splat(1);
  return y * numerator / (1 + e);
}

/// x / (1 + e^-x).
VERNIER_INLINE Vec silu(Vec x) {
  return sigmoid_times(x, x);
}

VERNIER_INLINE Vec gelu_tanh(Vec x) {
  constexpr float kRoot = 0.797884561f;  // sqrt(2 / pi)
  Vec inner = kRoot * x * fma(0.044715f * x, x, splat(1));
  return 0.5f * x * (1 + tanh_of(inner));
}

/// x * (1 + erf(x / sqrt 2)) / 2. The share of the far side, erfc(z) / 2 for z = |x| / sqrt 2, is t e^(-z^2 + p(t)) / 2
/// with t = 1 / (1 + z / 2) and a polynomial p whose error is below 1.2e-7 of it for every z.
VERNIER_INLINE Vec gelu(Vec x) {
  constexpr float kTerms[] = {0.17087277f,  -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                              -0.18628806f, 0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  Vec z = (Vec)abs_bits(x) * 0.707106781f;
  Vec t = 1 / fma(z, splat(0.5f), splat(1));
  Vec p = splat(kTerms[0]);
#pragma GCC unroll 16
  for (int i = 1; i < 10; ++i) p = fma(p, t, splat(kTerms[i]));
  Vec far = 0.5f * t * exp_of(fma(-z, z, p));
  return x * (x < 0 ? far : 1 - far);
}

template <Vec (*act)(Vec)>
VERNIER_INLINE void gate_rows(const float* gate, const float* up, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, act(load_some(gate + at, count, 0)) * load_some(up + at, count, 0), count);
  });
}

template <Vec (*act)(Vec)>
VERNIER_INLINE void activate_row(const float* x, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) { store_some(out + at, act(load_some(x + at, count, 0)), count); });
}

void gate_silu(const float* gate, const float* up, int64_t cols, float* out) {
  gate_rows<silu>(gate, up, cols, out);
}

void gate_gelu_tanh(const float* gate, const float* up, int64_t cols, float* out) {
  gate_rows<gelu_tanh>(gate, up, cols, out);
}

void gate_gelu(const float* gate, const float* up, int64_t cols, float* out) {
  gate_rows<gelu>(gate, up, cols, out);
}

void gate_clamped(const float* gate, const float* up, GateClamp clamp, int64_t cols, float* out) {
  const Vec limit = splat(clamp.limit);
  over_vectors(cols, [&](int64_t at, int count) {
    Vec g = load_some(gate + at, count, 0), u = load_some(up + at, count, 0);
    // A NaN compares with nothing and stays.
    g = g > limit ? limit : g;
    u = u > limit ? limit : u;
    u = u < -limit ? -limit : u;
    store_some(out + at, sigmoid_times(g * clamp.slope, g) * (u + clamp.up_offset), count);
  });
}

void silu_row(const float* x, int64_t cols, float* out) {
  activate_row<silu>(x, cols, out);
}

void gelu_tanh_row(const float* x, int64_t cols, float* out) {
  activate_row<gelu_tanh>(x, cols, out);
}

void gelu_row(const float* x, int64_t cols, float* out) {
  activate_row<gelu>(x, cols, out);
}

/// Two passes over the row, as a mean of squares less the square of the mean loses what a large mean covers.
void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t cols, float* out) {
  Vec sum = {}, squares = {};
  over_vectors(cols, [&](int64_t at, int count) { sum += load_some(x + at, count, 0); });
  const float mean = sum_lanes(sum) / static_cast<float>(cols);
  over_vectors(cols, [&](int64_t at, int count) {
    Vec v = load_some(x + at, count, mean) - mean;
    squares = fma(v, v, squares);
  });
  const float factor = 1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(cols) + eps);
  over_vectors(cols, [&](int64_t at, int count) {
    Vec v = (load_some(x + at, count, mean) - mean) * factor;
    store_some(out + at, fma(v, load_some(weight + at, count, 0), load_some(bias + at, count, 0)), count);
  });
}

void add(const float* x, const float* y, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, load_some(x + at, count, 0) + load_some(y + at, count, 0), count);
  });
}

void add_scaled(const float* x, const float* y, float factor, int64_t cols, float* out) {
  over_vectors(cols, [&](int64_t at, int count) {
    store_some(out + at, fma(load_some(y + at, count, 0), splat(factor), load_some(x + at, count, 0)), count);
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

constinit const RowKernels row_kernels = {norm,         layer_norm, gate_silu,     gate_gelu_tanh, gate_gelu,
                                          gate_clamped, silu_row,   gelu_tanh_row, gelu_row,       add,
                                          add_scaled,   scale,      soft_cap,      largest,        sum_exp};
