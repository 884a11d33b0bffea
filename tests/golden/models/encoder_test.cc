#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "checkpoint/strict_json.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"
#include "testing/backends.h"
#include "testing/golden_model.h"
#include "testing/invented_binder.h"
#include "testing/kept_text.h"
#include "testing/models.h"

namespace vernier {
namespace {

using testing::BackendCase;
using testing::InventedBinder;
using Texts = std::vector<std::vector<int32_t>>;

const std::string kModels = VERNIER_TEST_DATA "/models/";

struct BoundEncoder {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Encoder> encoder;
  LoadReport report;
};

BoundEncoder load_encoder(const std::string& folder, std::unique_ptr<Backend> backend) {
  auto checkpoint = Checkpoint::open(folder).value();
  Config config = checkpoint->config().value();
  CheckpointBinder binder(*checkpoint, *backend);
  auto encoder = Encoder::bind(read_encoder(config).value(), binder);
  EXPECT_TRUE(encoder.ok()) << encoder.error().to_string();
  EXPECT_TRUE(binder.finish(Encoder::unneeded_tensors()).ok());
  return {std::move(backend), std::make_unique<Encoder>(std::move(encoder).value()), binder.report()};
}

/// A step of whole texts side by side, and what it points to.
struct WholeStep {
  std::vector<int32_t> tokens, positions;
  std::vector<SequenceRows> sequences;

  explicit WholeStep(const Texts& texts) {
    for (const std::vector<int32_t>& text : texts) {
      const auto rows = static_cast<int32_t>(text.size());
      sequences.push_back({static_cast<int32_t>(tokens.size()), rows, 0});
      tokens.insert(tokens.end(), text.begin(), text.end());
      for (int32_t position = 0; position < rows; ++position) positions.push_back(position);
    }
  }
  StepView view() const { return {tokens, positions, sequences, {}, {}}; }
};

/// Hidden states of all texts in one step, [tokens of all, hidden].
std::vector<float> hidden_states(const BoundEncoder& model, const Texts& texts) {
  const WholeStep step(texts);
  auto kv = model.backend->make_kv({{}, {}, 16}).value();
  auto ops = model.backend->make_ops(*kv, step.view().rows()).value();
  ops->begin(step.view());
  return ops->read(model.encoder->forward(*ops)).value();
}

template <class T>
std::vector<T> golden_numbers(const std::string& name) {
  auto file = Safetensors::open(kModels + "bert/golden.safetensors").value();
  for (const SafetensorsTensor& tensor : file->tensors()) {
    if (tensor.name != name) continue;
    std::vector<T> numbers(tensor.bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
    return numbers;
  }
  ADD_FAILURE() << name;
  return {};
}

Texts golden_texts() {
  const auto ids = golden_numbers<int32_t>("input_ids");
  Texts texts;
  for (auto at = ids.begin(); int32_t length : golden_numbers<int32_t>("lengths")) {
    texts.emplace_back(at, at + length);
    at += length;
  }
  return texts;
}

class GoldenEncoder : public ::testing::TestWithParam<BackendCase> {};

// MODELS-6 for an encoder: alone, and beside texts of other lengths.
TEST_P(GoldenEncoder, HiddenStatesEqualTheReferenceAloneAndSideBySide) {
  const BoundEncoder model = load_encoder(kModels + "bert", GetParam().make().value());
  const auto expected = golden_numbers<float>("hidden");
  const Texts texts = golden_texts();
  std::vector<float> together = hidden_states(model, texts), alone;
  for (const std::vector<int32_t>& text : texts) {
    const std::vector<float> states = hidden_states(model, {text});
    alone.insert(alone.end(), states.begin(), states.end());
  }
  EXPECT_EQ(together, alone) << "MODELS-6: to the bit";
  // After a layer norm the numbers' mean square is near 1. Fast numerics round activations to 8 bits of mantissa before
  // each of some twenty products: the error's mean square is bounded, and one number's by what is rare among thousands.
  const double mean_limit = GetParam().numerics == Numerics::kExact ? 1e-4 : 2e-2;
  const double limit = GetParam().numerics == Numerics::kExact ? 1e-4 : 5 * mean_limit;
  for (const std::vector<float>& got : {together, alone}) {
    ASSERT_EQ(got.size(), expected.size());
    double squares = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], limit) << "number " << i;
      squares += (got[i] - expected[i]) * (got[i] - expected[i]);
    }
    EXPECT_LE(std::sqrt(squares / static_cast<double>(got.size())), mean_limit);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenEncoder,
                         ::testing::Values(BackendCase{"reference", Numerics::kExact, 1},
                                           BackendCase{"cpu_exact", Numerics::kExact, 2},
                                           BackendCase{"cpu_fast", Numerics::kFast, 2}),
                         [](const auto& info) { return info.param.name; });

// CKPT-6: the pooler and the stored positions are named as not needed; nothing else is left.
TEST(GoldenEncoderFiles, TraceAndLoadReportAreAsKept) {
  const std::string folder = kModels + "bert";
  const BoundEncoder model = load_encoder(folder, std::make_unique<RefBackend>());
  EXPECT_TRUE(model.report.unused().empty());
  testing::expect_kept(folder + "/load_report.txt", "bert_load_report.txt", model.report.to_string());

  NullBackend backend;
  InventedBinder binder(backend, 1);
  const Encoder encoder = Encoder::bind(model.encoder->spec(), binder).value();
  const WholeStep step({{1, 2}, {3}});
  NullOps ops(3);
  ops.begin(step.view());
  { Value states = encoder.forward(ops); }
  std::ostringstream trace;
  for (const std::string& line : ops.trace()) trace << line << "\n";
  testing::expect_kept(folder + "/trace.txt", "bert_trace.txt", trace.str());
}

/// cos of the angle between the mean of a text's states and the vector that sentence-transformers makes of it.
double cosine(const std::vector<float>& states, const std::vector<float>& expected) {
  const size_t hidden = expected.size();
  std::vector<double> mean(hidden);
  for (size_t i = 0; i < states.size(); ++i) mean[i % hidden] += double{states[i]};
  double dot = 0, ours = 0, theirs = 0;
  for (size_t i = 0; i < hidden; ++i) {
    dot += mean[i] * double{expected[i]};
    ours += mean[i] * mean[i];
    theirs += double{expected[i]} * double{expected[i]};
  }
  return dot / std::sqrt(ours * theirs);
}

class RealEncoder : public ::testing::TestWithParam<BackendCase> {};

TEST_P(RealEncoder, MiniLmsVectorsEqualSentenceTransformers) {
  const auto folder = testing::model_file("all-minilm-l6-v2");
  if (!folder) GTEST_SKIP() << testing::missing_model("all-minilm-l6-v2");
  const BoundEncoder model = load_encoder(*folder, GetParam().make().value());
  EXPECT_TRUE(model.report.unused().empty());
  std::ifstream lines(kModels + "all-minilm-l6-v2.jsonl");
  int checked = 0;
  for (std::string line; std::getline(lines, line); ++checked) {
    const nlohmann::json golden = nlohmann::json::parse(line);
    const auto states = hidden_states(model, {golden["ids"].get<std::vector<int32_t>>()});
    EXPECT_GT(cosine(states, golden["mean"].get<std::vector<float>>()),
              GetParam().numerics == Numerics::kExact ? 0.999999 : 0.9999)
        << golden["text"];
  }
  EXPECT_GE(checked, 8);
}

INSTANTIATE_TEST_SUITE_P(Backends, RealEncoder, ::testing::ValuesIn(testing::backend_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace vernier
