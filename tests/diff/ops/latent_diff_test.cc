#include <gtest/gtest.h>

#include <cmath>

#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

struct LatentCase {
  const char* name;
  int heads;
  LatentSpec spec;
  RopeSpec rope;
};

// No two sizes of one case are equal.
const LatentCase kCases[] = {
    {"interleaved", 4, {0, 32, 16, 8, 24, true}, {10000, 8, RopePlain{}}},
    {"halves", 3, {0, 20, 12, 6, 10, false}, {500, 6, RopePlain{}}},
    {"yarn", 2, {0, 40, 24, 16, 12, true}, {10000, 16, RopeYarn{4, 8, 32, 1, true, 1.1386}}},
};

void PrintTo(const LatentCase& of, std::ostream* out) {
  *out << of.name;
}

constexpr int kTokens = 23;
constexpr float kEps = 1e-5f, kScale = 0.23f;

/// One case's numbers: those of each token, and of the weights.
struct Numbers {
  explicit Numbers(const LatentCase& of) {
    std::mt19937 random(7);
    const LatentSpec& spec = of.spec;
    q = random_numbers(random, int64_t{kTokens} * of.heads * spec.query_dim(), 1.1f, 0.1f);
    rows = random_numbers(random, int64_t{kTokens} * spec.row_dim(), 0.8f, 0.2f);
    norm = random_numbers(random, spec.rank, 0.3f, 1);
    keys = random_numbers(random, int64_t{of.heads} * spec.nope_dim * spec.rank, 0.4f);
    values = random_numbers(random, int64_t{of.heads} * spec.value_dim * spec.rank, 0.4f);
  }
  std::vector<float> q, rows, norm;
  std::vector<float> keys;    // [heads, nope_dim, rank]
  std::vector<float> values;  // [heads, value_dim, rank]
};

/// A token's rotating numbers, turned.
std::vector<double> turned(const LatentCase& of, const float* from, int position) {
  const std::vector<float> frequencies = of.rope.frequencies();
  const size_t pairs = frequencies.size();
  std::vector<double> to(2 * pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const double low = from[of.spec.neighbours ? 2 * i : i], high = from[of.spec.neighbours ? 2 * i + 1 : i + pairs];
    const double angle = position * double{frequencies[i]}, size = of.rope.magnitude();
    to[i] = size * (low * std::cos(angle) - high * std::sin(angle));
    to[i + pairs] = size * (high * std::cos(angle) + low * std::sin(angle));
  }
  return to;
}

/// The definition: every token's row becomes each head's key and value, and then attention is the usual one.
std::vector<float> defined(const LatentCase& of) {
  const Numbers numbers(of);
  const LatentSpec& spec = of.spec;
  const auto rank = static_cast<size_t>(spec.rank), nope = static_cast<size_t>(spec.nope_dim);
  const auto width = static_cast<size_t>(spec.value_dim), heads = static_cast<size_t>(of.heads);
  std::vector<std::vector<double>> latents;
  for (size_t t = 0; t < kTokens; ++t) {
    const float* row = numbers.rows.data() + t * static_cast<size_t>(spec.row_dim());
    double squares = 0;
    for (size_t i = 0; i < rank; ++i) squares += double{row[i]} * row[i];
    std::vector<double> latent(rank);
    for (size_t i = 0; i < rank; ++i) {
      latent[i] = row[i] / std::sqrt(squares / static_cast<double>(rank) + double{kEps}) * numbers.norm[i];
    }
    latents.push_back(std::move(latent));
  }
  auto product = [&](const std::vector<float>& matrix, size_t row, const std::vector<double>& x) {
    double sum = 0;
    for (size_t i = 0; i < rank; ++i) sum += double{matrix[row * rank + i]} * x[i];
    return sum;
  };
  std::vector<float> out;
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t head = 0; head < heads; ++head) {
      const float* query = numbers.q.data() + (t * heads + head) * static_cast<size_t>(spec.query_dim());
      const std::vector<double> rotated = turned(of, query + nope, static_cast<int>(t));
      std::vector<double> weights;
      double sum = 0;
      for (size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (size_t i = 0; i < nope; ++i) score += query[i] * product(numbers.keys, head * nope + i, latents[s]);
        const float* row = numbers.rows.data() + s * static_cast<size_t>(spec.row_dim());
        const std::vector<double> key = turned(of, row + rank, static_cast<int>(s));
        for (size_t i = 0; i < key.size(); ++i) score += rotated[i] * key[i];
        weights.push_back(std::exp(double{kScale} * score));
        sum += weights.back();
      }
      for (size_t i = 0; i < width; ++i) {
        double mean = 0;
        for (size_t s = 0; s <= t; ++s)
          mean += weights[s] / sum * product(numbers.values, head * width + i, latents[s]);
        out.push_back(static_cast<float>(mean));
      }
    }
  }
  return out;
}

