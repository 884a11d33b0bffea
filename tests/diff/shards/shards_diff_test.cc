#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "ops/expert_dispatch.h"
#include "ops/shard_plan.h"
#include "tensor/prepared.h"
#include "testing/backends.h"
#include "testing/op_bench.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::OpBench;
using testing::random_numbers;
using testing::relative_error;

constexpr int64_t kRows = 9;

/// Runs `work(rank)` for every rank on a thread of its own.
template <class Work>
void on_ranks(int ranks, Work work) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&work, rank] { work(rank); });
}

/// The reduction over ranks: terms in their order, in float64.
std::vector<float> sum_of(const std::vector<std::vector<float>>& terms) {
  std::vector<double> sums;
  for (const std::vector<float>& term : terms) {
    sums.resize(std::max(sums.size(), term.size()));
    for (size_t i = 0; i < term.size(); ++i) sums[i] += term[i];
  }
  return {sums.begin(), sums.end()};
}

QTensor random_matrix(const Codec& codec, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  return encode(codec, rows, cols,
                random_numbers(random, rows * cols, 1.2f / std::sqrt(static_cast<float>(cols)), 0.01f))
      .value();
}

std::vector<std::vector<int32_t>> one_step(int64_t rows) {
  std::vector<std::vector<int32_t>> step(1);
  for (int64_t row = 0; row < rows; ++row) step[0].push_back(static_cast<int32_t>(row));
  return step;
}

struct FeedCase {
  const char* name;
  Codec codec;
  int64_t hidden;
  int64_t width;
};

void PrintTo(const FeedCase& of, std::ostream* out) {
  *out << of.name;
}

std::vector<FeedCase> feed_cases() {
  const auto block = [](int rows, int cols, ScaleType scales) {
    return block_codec(CodecId::kE4M3Block, rows, cols, scales);
  };
  return {{"mxfp4", codec(CodecId::kMxfp4), 64, 288},
          {"mxfp8", codec(CodecId::kMxfp8), 64, 160},
          {"nvfp4", codec(CodecId::kNvfp4), 64, 176},
          {"channel", codec(CodecId::kE4M3Channel), 48, 50},
          // Parts of 24 in blocks of 16: cut where blocks are.
          {"block_16", block(16, 16, ScaleType::kF32), 64, 192},
          // Gate and up of 320 rows in blocks of 128, the last of them 64 high.
          {"block_128", block(128, 128, ScaleType::kF32), 128, 320},
          // Three quarters of a rank's share of 48 in blocks of 64: one rank takes a whole block.
          {"block_64", block(64, 64, ScaleType::kF32), 60, 96},
          // Sizes that nothing divides.
          {"odd", codec(CodecId::kBF16), 171, 171},
          {"block_64x32_e8m0", block(64, 32, ScaleType::kE8M0), 64, 224},
          {"q4_1", codec(CodecId::kQ4_1), 64, 160}};
}

class FeedShards : public ::testing::TestWithParam<std::tuple<BackendCase, FeedCase>> {
 protected:
  /// The product of gate, up and down of some columns of the width.
  static std::vector<float> run(Backend& backend, const QTensor& gate, const QTensor& up, const QTensor& down,
                                const std::vector<float>& bias) {
    OpBench bench(backend);
    std::mt19937 random(5);
    bench.set_inputs(kRows, gate.cols(), random_numbers(random, kRows * gate.cols(), 1.0f, 0.1f));
    const auto gate_up = bench.weight<Split::kColumns>({gate, up});
    const auto back = bench.weight<Split::kRows>({down}, bias);
    bench.driver().begin(one_step(kRows));
    const Value x = bench.input();
    return bench.read(bench.ops().reduce(
        bench.ops().linear(bench.ops().gate(bench.ops().linear(x, gate_up), GateSpec{Act::kSilu}), back)));
  }
};

