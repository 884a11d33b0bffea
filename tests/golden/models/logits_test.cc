#include <gtest/gtest.h>

#include <algorithm>

#include "testing/backends.h"
#include "testing/golden_model.h"
#include "testing/step_driver.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::Golden;
using testing::StepDriver;

constexpr double kLimit = 1e-4;  // of the spread of the logits: float32 rounding, and float32's in the reference

std::string folder(const std::string& name) {
  return std::string(VERNIER_TEST_DATA "/models/") + name;
}

/// Tokens that each sequence is fed in each step; the last number is repeated.
struct Cut {
  const char* name;
  std::vector<std::vector<size_t>> rows;  // [sequence][step]
};

const Cut kCuts[] = {{"one", {{1}, {1}}},
                     {"three", {{3}, {3}}},
                     {"seven", {{7}, {7}}},
                     {"whole", {{64}, {64}}},
                     {"ragged", {{5, 1, 1, 9, 2}, {0, 2, 11, 1, 1, 4}}}};

class GoldenLogits : public ::testing::TestWithParam<std::tuple<BackendCase, const char*, size_t>> {};

/// Feeds every prompt, both in the same steps, cut as asked, and collects the logits of all rows, [batch][tokens *
/// vocab].
std::vector<std::vector<float>> feed(Backend& backend, const Decoder& decoder,
                                     const std::vector<std::vector<int32_t>>& prompts, const Cut& cut) {
  StepDriver driver(backend, cache_specs(decoder.spec(), CodecId::kF32),
                    {.sequences = prompts.size(), .max_rows = 128});
  std::vector<std::vector<float>> result(prompts.size());
  std::vector<size_t> fed(prompts.size(), 0);
  auto left = [&] {
    size_t sum = 0;
    for (size_t s = 0; s < prompts.size(); ++s) sum += prompts[s].size() - fed[s];
    return sum;
  };
  for (size_t step = 0; left() > 0; ++step) {
    std::vector<std::vector<int32_t>> tokens(prompts.size());
    for (size_t s = 0; s < prompts.size(); ++s) {
      const std::vector<size_t>& rows = cut.rows[s % cut.rows.size()];
      const size_t count = std::min(rows[std::min(step, rows.size() - 1)], prompts[s].size() - fed[s]);
      const auto begin = prompts[s].begin() + static_cast<std::ptrdiff_t>(fed[s]);
      tokens[s].assign(begin, begin + static_cast<std::ptrdiff_t>(count));
      fed[s] += count;
    }
    driver.begin(tokens);
    std::vector<float> logits;
    {
      Value hidden = decoder.forward(driver.ops());
      logits = driver.ops().read(decoder.head(driver.ops(), hidden)).value();
    }
    driver.commit(tokens);
    auto row = logits.begin();
    for (size_t s = 0; s < prompts.size(); ++s) {
      const auto end = row + static_cast<std::ptrdiff_t>(tokens[s].size()) * decoder.spec().vocab;
      result[s].insert(result[s].end(), row, end);
      row = end;
    }
  }
  return result;
}

double largest_error(const std::vector<std::vector<float>>& found, const std::vector<std::vector<float>>& expected) {
  double error = 0;
  for (size_t s = 0; s < expected.size(); ++s) {
    EXPECT_EQ(found[s].size(), expected[s].size());
    for (size_t i = 0; i < expected[s].size(); ++i) {
      const double difference = std::abs(double{found[s][i]} - expected[s][i]);
      if (!(difference <= error)) error = difference;  // a NaN is kept
    }
  }
  return error;
}

// MODELS-6, OPS-7: the reference's logits, for any cut of the prompts.
TEST_P(GoldenLogits, EqualTheReferenceImplementation) {
  const auto& [of, name, cut] = GetParam();
  Golden golden = Golden::read(folder(name) + "/golden.safetensors");
  auto backend = of.make();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  auto decoder = testing::load_decoder(folder(name), **backend);
  ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
  const auto logits = feed(**backend, *decoder, golden.prompts, kCuts[cut]);
  const double error = largest_error(logits, golden.logits) / golden.spread;
  RecordProperty("error_of_spread", std::to_string(error));
  EXPECT_LE(error, kLimit);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogits,
                         ::testing::Combine(::testing::ValuesIn(testing::exact_backends()),
                                            ::testing::ValuesIn(testing::kGoldenModels),
                                            ::testing::Range<size_t>(0, std::size(kCuts))),
                         [](const auto& info) {
                           return testing::test_name(std::get<0>(info.param).name + "_" + std::get<1>(info.param)) +
                                  "_" + kCuts[std::get<2>(info.param)].name;
                         });

// CKPT-11: codes and scales as their dialect means them.
INSTANTIATE_TEST_SUITE_P(Quantised, GoldenLogits,
                         ::testing::Combine(::testing::ValuesIn(testing::exact_backends()),
                                            ::testing::ValuesIn(testing::kQuantisedModels),
                                            ::testing::Range<size_t>(0, std::size(kCuts))),
                         [](const auto& info) {
                           return testing::test_name(std::get<0>(info.param).name + "_" + std::get<1>(info.param)) +
                                  "_" + kCuts[std::get<2>(info.param)].name;
                         });

class GoldenGreedy : public ::testing::TestWithParam<BackendCase> {};

// Greedy answers, as far as the reference's best two tokens are clearly apart.
TEST_P(GoldenGreedy, EqualsWhereTheBestTwoAreApart) {
  for (const char* name : {"llama", "gemma2", "gemma3", "gpt-oss", "qwen2", "qwen3-moe"}) {
    Golden golden = Golden::read(folder(name) + "/golden.safetensors");
    auto backend = GetParam().make();
    ASSERT_TRUE(backend.ok()) << backend.error().to_string();
    auto decoder = testing::load_decoder(folder(name), **backend);
    ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
    StepDriver driver(**backend, cache_specs(decoder->spec(), CodecId::kF32),
                      {.sequences = golden.prompts.size(), .max_rows = 128});
    std::vector<std::vector<int32_t>> tokens = golden.prompts;
    std::vector<bool> sure(tokens.size(), true);
    SampleSpec greedy;
    greedy.temperature = 0;
    for (size_t step = 0; step < golden.greedy[0].size(); ++step) {
      driver.begin(tokens);
      SampledRows drawn;
      size_t rows = 0;
      for (const auto& fed : tokens) rows += fed.size();
      {
        Value hidden = decoder->forward(driver.ops());
        drawn = driver.ops().sample(decoder->head(driver.ops(), hidden), std::vector(rows, greedy)).value();
      }
      driver.commit(tokens);
      size_t row = 0;
      for (size_t s = 0; s < tokens.size(); ++s) {
        row += tokens[s].size();
        if (golden.greedy_gap[s][step] <= 2 * kLimit * golden.spread) sure[s] = false;
        if (sure[s]) {
          EXPECT_EQ(drawn[row - 1]->token, golden.greedy[s][step]) << name << " step " << step;
        }
        tokens[s] = {golden.greedy[s][step]};
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenGreedy, ::testing::ValuesIn(testing::exact_backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace vernier
