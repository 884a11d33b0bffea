#include "backends/cpu/kernels/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/scalar.h"

namespace vernier {
namespace {

// One sequence's cache and queries, and attention over them in float64 as AttnSpec defines it.
struct Scene {
  int heads = 1, kv_heads = 1, head_dim = 8, rows = 1, first_position = 0, window = 0, block_tokens = 16;
  float soft_cap = 0;
  bool sinks = false;
  CodecId stored = CodecId::kF32;

  int group() const { return heads / kv_heads; }
  int end() const { return first_position + rows; }
};

const AttendKernels* kernels_of(Isa isa) {
  if (isa == Isa::kBaseline) return &baseline::attend_kernels;
#if defined(__x86_64__)
  return isa == Isa::kAvx2 ? &avx2::attend_kernels : &avx512::attend_kernels;
#else
  return nullptr;
#endif
}

float decode_number(CodecId stored, const std::byte* at) {
  uint16_t half = 0;
  if (stored == CodecId::kF32) {
    float x;
    std::memcpy(&x, at, 4);
    return x;
  }
  if (stored == CodecId::kE4M3Tensor) return e4m3_to_f32(static_cast<uint8_t>(*at));
  if (stored == CodecId::kE5M2Tensor) return e5m2_to_f32(static_cast<uint8_t>(*at));
  std::memcpy(&half, at, 2);
  return stored == CodecId::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

size_t stored_size(CodecId stored) {
  return stored == CodecId::kF32 ? 4 : has_cache_scale(stored) ? 1 : 2;
}

class Bench {
 public:
  Bench(const Scene& scene, const AttendKernels& kernels, uint32_t seed) : s_(scene), k_(kernels), random_(seed) {
    int blocks = (s_.end() + s_.block_tokens - 1) / s_.block_tokens;
    // A window layer's table begins with the first block that the first row still sees.
    int oldest = s_.window > 0 ? std::max(0, s_.first_position - s_.window + 1) : 0;
    pages_.first_position = oldest / s_.block_tokens * s_.block_tokens;
    pages_.block_tokens = s_.block_tokens;
    int held = blocks - pages_.first_position / s_.block_tokens;
    int pool = held + 5;
    std::vector<int32_t> order(static_cast<size_t>(pool));
    for (int i = 0; i < pool; ++i) order[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random_);
    table_.assign(order.begin(), order.begin() + held);
    pages_.blocks = table_.data();
    extents_ = KvExtents{s_.block_tokens, s_.kv_heads, s_.head_dim};
    size_t numbers = static_cast<size_t>(pool) * static_cast<size_t>(s_.block_tokens * s_.kv_heads * s_.head_dim);
    // All ones is a NaN of every stored type.
    key_bytes_.assign(numbers * stored_size(s_.stored), std::byte{0xFF});
    value_bytes_ = key_bytes_;
    padded_ = (s_.head_dim + k_.lanes - 1) / k_.lanes * k_.lanes;
    for (int head = 0; head < s_.kv_heads; ++head) {
      const float own = static_cast<float>(1 + 0.45 * head);
      key_scales_.push_back(has_scale() ? 0.3f * own : 1.0f);
      value_scales_.push_back(has_scale() ? 1.7f / own : 1.0f);
    }
    keys_ = {key_bytes_.data(), s_.stored, key_scales_.data(), extents_};
    values_ = {value_bytes_.data(), s_.stored, value_scales_.data(), extents_};
    fill();
  }

  /// A stored NaN among the keys, or the values, that every row sees makes every answer of its head a NaN.
  void check_nan(bool of_values, std::byte code) {
    std::vector<std::byte>& bytes = of_values ? value_bytes_ : key_bytes_;
    const int64_t at = extents_.offset(slot(s_.first_position / 2), 0) + s_.head_dim / 2;
    bytes[static_cast<size_t>(at)] = code;
    for (const std::vector<float>& out : {run_prefill(), run_decode()}) {
      const auto number = static_cast<size_t>(s_.head_dim / 2);
      EXPECT_TRUE(std::isnan(out[number])) << name(k_.isa) << ' ' << out[number];
      EXPECT_FALSE(std::isnan(out.back()));  // of another head
    }
  }

  void check() {
    std::vector<float> expected = reference();
    // A score's rounding error grows with the sum of its terms' sizes and moves every weight by as much.
    double tolerance = 0x1p-24 * (16 + 2 * largest_terms_);
    compare(run_prefill(), expected, tolerance, "prefill");
    compare(run_decode(), expected, tolerance, "decode");
  }

 private:
  bool has_scale() const { return has_cache_scale(s_.stored); }
  /// Of what a kernel reads: queries come with its inverse, as `prepare` makes them.
  float unit() const { return s_.stored == CodecId::kE4M3Tensor ? 0x1p-8f : 1.0f; }
  float normal(float width) { return std::normal_distribution<float>(0, width)(random_); }
  int64_t slot(int position) const {
    return int64_t{table_[static_cast<size_t>((position - pages_.first_position) / s_.block_tokens)]} *
               s_.block_tokens +
           position % s_.block_tokens;
  }

  // Fills the cache through the kernel that writes it: heads = kv_heads, no norm, no rope.
  void fill() {
    int oldest = s_.window > 0 ? std::max(0, s_.first_position - s_.window + 1) : 0;
    int rows = s_.end() - oldest;
    std::vector<float> qkv(static_cast<size_t>(rows * 3 * s_.kv_heads * s_.head_dim));
    for (float& x : qkv) x = normal(1.5f);
    std::vector<int64_t> slots;
    for (int row = 0; row < rows; ++row) slots.push_back(slot(oldest + row));
    std::vector<float> discarded(static_cast<size_t>(rows * s_.kv_heads * padded_));
    PrepareTask task;
    task.qkv = qkv.data();
    task.heads = task.kv_heads = s_.kv_heads;
    task.head_dim = s_.head_dim;
    task.padded_dim = padded_;
    task.slots = slots.data();
    task.queries = discarded.data();
    task.keys = keys_;
    task.values = values_;
    EXPECT_EQ(k_.prepare(task, 0, rows).saturated, 0);
    queries_.resize(static_cast<size_t>(s_.rows * s_.heads * padded_));
    for (int i = 0; i < s_.rows * s_.heads; ++i) {
      for (int j = 0; j < s_.head_dim; ++j) queries_[static_cast<size_t>(i * padded_ + j)] = normal(0.7f) / unit();
    }
    for (int i = 0; i < s_.heads; ++i) sinks_.push_back(normal(2));
  }

  double number(const std::vector<std::byte>& bytes, int position, int head, int i) const {
    int64_t at = extents_.offset(slot(position), head) + i;
    return decode_number(s_.stored, bytes.data() + at * static_cast<int64_t>(stored_size(s_.stored)));
  }

  std::vector<float> reference() {
    std::vector<float> out;
    for (int row = 0; row < s_.rows; ++row) {
      for (int head = 0; head < s_.heads; ++head) {
        int position = s_.first_position + row, kv = head / s_.group();
        int oldest = s_.window > 0 ? std::max(0, position - s_.window + 1) : 0;
        std::vector<double> scores;
        double most = s_.sinks ? sinks_[static_cast<size_t>(head)] : -std::numeric_limits<double>::infinity();
        for (int key = oldest; key <= position; ++key) {
          double score = 0, terms = 0;
          for (int i = 0; i < s_.head_dim; ++i) {
            double term = double{queries_[static_cast<size_t>((row * s_.heads + head) * padded_ + i)]} *
                          number(key_bytes_, key, kv, i) * unit();
            score += term;
            terms += std::abs(term);
          }
          largest_terms_ = std::max(largest_terms_, terms);
          if (s_.soft_cap > 0) score = s_.soft_cap * std::tanh(score / s_.soft_cap);
          scores.push_back(score);
          most = std::max(most, score);
        }
        double sum = s_.sinks ? std::exp(sinks_[static_cast<size_t>(head)] - most) : 0;
        for (double score : scores) sum += std::exp(score - most);
        for (int i = 0; i < s_.head_dim; ++i) {
          double total = 0;
          for (int key = oldest; key <= position; ++key) {
            total += std::exp(scores[static_cast<size_t>(key - oldest)] - most) * number(value_bytes_, key, kv, i);
          }
          out.push_back(static_cast<float>(total / sum * values_.scales[kv]));
        }
      }
    }
    return out;
  }

  std::vector<float> run_prefill() {
    std::vector<float> out(static_cast<size_t>(s_.rows * s_.heads * s_.head_dim), NAN);
    std::vector<float> scratch(static_cast<size_t>(k_.prefill_scratch_floats(padded_)), NAN);
    for (int kv = 0; kv < s_.kv_heads; ++kv) {
      for (int first_head = 0; first_head < s_.group(); first_head += kTileQueries) {
        int heads = std::min(kTileQueries, s_.group() - first_head);
        int step = kTileQueries / heads;
        for (int row = 0; row < s_.rows; row += step) {
          PrefillTask task;
          task.queries = queries_.data() + row * s_.heads * padded_;
          task.heads = s_.heads;
          task.first_head = kv * s_.group() + first_head;
          task.end_head = task.first_head + heads;
          task.rows = std::min(step, s_.rows - row);
          task.first_position = s_.first_position + row;
          task.window = s_.window;
          task.head_dim = s_.head_dim;
          task.padded_dim = padded_;
          task.kv_head = kv;
          task.soft_cap = s_.soft_cap;
          task.sinks = s_.sinks ? sinks_.data() : nullptr;
          task.pages = pages_;
          task.keys = keys_;
          task.values = values_;
          task.out = out.data() + row * s_.heads * s_.head_dim;
          task.scratch = scratch.data();
          k_.prefill(task);
        }
      }
    }
    return out;
  }

  std::vector<float> run_decode() {
    std::vector<float> out(static_cast<size_t>(s_.rows * s_.heads * s_.head_dim), NAN);
    std::vector<float> scratch(static_cast<size_t>(k_.decode_scratch_floats(s_.group(), padded_)), NAN);
    for (int row = 0; row < s_.rows; ++row) {
      int position = s_.first_position + row;
      int oldest = s_.window > 0 ? std::max(0, position - s_.window + 1) : 0;
      for (int kv = 0; kv < s_.kv_heads; ++kv) {
        std::vector<std::vector<float>> memory;
        std::vector<Partials> partials;
        for (int key = oldest; key <= position;) {
          int end = std::min(position + 1, (key / kDecodeRangeKeys + 1) * kDecodeRangeKeys);
          memory.emplace_back(static_cast<size_t>(s_.group() * (padded_ + 2)), NAN);
          float* at = memory.back().data();
          partials.push_back({at, at + s_.group() * padded_, at + s_.group() * (padded_ + 1)});
          DecodeTask task;
          task.queries = queries_.data() + (row * s_.heads + kv * s_.group()) * padded_;
          task.group = s_.group();
          task.head_dim = s_.head_dim;
          task.padded_dim = padded_;
          task.kv_head = kv;
          task.soft_cap = s_.soft_cap;
          task.first_key = key;
          task.end_key = end;
          task.pages = pages_;
          task.keys = keys_;
          task.values = values_;
          task.out = partials.back();
          task.scratch = scratch.data();
          k_.decode(task);
          key = end;
        }
        MergeTask merge;
        merge.partials = partials.data();
        merge.ranges = static_cast<int>(partials.size());
        merge.group = s_.group();
        merge.head_dim = s_.head_dim;
        merge.padded_dim = padded_;
        merge.sinks = s_.sinks ? sinks_.data() + kv * s_.group() : nullptr;
        merge.kv_head = kv;
        merge.values = values_;
        merge.out = out.data() + (row * s_.heads + kv * s_.group()) * s_.head_dim;
        k_.merge(merge);
      }
    }
    return out;
  }

  void compare(const std::vector<float>& got, const std::vector<float>& expected, double tolerance, const char* what) {
    double largest = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::isnan(got[i]) ? 1e30 : std::abs(double{got[i]} - expected[i]));
      norm = std::max(norm, std::abs(double{expected[i]}));
    }
    EXPECT_LE(largest, tolerance * norm) << what << ' ' << name(k_.isa) << ": heads " << s_.heads << '/' << s_.kv_heads
                                         << " dim " << s_.head_dim << " rows " << s_.rows << " from "
                                         << s_.first_position << " window " << s_.window << " block " << s_.block_tokens
                                         << " cap " << s_.soft_cap << " sinks " << s_.sinks << " stored "
                                         << static_cast<int>(s_.stored);
  }

