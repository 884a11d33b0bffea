#include "checkpoint/checkpoint_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "models/decoder.h"
#include "models/registry.h"
#include "ops/ref_backend.h"
#include "tensor/scalar.h"
#include "tiny_model.h"

namespace vernier {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAreArray;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SafetensorsWriter;
using testing::TempFolder;
using testing::TinyModel;

std::vector<float> decode(const PackedMatrix& matrix) {
  const auto& stored = dynamic_cast<const RefMatrix&>(matrix);
  std::vector<float> out(static_cast<size_t>(matrix.rows() * matrix.cols()));
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    stored.decode_row(
        row, std::span(out).subspan(static_cast<size_t>(row * matrix.cols()), static_cast<size_t>(matrix.cols())));
  }
  return out;
}

const std::vector<float>& values(const PackedVector& vector) {
  return dynamic_cast<const RefVector&>(vector).values();
}

class CheckpointBinderTest : public ::testing::Test {
 protected:
  CheckpointBinder& open(const std::string& path) {
    auto opened = Checkpoint::open(path);
    EXPECT_TRUE(opened.ok()) << opened.error().to_string();
    checkpoint_ = std::move(opened).value();
    binder_ = std::make_unique<CheckpointBinder>(*checkpoint_, backend_,
                                                 [this](const BindProgress& now) { progress_.push_back(now); });
    return *binder_;
  }
  CheckpointBinder& open_folder(const std::string& more_config = "") {
    model_.write_folder(folder_, more_config);
    return open(folder_.path());
  }
  CheckpointBinder& open_gguf() { return open(folder_.write("m.gguf", model_.gguf())); }

  /// Binds the whole model as the registry reads it; the error of any step.
  std::string bind_all(CheckpointBinder& binder) {
    auto config = checkpoint_->config();
    if (!config.ok()) return config.error().to_string();
    auto spec = read_decoder(*config);
    if (!spec.ok()) return spec.error().to_string();
    auto decoder = Decoder::bind(*spec, binder);
    if (!decoder.ok()) return decoder.error().to_string();
    Status finished = binder.finish(spec->unneeded);
    return finished.ok() ? "no error" : finished.error().to_string();
  }
  /// Of a folder whose only matrix is `w`, [2, 32].
  std::string matrix_error(const std::string& type, const std::string& data) {
    folder_.write("config.json", TinyModel::config());
    folder_.write("model.safetensors", SafetensorsWriter().tensor("w.weight", {2, 32}, type, data).bytes());
    auto bound = open(folder_.path()).weight<Split::kNone>({{"w", 2, 0}}, 32);
    return bound.ok() ? "no error" : bound.error().to_string();
  }
  std::string gguf_matrix_error(uint32_t type, const std::string& data) {
    GgufWriter writer;
    writer.text("general.architecture", "llama").tensor("blk.0.attn_v.weight", {256, 2}, type, data);
    auto bound = open(folder_.write("m.gguf", writer.bytes()))
                     .weight<Split::kNone>({{"model.layers.0.self_attn.v_proj", 2, 0}}, 256);
    return bound.ok() ? "no error" : bound.error().to_string();
  }

  TempFolder folder_;
  TinyModel model_;
  RefBackend backend_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointBinder> binder_;
  std::vector<BindProgress> progress_;
};

std::vector<WeightPart> qkv(int64_t layer) {
  std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  return {{prefix + "q_proj", 8, 2}, {prefix + "k_proj", 4, 1}, {prefix + "v_proj", 4, 0}};
}

TEST_F(CheckpointBinderTest, PartsOfAFusedWeightStandOneBelowTheOther) {
  auto bound = open_folder().weight<Split::kColumns>(qkv(1), 8);
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  std::vector<float> expected;
  for (const char* part : {"q", "k", "v"}) {
    const auto& own = model_.tensors.at(fmt::format("model.layers.1.self_attn.{}_proj.weight", part)).values;
    expected.insert(expected.end(), own.begin(), own.end());
  }
  EXPECT_EQ(decode(*bound->matrix), expected);
  EXPECT_EQ(bound->name,
            "model.layers.1.self_attn.q_proj+model.layers.1.self_attn.k_proj+model.layers.1.self_attn.v_proj");
}