// B01, B02, B03, B18: each half is cut for itself, before any order of rows; the ranks' terms sum to the whole.
TEST_P(FeedShards, PartialsSumToTheWholeOps10) {
  const auto& [of, spec] = GetParam();
  const QTensor gate = random_matrix(spec.codec, spec.width, spec.hidden, 1);
  const QTensor up = random_matrix(spec.codec, spec.width, spec.hidden, 2);
  const QTensor down = random_matrix(spec.codec, spec.hidden, spec.width, 3);
  std::mt19937 random(4);
  const std::vector<float> bias = random_numbers(random, spec.hidden, 0.3f, 0.1f);
  auto whole_backend = of.make().value();
  const std::vector<float> whole = run(*whole_backend, gate, up, down, bias);
  const int64_t unit = std::lcm(column_unit(spec.codec), std::max(1, spec.codec.group_rows));
  for (int ranks : {1, 2, 3, 4, 8}) {
    const std::vector<AxisCut> cuts = cut_axis(spec.width, unit, ranks).value();
    std::vector<std::vector<float>> terms(static_cast<size_t>(ranks));
    on_ranks(ranks, [&](int rank) {
      const AxisCut cut = cuts[static_cast<size_t>(rank)];
      if (cut.size() == 0) return;  // fewer scale groups than ranks
      auto backend = of.make().value();
      // A bias joins the sum once.
      terms[static_cast<size_t>(rank)] = run(*backend, cut_rows(gate, cut).value(), cut_rows(up, cut).value(),
                                             cut_cols(down, cut).value(), rank == 0 ? bias : std::vector<float>());
    });
    EXPECT_LE(relative_error(sum_of(terms), whole), 2e-6) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Diff, FeedShards,
                         ::testing::Combine(::testing::ValuesIn(testing::exact_backends()),
                                            ::testing::ValuesIn(feed_cases())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

class AttentionShards : public ::testing::TestWithParam<BackendCase> {};

/// Queries, keys and values of some heads, and the columns of the output that meet them.
std::vector<float> attend(Backend& backend, const std::vector<QTensor>& qkv, const QTensor& output, int heads,
                          int kv_heads, int head_dim) {
  CacheSpec cache;
  cache.kv_heads = kv_heads;
  cache.head_dim = head_dim;
  OpBench bench(backend, cache, {});
  std::mt19937 random(5);
  bench.set_inputs(kRows, qkv[0].cols(), random_numbers(random, kRows * qkv[0].cols(), 1.0f, 0.1f));
  AttnLayer layer;
  layer.spec.heads = heads;
  layer.spec.kv_heads = kv_heads;
  layer.spec.head_dim = head_dim;
  layer.spec.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  layer.spec.rope.dim = head_dim;
  const auto fused = bench.weight<Split::kColumns>(qkv);
  const auto back = bench.weight<Split::kRows>({output});
  bench.driver().begin(one_step(kRows));
  const Value x = bench.input();
  return bench.read(
      bench.ops().reduce(bench.ops().linear(bench.ops().attend(bench.ops().linear(x, fused), layer), back)));
}

// B20, B21: query heads are cut, key-value heads stand on several ranks, and scales go with their rows, though a head
// ends within a block.
TEST_P(AttentionShards, HeadsOfAFusedBlockMatrixOps10) {
  constexpr int kHeads = 4, kKvHeads = 2, kDim = 16;
  constexpr int64_t kHidden = 64;
  for (int block : {16, 32, 128}) {
    const Codec codec = block_codec(CodecId::kE4M3Block, block, block, ScaleType::kF32);
    const QTensor q = random_matrix(codec, kHeads * kDim, kHidden, 1);
    const QTensor k = random_matrix(codec, kKvHeads * kDim, kHidden, 2);
    const QTensor v = random_matrix(codec, kKvHeads * kDim, kHidden, 3);
    const QTensor output = random_matrix(codec, kHidden, kHeads * kDim, 4);
    auto whole_backend = GetParam().make().value();
    const std::vector<float> whole = attend(*whole_backend, {q, k, v}, output, kHeads, kKvHeads, kDim);
    for (int ranks : {1, 2, 4}) {
      const std::vector<HeadCut> cuts = cut_heads(kHeads, kKvHeads, head_unit(kDim, codec), ranks).value();
      std::vector<std::vector<float>> terms(static_cast<size_t>(ranks));
      on_ranks(ranks, [&](int rank) {
        const HeadCut& own = cuts[static_cast<size_t>(rank)];
        const AxisCut queries{own.heads.begin * kDim, own.heads.end * kDim};
        const AxisCut pairs{own.kv_heads.begin * kDim, own.kv_heads.end * kDim};
        auto backend = GetParam().make().value();
        terms[static_cast<size_t>(rank)] =
            attend(*backend, {cut_rows(q, queries).value(), cut_rows(k, pairs).value(), cut_rows(v, pairs).value()},
                   cut_cols(output, queries).value(), static_cast<int>(own.heads.size()),
                   static_cast<int>(own.kv_heads.size()), kDim);
      });
      EXPECT_LE(relative_error(sum_of(terms), whole), 3e-6) << ranks << " ranks, blocks of " << block;
    }
  }
}

/// One expert's answers, by row.
struct Expert {
  QTensor gate;
  QTensor up;
  QTensor down;
};

std::vector<float> answer(Backend& backend, const Expert& expert, const std::vector<float>& inputs, int64_t rows) {
  OpBench bench(backend);
  bench.set_inputs(rows, expert.gate.cols(), inputs);
  const auto gate_up = bench.weight<Split::kColumns>({expert.gate, expert.up});
  const auto down = bench.weight<Split::kRows>({expert.down});
  bench.driver().begin(one_step(rows));
  const Value x = bench.input();
  return bench.read(
      bench.ops().reduce(bench.ops().linear(bench.ops().gate(bench.ops().linear(x, gate_up), GateSpec{}), down)));
}

// OPS-11. Experts on different ranks: rows reach them as codes with their scales, and no rank needs anything else.
TEST_P(AttentionShards, ExpertsOnDifferentRanksOps11) {
  constexpr int64_t kHidden = 64, kWidth = 96;
  constexpr int kExperts = 5;
  std::vector<Expert> experts;
  for (uint32_t i = 0; i < kExperts; ++i) {
    experts.push_back({random_matrix(codec(CodecId::kMxfp4), kWidth, kHidden, 10 + i),
                       random_matrix(codec(CodecId::kMxfp4), kWidth, kHidden, 20 + i),
                       random_matrix(codec(CodecId::kMxfp4), kHidden, kWidth, 30 + i)});
  }
  std::mt19937 random(6);
  std::vector<float> numbers = random_numbers(random, kRows * kHidden, 1.0f, 0.1f);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] *= i / kHidden % 2 == 0 ? 0.03f : 17.0f;  // scales differ
  std::vector<ChosenExpert> chosen;
  for (int64_t row = 0; row < kRows; ++row) {
    const int first = static_cast<int>(random() % kExperts);
    chosen.push_back({first, 0.3f + 0.05f * static_cast<float>(row)});
    chosen.push_back({static_cast<int>((first + 1 + random() % (kExperts - 1)) % kExperts), 0.6f});
  }
  chosen[3].expert = -1;            // an empty slot (B12)
  chosen[5].expert = kExperts + 7;  // no expert (B13)
  for (CodecId id : {CodecId::kMxfp8, CodecId::kE4M3Channel, CodecId::kNvfp4, CodecId::kF32}) {
    const QTensor rows = encode(codec(id), kRows, kHidden, numbers).value();
    std::vector<std::vector<float>> sums_of;
    for (int ranks : {1, 2, 3, 8}) {
      const std::vector<AxisCut> owners = cut_axis(kExperts, 1, ranks).value();
      const ExpertDispatch sent = dispatch_rows(rows, chosen, owners).value();
      EXPECT_EQ(sent.empty_slots, 1);
      EXPECT_EQ(sent.unknown, 1);
      std::vector<std::vector<float>> answers(static_cast<size_t>(ranks));
      on_ranks(ranks, [&](int rank) {
        const auto& message = sent.to[static_cast<size_t>(rank)];
        if (!message) return;
        auto backend = GetParam().make().value();
        const std::vector<float> received = message->rows.decode();
        for (const ExpertMessage::Choice& choice : message->choices) {
          const auto begin = received.begin() + choice.row * kHidden;
          const std::vector<float> own =
              answer(*backend, experts[static_cast<size_t>(choice.expert)], {begin, begin + kHidden}, 1);
          answers[static_cast<size_t>(rank)].insert(answers[static_cast<size_t>(rank)].end(), own.begin(), own.end());
        }
      });
      std::vector<float> sums(static_cast<size_t>(kRows * kHidden));
      for (size_t rank = 0; rank < answers.size(); ++rank) {
        if (sent.to[rank]) add_answers(*sent.to[rank], answers[rank], kHidden, sums);
      }
      sums_of.push_back(std::move(sums));
    }
    // The order of additions is that of the experts, however many ranks there are: the same to the bit.
    for (const std::vector<float>& sums : sums_of) EXPECT_EQ(sums, sums_of.front());
    EXPECT_GT(*std::ranges::max_element(sums_of.front()), 0.1f);
  }
}

TEST(ExpertDispatch, APartitionWithHolesIsRefusedOps11) {
  const QTensor rows = random_matrix(codec(CodecId::kMxfp8), 2, 32, 1);
  const std::vector<ChosenExpert> chosen = {{0, 1}, {4, 1}};
  EXPECT_TRUE(dispatch_rows(rows, chosen, std::vector<AxisCut>{{0, 3}, {3, 5}}).ok());
  EXPECT_FALSE(dispatch_rows(rows, chosen, std::vector<AxisCut>{{0, 3}, {4, 6}}).ok());  // B14
  const QTensor blocks = random_matrix(block_codec(CodecId::kE4M3Block, 2, 32, ScaleType::kF32), 2, 32, 1);
  EXPECT_FALSE(dispatch_rows(blocks, chosen, std::vector<AxisCut>{{0, 5}}).ok());
}

INSTANTIATE_TEST_SUITE_P(Diff, AttentionShards, ::testing::ValuesIn(testing::exact_backends()),
                         [](const auto& info) { return info.param.name; });

/// A prepared matrix, padding and all, as if its physical sizes were the logical ones.
QTensor physical(const PreparedTensor& prepared) {
  const PreparedTensor::View view = prepared.view();
  return QTensor::make({view.codec,
                        view.extents.physical_rows,
                        view.extents.physical_cols,
                        Bytes(std::vector<std::byte>(view.codes.begin(), view.codes.end())),
                        Bytes(std::vector<std::byte>(view.scales.begin(), view.scales.end())),
                        {},
                        {},
                        "padded"})
      .value();
}

// Widths that no kernel takes, padded to 128: a kernel that multiplies the padding too gives the same answers, to the
// bit, before and after another set of weights was loaded into the same memory.
TEST(PaddedExperts, WidthsThatNoKernelTakesTensor11) {
  constexpr int64_t kHidden = 64;
  const Layout rows_padded{128, 1}, cols_padded{1, 128};
  for (const Codec& codec : {codec(CodecId::kMxfp4), block_codec(CodecId::kE4M3Block, 32, 32, ScaleType::kF32),
                             block_codec(CodecId::kE4M3Block, 32, 32, ScaleType::kE8M0)}) {
    for (int64_t width : {96, 128, 160, 192, 288, 320}) {
      const Expert expert{random_matrix(codec, width, kHidden, 1), random_matrix(codec, width, kHidden, 2),
                          random_matrix(codec, kHidden, width, 3)};
      std::mt19937 random(4);
      const std::vector<float> inputs = random_numbers(random, kRows * kHidden, 1.0f, 0.1f);
      RefBackend backend;
      const std::vector<float> expected = answer(backend, expert, inputs, kRows);
      auto pad = [](const QTensor& tensor, const Layout& layout) {
        return PreparedTensor::prepare(std::span(&tensor, 1), layout).value();
      };
      const PreparedTensor down = pad(expert.down, cols_padded);
      EXPECT_EQ(down.extents().cols, width);
      EXPECT_EQ(down.extents().physical_cols, (width + 127) / 128 * 128);
      const Expert padded{physical(pad(expert.gate, rows_padded)), physical(pad(expert.up, rows_padded)),
                          physical(down)};
      EXPECT_EQ(answer(backend, padded, inputs, kRows), expected) << codec.name << " " << width;
      // Reloaded: out of the layout, cut for two ranks, padded anew; the terms sum to the whole.
      std::vector<std::vector<float>> terms;
      const std::vector<AxisCut> cuts = cut_axis(width, 32, 2).value();
      for (const AxisCut& cut : cuts) {
        const QTensor again = down.restore().value()[0];
        terms.push_back(answer(backend,
                               {physical(pad(cut_rows(expert.gate, cut).value(), rows_padded)),
                                physical(pad(cut_rows(expert.up, cut).value(), rows_padded)),
                                physical(pad(cut_cols(again, cut).value(), cols_padded))},
                               inputs, kRows));
      }
      EXPECT_LE(relative_error(sum_of(terms), expected), 1e-6) << codec.name << " " << width;
    }
  }
}

}  // namespace
}  // namespace vernier