  Scene s_;
  const AttendKernels& k_;
  std::mt19937 random_;
  KvPages pages_;
  std::vector<int32_t> table_;
  KvExtents extents_;
  std::vector<std::byte> key_bytes_, value_bytes_;
  std::vector<float> key_scales_, value_scales_;
  KvView<KvRole::kKey> keys_;
  KvView<KvRole::kValue> values_;
  std::vector<float> queries_, sinks_;
  int padded_ = 0;
  double largest_terms_ = 0;
};

class AttendKernelsTest : public testing::TestWithParam<Isa> {};

TEST_P(AttendKernelsTest, AgreeWithFloat64OverRandomShapes) {
  std::mt19937 random(7);
  auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
  };
  for (int round = 0; round < 160; ++round) {
    Scene scene;
    scene.kv_heads = pick({1, 1, 2, 3});
    scene.heads = scene.kv_heads * pick({1, 2, 3, 4, 5, 7, 8});
    scene.head_dim = pick({2, 6, 8, 10, 16, 24, 36, 48, 64, 64, 72, 80, 128, 144, 256});
    scene.rows = pick({1, 1, 2, 3, 5, 17, 40});
    scene.first_position = pick({0, 0, 1, 15, 16, 97, 255, 256, 300, 700});
    scene.window = pick({0, 0, 0, 1, 2, 16, 33, 96, 200});
    scene.block_tokens = pick({1, 7, 16, 16, 32, 64});
    scene.soft_cap = static_cast<float>(pick({0, 0, 0, 5, 30}));
    scene.sinks = pick({0, 0, 1}) == 1;
    constexpr CodecId kStored[] = {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor,
                                   CodecId::kE5M2Tensor};
    scene.stored = kStored[pick({0, 1, 1, 2, 3, 3, 4})];
    Bench(scene, *kernels_of(GetParam()), static_cast<uint32_t>(round)).check();
    if (HasFailure()) break;
  }
}