// CKPT-9
TEST_F(CheckpointBinderTest, RotaryRowsOfGgufAreUndone) {
  auto from_folder = open_folder().weight<Split::kColumns>(qkv(0), 8);
  ASSERT_TRUE(from_folder.ok());
  std::vector<float> expected = decode(*from_folder->matrix);
  auto from_gguf = open_gguf().weight<Split::kColumns>(qkv(0), 8);
  ASSERT_TRUE(from_gguf.ok()) << from_gguf.error().to_string();
  EXPECT_EQ(decode(*from_gguf->matrix), expected);
}

TEST_F(CheckpointBinderTest, RotaryRowsStayWhereTheDialectLeavesThem) {
  GgufWriter writer;
  std::vector<float> rows(8 * 8);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i) * 0.3f;
  writer.text("general.architecture", "qwen2").f32_tensor("blk.0.attn_q.weight", {8, 8}, rows);
  auto bound = open(folder_.write("q.gguf", writer.bytes()))
                   .weight<Split::kColumns>({{"model.layers.0.self_attn.q_proj", 8, 2}}, 8);
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  EXPECT_EQ(decode(*bound->matrix), rows);
}

TEST_F(CheckpointBinderTest, BiasesFollowTheRowsOfTheirMatrix) {
  model_.add("model.layers.0.self_attn.q_proj.bias", {8});
  model_.add("model.layers.0.self_attn.k_proj.bias", {4});
  model_.add("model.layers.0.self_attn.v_proj.bias", {4});
  auto from_folder = open_folder().weight<Split::kColumns>(qkv(0), 8, BiasRule::kRequired);
  ASSERT_TRUE(from_folder.ok()) << from_folder.error().to_string();
  auto from_gguf = open_gguf().weight<Split::kColumns>(qkv(0), 8, BiasRule::kRequired);
  ASSERT_TRUE(from_gguf.ok()) << from_gguf.error().to_string();
  EXPECT_EQ(values(*from_folder->bias).size(), 16u);
  EXPECT_EQ(values(*from_folder->bias)[0], model_.tensors.at("model.layers.0.self_attn.q_proj.bias").values[0]);
  EXPECT_EQ(values(*from_gguf->bias), values(*from_folder->bias));
}

// CKPT-9
TEST_F(CheckpointBinderTest, OneIsAddedToNormsUnlessTheDialectDidSo) {
  folder_.write("config.json", TinyModel::config());
  folder_.write("model.safetensors", SafetensorsWriter().f32("model.norm.weight", {2}, {0.3f, -0.6f}).bytes());
  auto plain = open(folder_.path()).norm("model.norm", 2, 1e-6f, NormRule::kPlain);
  EXPECT_EQ(values(*plain->weight), (std::vector{0.3f, -0.6f}));
  auto folded = open(folder_.path()).norm("model.norm", 2, 1e-6f, NormRule::kOnePlus);
  EXPECT_EQ(values(*folded->weight), (std::vector{1 + 0.3f, 1 - 0.6f}));
  GgufWriter writer;
  writer.text("general.architecture", "gemma3").f32_tensor("output_norm.weight", {2}, {1.3f, 0.4f});
  auto stored = open(folder_.write("g.gguf", writer.bytes())).norm("model.norm", 2, 1e-6f, NormRule::kOnePlus);
  EXPECT_EQ(values(*stored->weight), (std::vector{1.3f, 0.4f}));
}