LatentLayer layer_of(const LatentCase& of, OpBench& bench) {
  const Numbers numbers(of);
  const LatentSpec& spec = of.spec;
  LatentLayer layer;
  layer.spec = spec;
  layer.rope = of.rope;
  layer.norm = {"norm", bench.vector(numbers.norm), kEps};
  layer.attn.spec.heads = of.heads;
  layer.attn.spec.kv_heads = 1;
  layer.attn.spec.head_dim = spec.row_dim();
  layer.attn.spec.scale = kScale;
  for (int head = 0; head < of.heads; ++head) {
    std::vector<float> keys(static_cast<size_t>(spec.rank * spec.nope_dim));
    for (int i = 0; i < spec.nope_dim; ++i) {
      for (int c = 0; c < spec.rank; ++c) {
        keys[static_cast<size_t>(c * spec.nope_dim + i)] =
            numbers.keys[static_cast<size_t>((head * spec.nope_dim + i) * spec.rank + c)];
      }
    }
    const auto begin = numbers.values.begin() + head * spec.value_dim * spec.rank;
    layer.keys.push_back(bench.weight<Split::kNone>({testing::dense(spec.rank, spec.nope_dim, keys)}));
    layer.values.push_back(bench.weight<Split::kNone>(
        {testing::dense(spec.value_dim, spec.rank, {begin, begin + spec.value_dim * spec.rank})}));
  }
  return layer;
}

/// All tokens of one sequence, `each` of them in a step. Inputs hold queries and rows side by side.
std::vector<float> run(Backend& backend, const LatentCase& of, int each, const CacheSpec& like = {}) {
  CacheSpec cache = like;
  cache.kind = CacheKind::kLatent;
  cache.kv_heads = 1;
  cache.head_dim = of.spec.row_dim();
  OpBench queries(backend, cache, {});
  const LatentLayer layer = layer_of(of, queries);
  const Numbers numbers(of);
  const int64_t q_cols = int64_t{of.heads} * of.spec.query_dim();
  queries.set_inputs(kTokens, q_cols, numbers.q);
  auto rows =
      queries.weight<Split::kNone>({testing::dense(kTokens, of.spec.row_dim(), numbers.rows)}, {}, PackUse::kEmbedding);
  std::vector<float> out;
  for (int first = 0; first < kTokens; first += each) {
    std::vector<std::vector<int32_t>> step(1);
    for (int t = first; t < std::min(kTokens, first + each); ++t) step[0].push_back(t);
    queries.driver().begin(step);
    {
      Value compressed = queries.ops().embed(rows, 1);
      const std::vector<float> made =
          queries.read(queries.ops().attend_latent(queries.input_shard(), compressed, layer));
      out.insert(out.end(), made.begin(), made.end());
    }
    queries.driver().commit(step);
  }
  return out;
}

CacheSpec cache_of(CodecId stored) {
  CacheSpec cache;
  cache.stored = stored;
  return cache;
}

class LatentDiff : public ::testing::TestWithParam<std::tuple<BackendCase, LatentCase>> {};

// OPS-3, OPS-7: attention over compressed rows is the usual one over the keys and values that they stand for, for any
// cut of the prompt.
TEST_P(LatentDiff, EqualsAttentionOverExpandedRows) {
  const auto& [of, latent] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  const std::vector<float> expected = defined(latent);
  for (int each : {1, 3, 8, kTokens}) {
    EXPECT_LE(relative_error(run(**backend, latent, each, cache_of(CodecId::kF32)), expected), 2e-6)
        << each << " rows a step";
  }
}

// OPS-5, OPS-12: a row is stored once, under the scale of keys, and is key and value; the scale of values acts on
// nothing.
TEST_P(LatentDiff, AStoredRowHasOneScale) {
  const auto& [of, latent] = GetParam();
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  RefBackend reference;
  for (FreshRows fresh : {FreshRows::kStored, FreshRows::kComputed, FreshRows::kRoundTrip}) {
    CacheSpec cache = cache_of(CodecId::kE4M3Tensor);
    cache.fresh = fresh;
    cache.k_scale = 0.013f;
    for (int each : {1, 5, kTokens}) {
      const std::vector<float> right = run(reference, latent, each, cache);
      EXPECT_LE(relative_error(run(**backend, latent, each, cache), right), 0.02) << each << " rows a step";
      CacheSpec other = cache;
      other.v_scale = 5.0f;
      EXPECT_EQ(run(**backend, latent, each, other), run(**backend, latent, each, cache));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, LatentDiff,
                         ::testing::Combine(::testing::ValuesIn(testing::exact_backends()),
                                            ::testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace vernier