// CPU-5: 0x7F and 0xFF are NaN, though a kernel may read them as 480 on the way.
TEST_P(AttendKernelsTest, AStoredNanStaysNan) {
  for (int head_dim : {10, 64, 80}) {
    for (bool of_values : {false, true}) {
      for (auto [stored, code] :
           {std::pair{CodecId::kE4M3Tensor, 0x7F}, {CodecId::kE4M3Tensor, 0xFF}, {CodecId::kE5M2Tensor, 0x7E}}) {
        Scene scene;
        scene.heads = scene.kv_heads = 2;
        scene.head_dim = head_dim;
        scene.rows = 2;
        scene.first_position = 300;
        scene.stored = stored;
        Bench(scene, *kernels_of(GetParam()), 5).check_nan(of_values, static_cast<std::byte>(code));
      }
    }
  }
}

TEST_P(AttendKernelsTest, AGroupLargerThanATileIsCut) {
  Scene scene;
  scene.heads = 2 * kTileQueries + 5;
  scene.head_dim = 16;
  scene.rows = 3;
  scene.first_position = 40;
  scene.window = 9;
  Bench(scene, *kernels_of(GetParam()), 1).check();
}

// CPU-5
TEST_P(AttendKernelsTest, WritesStoreWhatTheWriterStores) {
  const AttendKernels& kernels = *kernels_of(GetParam());
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> special = {0.0f,   -0.0f,   1e-9f,    65504.0f, 65519.0f, -65520.0f, 7e4f,    447.9f,
                                460.0f, -464.1f, 3.39e38f, inf,      -inf,     NAN,       0.0009f, 1e-40f};
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 30);
  for (CodecId stored : {CodecId::kF32, CodecId::kF16, CodecId::kBF16, CodecId::kE4M3Tensor, CodecId::kE5M2Tensor}) {
    constexpr int kDim = 26;  // no whole vectors
    std::vector<float> qkv(3 * kDim);
    for (float& x : qkv) x = normal(random);
    std::copy(special.begin(), special.end(), qkv.begin() + kDim);
    KvExtents extents{4, 1, kDim};
    size_t bytes = 4 * kDim * stored_size(stored);
    std::vector<std::byte> keys(bytes), values(bytes), expected_keys(bytes), expected_values(bytes);
    float k_scale = has_cache_scale(stored) ? 0.3f : 1.0f, v_scale = has_cache_scale(stored) ? 1.7f : 1.0f;
    std::vector<float> queries(64);
    const int64_t slot = 2;
    PrepareTask task;
    task.qkv = qkv.data();
    task.heads = task.kv_heads = 1;
    task.head_dim = kDim;
    task.padded_dim = (kDim + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
    task.slots = &slot;
    task.queries = queries.data();
    task.keys = {keys.data(), stored, &k_scale, extents};
    task.values = {values.data(), stored, &v_scale, extents};
    const KvWritten written = kernels.prepare(task, 0, 1);
    KvWriter<KvRole::kKey> key_writer(expected_keys.data(), extents, stored, k_scale);
    KvWriter<KvRole::kValue> value_writer(expected_values.data(), extents, stored, v_scale);
    key_writer.write(slot, 0, std::span(qkv).subspan(kDim, kDim));
    value_writer.write(slot, 0, std::span(qkv).subspan(2 * kDim, kDim));
    EXPECT_EQ(written.saturated, key_writer.saturated() + value_writer.saturated());
    if (stored == CodecId::kF16 || stored == CodecId::kE4M3Tensor) {
      EXPECT_GT(written.saturated, 2);
    }
    EXPECT_EQ(written.nan, stored == CodecId::kE4M3Tensor);
    EXPECT_EQ(values, expected_values);
    for (int i = 0; i < kDim; ++i) {
      size_t at = static_cast<size_t>(slot * kDim + i) * stored_size(stored);
      if (std::isnan(qkv[static_cast<size_t>(kDim + i)])) {
        EXPECT_TRUE(std::isnan(decode_number(stored, keys.data() + at)));
      } else {
        EXPECT_EQ(std::memcmp(keys.data() + at, expected_keys.data() + at, stored_size(stored)), 0) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttendKernelsTest, testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace vernier