TEST_F(CheckpointBinderTest, ShapesAreCheckedAgainstWhatTheModelAsks) {
  CheckpointBinder& binder = open_folder();
  EXPECT_THAT(binder.weight<Split::kNone>({{"lm_head", 7, 0}}, 8).error().to_string(),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("[6, 8]"), HasSubstr("[7, 8]")));
  EXPECT_THAT(binder.norm("model.norm", 9, 1e-6f, NormRule::kPlain).error().to_string(),
              AllOf(HasSubstr("model.norm.weight"), HasSubstr("[9]")));
  // The same count of numbers in another shape is another matrix.
  EXPECT_FALSE(binder.weight<Split::kNone>({{"model.layers.0.mlp.down_proj", 12, 0}}, 8).ok());
  EXPECT_THAT(binder.weight<Split::kNone>({{"model.layers.7.mlp.down_proj", 8, 0}}, 12).error().to_string(),
              AllOf(HasSubstr("model.layers.7.mlp.down_proj.weight"), HasSubstr("missing")));
}

TEST_F(CheckpointBinderTest, DenseTypesHoldTheSameNumbers) {
  // 1.5 and -0.25 in each type, little-endian.
  std::vector<std::pair<std::string, std::string>> types = {{"F32", std::string("\0\0\xc0\x3f\0\0\x80\xbe", 8)},
                                                            {"F16", std::string("\0\x3e\0\xb4", 4)},
                                                            {"BF16", std::string("\xc0\x3f\x80\xbe", 4)}};
  for (const auto& [type, data] : types) {
    folder_.write("config.json", TinyModel::config());
    folder_.write(
        "model.safetensors",
        SafetensorsWriter().tensor("w.weight", {1, 2}, type, data).tensor("n.weight", {2}, type, data).bytes());
    CheckpointBinder& binder = open(folder_.path());
    auto matrix = binder.weight<Split::kNone>({{"w", 1, 0}}, 2);
    ASSERT_TRUE(matrix.ok()) << matrix.error().to_string();
    EXPECT_EQ(decode(*matrix->matrix), (std::vector{1.5f, -0.25f})) << type;
    EXPECT_EQ(values(*binder.norm("n", 2, 0, NormRule::kPlain)->weight), (std::vector{1.5f, -0.25f})) << type;
  }
}

// CKPT-13
TEST_F(CheckpointBinderTest, NumbersThatAreNoneAreRefusedWithTheirPlace) {
  const std::string infinite("\x80\x7f", 2), one("\x80\x3f", 2);
  EXPECT_THAT(matrix_error("BF16", std::string(33 * 2, '\0') + infinite + std::string(30 * 2, '\0')),
              AllOf(HasSubstr("w.weight"), HasSubstr("[1, 1]")));
  folder_.write("model.safetensors", SafetensorsWriter().tensor("n.weight", {2}, "BF16", one + infinite).bytes());
  EXPECT_THAT(open(folder_.path()).norm("n", 2, 0, NormRule::kPlain).error().to_string(),
              AllOf(HasSubstr("n.weight"), HasSubstr("number 1 is inf")));
}

TEST_F(CheckpointBinderTest, TypesThatCannotBeComputedWithAreRefusedByName) {
  EXPECT_THAT(matrix_error("F8_E4M3", std::string(64, 'x')),
              AllOf(HasSubstr("w.weight"), HasSubstr("F8_E4M3"), HasSubstr("scale")));
  EXPECT_THAT(matrix_error("F4", std::string(32, 'x')), HasSubstr("scale"));
  EXPECT_THAT(matrix_error("I32", std::string(256, 'x')), AllOf(HasSubstr("w.weight"), HasSubstr("I32")));
  EXPECT_THAT(matrix_error("F64", std::string(512, 'x')), HasSubstr("F64"));
  EXPECT_THAT(gguf_matrix_error(20, std::string(18 * 16, 'x')),
              AllOf(HasSubstr("blk.0.attn_v.weight"), HasSubstr("IQ4_NL")));
  EXPECT_THAT(gguf_matrix_error(34, std::string(54 * 2, 'x')), HasSubstr("TQ1_0"));
  EXPECT_THAT(gguf_matrix_error(40, std::string(36 * 8, '\x7f')), HasSubstr("NaN"));
}

TEST_F(CheckpointBinderTest, EveryGgufTypeThatIsListedBinds) {
  for (uint32_t id = 0; id < 64; ++id) {
    const GgmlType* type = ggml_type(id);
    if (type == nullptr || !type->codec) continue;
    std::string zeros(size_t{512} / type->block_elements * type->block_bytes, '\0');
    EXPECT_EQ(gguf_matrix_error(id, zeros), "no error") << type->name;
  }
}

// In each group of 16 a byte holds two codes that are eight apart; a global scale stands beside the blocks.
TEST_F(CheckpointBinderTest, Nvfp4OfGguf) {
  std::string blocks;
  for (int i = 0; i < 36 * 2; ++i) blocks += static_cast<char>(i % 36 < 4 ? 0x31 + i : i * 37 + 11);
  GgufWriter writer;
  writer.text("general.architecture", "qwen2").tensor("blk.0.attn_v.weight", {64, 2}, 40, blocks);
  writer.f32_tensor("blk.0.attn_v.scale", {1}, {0.3f});
  CheckpointBinder& binder = open(folder_.write("n.gguf", writer.bytes()));
  auto bound = binder.weight<Split::kNone>({{"model.layers.0.self_attn.v_proj", 2, 0}}, 64);
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  std::vector<float> expected;
  for (int i = 0; i < 128; ++i) {
    const size_t block = static_cast<size_t>(i / 64) * 36, group = static_cast<size_t>(i % 64 / 16);
    const auto pair = static_cast<uint8_t>(blocks[block + 4 + group * 8 + static_cast<size_t>(i % 8)]);
    const auto code = static_cast<uint8_t>(i % 16 < 8 ? pair & 15 : pair >> 4);
    expected.push_back(e2m1_to_f32(code) * e4m3_to_f32(static_cast<uint8_t>(blocks[block + group])) * 0.3f);
  }
  EXPECT_EQ(decode(*bound->matrix), expected);
  EXPECT_TRUE(binder.finish().ok());
}

// F13
TEST_F(CheckpointBinderTest, AHeadThatRepeatsTheEmbeddingIsNotPackedTwice) {
  model_.tensors["lm_head.weight"] = model_.tensors["model.embed_tokens.weight"];
  CheckpointBinder& binder = open_folder(R"(,"tie_word_embeddings":true)");
  EXPECT_FALSE(binder.has("lm_head"));
  EXPECT_EQ(bind_all(binder), "no error");
  const auto& tensors = binder.report().tensors;
  auto head = std::find_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "lm_head.weight"; });
  EXPECT_EQ(head->use, TensorUse::kTiedCopy);
  EXPECT_THAT(binder.report().warnings, Not(Contains(HasSubstr("lm_head"))));
}

// F13
TEST_F(CheckpointBinderTest, AHeadThatDiffersFromATiedEmbeddingIsSaid) {
  CheckpointBinder& binder = open_folder(R"(,"tie_word_embeddings":true)");
  EXPECT_TRUE(binder.has("lm_head"));
  EXPECT_EQ(bind_all(binder), "no error");
  EXPECT_THAT(binder.report().warnings, Contains(HasSubstr("lm_head.weight is the head")));
}

// F14
TEST_F(CheckpointBinderTest, AnUntiedModelWithoutAHeadIsRefused) {
  model_.tensors.erase("lm_head.weight");
  EXPECT_THAT(bind_all(open_folder(R"(,"tie_word_embeddings":false)")), HasSubstr("lm_head.weight is missing"));
  EXPECT_EQ(bind_all(open_folder(R"(,"tie_word_embeddings":true)")), "no error");
}

// CKPT-6
TEST_F(CheckpointBinderTest, ATensorThatLooksLikeAScaleMustHaveAHome) {
  for (const char* name :
       {"self_attn.q_proj.weight_scale", "self_attn.q_proj.weight_scale_inv", "self_attn.q_proj.weight_scale_2",
        "self_attn.q_proj.input_scale", "mlp.experts.gate_up_proj_scales", "mlp.gate_proj.scales",
        "mlp.gate_proj.weight_global_scale", "mlp.gate_proj.input_global_scale", "mlp.gate_proj.weight_zero_point",
        "mlp.gate_proj.qzeros", "mlp.gate_proj.g_idx", "mlp.gate_proj.weight.absmax",
        "mlp.gate_proj.weight.quant_state.bitsandbytes__nf4", "self_attn.kv_cache_scaling_factor", "self_attn.kk_scale",
        "mlp.gate_proj.input_quantizer._amax", "mlp.down_proj.SCALE"}) {
    TinyModel model;
    model.add(std::string("model.layers.0.") + name, {1});
    model.write_folder(folder_);
    EXPECT_THAT(bind_all(open(folder_.path())), AllOf(HasSubstr(name), HasSubstr("look like scales"))) << name;
  }
}

// CKPT-6
TEST_F(CheckpointBinderTest, ABiasWithoutAHomeIsAnError) {
  model_.add("model.layers.1.mlp.down_proj.bias", {8});
  EXPECT_THAT(bind_all(open_folder()), AllOf(HasSubstr("model.layers.1.mlp.down_proj.bias"), HasSubstr("biases")));
}

// CKPT-6: a configuration of fewer layers, or of another family, answered fluently and wrongly without a word.
TEST_F(CheckpointBinderTest, NoPartOfALayerIsDroppedInSilence) {
  for (const char* name : {"model.layers.7.mlp.down_proj.weight", "model.layers.0.self_attn.q_norm.weight",
                           "model.layers.0.self_attn.sinks", "model.layers.1.mlp.experts.0.gate_proj.weight",
                           "model.layers.0.self_attn.q_proj.lora_A.weight"}) {
    TinyModel model;
    model.add(name, {2});
    model.write_folder(folder_);
    EXPECT_THAT(bind_all(open(folder_.path())), AllOf(HasSubstr(name), HasSubstr("stand in layers"))) << name;
  }
}

// CKPT-6
TEST_F(CheckpointBinderTest, OtherUnusedTensorsAreListed) {
  model_.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  model_.add("model.mask", {2});
  model_.add("vision_tower.encoder.layer_scale", {2});
  CheckpointBinder& binder = open_folder();
  EXPECT_EQ(bind_all(binder), "no error");
  ASSERT_EQ(binder.report().unused().size(), 2u);
  EXPECT_EQ(binder.report().unused()[0]->name, "model.mask");
  EXPECT_THAT(binder.report().warnings, Contains(HasSubstr("1 tensors are not used")));
  EXPECT_THAT(binder.report().warnings, Contains(HasSubstr("picture or sound")));
}

TEST_F(CheckpointBinderTest, ProgressEndsAtTheWholeFile) {
  EXPECT_EQ(bind_all(open_gguf()), "no error");
  ASSERT_FALSE(progress_.empty());
  for (size_t i = 1; i < progress_.size(); ++i) EXPECT_GT(progress_[i].done_bytes, progress_[i - 1].done_bytes);
  EXPECT_EQ(progress_.back().done_bytes, progress_.back().total_bytes);
  EXPECT_EQ(progress_.back().total_bytes, binder_->report().stored_bytes());
}

TEST_F(CheckpointBinderTest, BothFormatsBindTheWholeModelAlike) {
  EXPECT_EQ(bind_all(open_folder()), "no error");
  size_t weights = binder_->report().weights.size();
  EXPECT_TRUE(binder_->report().unused().empty());
  EXPECT_EQ(bind_all(open_gguf()), "no error");
  EXPECT_EQ(binder_->report().weights.size(), weights);
  EXPECT_TRUE(binder_->report().unused().empty());
}

// F28
TEST_F(CheckpointBinderTest, RopeFactorsReachTheModel) {
  GgufWriter writer;
  TinyModel::add_metadata(writer);
  model_.add_tensors(writer);
  writer.f32_tensor("rope_freqs.weight", {2}, {2, 2});
  CheckpointBinder& binder = open(folder_.write("f.gguf", writer.bytes()));
  EXPECT_EQ(bind_all(binder), "no error");
  auto config = checkpoint_->config();
  auto scaled = read_decoder(*config);
  open_gguf();
  config = checkpoint_->config();
  auto plain = read_decoder(*config);
  ASSERT_TRUE(scaled.ok() && plain.ok());
  std::vector<float> halved = plain->layers[0].attn.rope.frequencies();
  for (float& frequency : halved) frequency /= 2;
  EXPECT_EQ(scaled->layers[0].attn.rope.frequencies(), halved);
}

/// Bytes of a file that are resident in this process, of all its mappings.
size_t resident_bytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  size_t kilobytes = 0;
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) of_file = line.ends_with(path);
    if (of_file && line.starts_with("Rss:")) kilobytes += std::stoul(line.substr(4));
  }
  return kilobytes << 10;
}

// CKPT-10: pages that a backend has packed are given back, so weights are not resident twice.
TEST_F(CheckpointBinderTest, PackedPagesAreGivenBack) {
  constexpr size_t kRows = 4096, kBytes = 256 * kRows * sizeof(float);
  GgufWriter writer;
  TinyModel::add_metadata(writer);
  writer.f32_tensor("blk.0.attn_v.weight", {256, kRows}, std::vector<float>(256 * kRows, 0.3f));
  const std::string path = folder_.write("large.gguf", writer.bytes());
  CheckpointBinder& binder = open(path);
  size_t sum = 0;
  for (std::byte byte : checkpoint_->tensors()[0].bytes) sum += static_cast<size_t>(byte);
  EXPECT_GT(sum, 0u);
  if (resident_bytes(path) < kBytes) GTEST_SKIP() << "this system does not say in /proc/self/smaps what is resident";
  auto bound = binder.weight<Split::kNone>({{"model.layers.0.self_attn.v_proj", kRows, 0}}, 256);
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  EXPECT_LT(resident_bytes(path), kBytes / 4);
}

TEST_F(CheckpointBinderTest, TheReportSaysWhatBecameOfEachTensor) {
  GgufWriter writer;
  writer.text("general.architecture", "llama").tensor("blk.0.attn_v.weight", {32, 4}, 3, std::string(80, '\0'));
  writer.f32_tensor("output_norm.weight", {2}, {1, 2}).f32_tensor("extra", {1}, {3});
  CheckpointBinder& binder = open(folder_.write("r.gguf", writer.bytes()));
  ASSERT_TRUE(binder.weight<Split::kNone>({{"model.layers.0.self_attn.v_proj", 4, 0}}, 32).ok());
  ASSERT_TRUE(binder.norm("model.norm", 2, 1e-6f, NormRule::kPlain).ok());
  ASSERT_TRUE(binder.finish().ok());
  std::string text = binder.report().to_string();
  EXPECT_THAT(text, HasSubstr("GGUF v3: 3 tensors, 92 bytes\n"
                              "blk.0.attn_v.weight Q4_1 [4, 32] 80 bytes, scales in its blocks, matrix "
                              "model.layers.0.self_attn.v_proj\n"
                              "output_norm.weight F32 [2] 8 bytes, scales none, vector model.norm\n"
                              "extra F32 [1] 4 bytes, scales none, unused\n"
                              "1 weights, "));
  nlohmann::json json = binder.report().to_json();
  EXPECT_EQ(json["tensors"][0]["use"], "matrix");
  EXPECT_EQ(json["weights"][0]["name"], "model.layers.0.self_attn.v_proj");
  EXPECT_EQ(json["stored_bytes"], 92);
}

TEST(DeinterleavedRows, IsAPermutationOfEachHead) {
  EXPECT_THAT(deinterleaved_rows(12, 2), ElementsAreArray({0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
}

}  // namespace
}  // namespace vernier
