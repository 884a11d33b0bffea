#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "api/load_tokenizer.h"
#include "audit/lint.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

LintReport search(const fs::path& path) {
  return lint(path.string(), {[](const TokenizerSource& source) { return load_tokenizer(source); }});
}

struct Defect {
  const char* name;     ///< below tests/data/broken
  const char* check;    ///< the one kind of finding
  const char* message;  ///< what its place, tensor and message hold
};

const Defect kDefects[] = {
    {"weights-truncated", "file", "is the download complete"},
    {"weights-header-too-long", "file", "the header length 1099511627776"},
    {"weights-header-no-json", "file", "the header is wrong"},
    {"weights-duplicate-tensor", "file", "stands twice"},
    {"weights-overlap", "file", "overlap"},
    {"weights-hole", "file", "belong to no tensor"},
    {"weights-unknown-dtype", "file", "unknown dtype \"F7\""},
    {"weights-shape-against-bytes", "file", "takes 496 bits, but its offsets span 64 bytes"},
    {"weights-absent", "shards", "no model.safetensors"},
    {"config-truncated", "file", "config.json"},
    {"config-key-twice", "file", "key vocab_size stands twice"},
    {"shard-absent", "shards", "model-00002-of-00002.safetensors; incomplete download"},
    {"index-names-absent-tensor", "shards", "model.layers.0.mlp.extra.weight"},
    {"index-names-wrong-shard", "shards", "but it is in model-00001-of-00002.safetensors"},
    {"stray-weight-file", "stray-file", "model.safetensors"},
    {"config-key-unknown", "config", "'logit_temperature' = 2.0"},
    {"config-model-type-unknown", "config", "model type 'lama' is unknown"},
    {"config-layer-types-length", "config", "'layer_types' has 3 entries, expected one for each of 1 layers"},
    {"config-rope-spellings-disagree", "config", "remove the wrong one"},
    {"config-rope-type-unknown", "config", "rope type 'bent' is unknown"},
    {"config-context-beyond-yarn", "rope-context", "max_position_embeddings is 64"},
    {"config-kv-heads-no-divisor", "config", "'num_key_value_heads' is 2"},
    {"config-vocabulary-against-embedding", "weight", "model.embed_tokens.weight: has shape [8, 32]"},
    {"tensor-missing", "tensor-missing", "model.layers.0.mlp.up_proj.weight: is missing"},
    {"config-fewer-layers-than-tensors", "layer-tensor-unused", "model.layers.1."},
    {"config-eos-out-of-range", "special-id", "eos_token_id is 8, and the vocabulary has 8 tokens"},
    {"tied-head-differs", "tied-head", "lm_head.weight differs from the embedding table"},
    {"untied-head-missing", "tensor-missing", "lm_head.weight: is missing"},
    {"experts-fewer-than-config", "tensor-missing", "model.layers.0.mlp.experts.2."},
    {"quantisation-method-unknown", "quantisation", "quant_method quark"},
    {"quantisation-algorithm-unknown", "quantisation", "\"quant_algo\" is FP7"},
    {"quantisation-key-unknown", "quantisation", "'weight_roundings'"},
    {"quantisation-sources-disagree", "quantisation", "disagree about"},
    {"exclusion-matches-nothing", "exclusion", "model.layers.7.mlp, and no module is called so"},
    {"exclusion-splits-fused-weight", "quantisation", "are parts of one weight"},
    {"exclusion-lists-differ", "quantisation", "list different modules"},
    {"layer-not-quantised-as-described", "weight", "holds BF16 numbers, but model.layers.0.mlp.down_proj is to be fp8"},
    {"fp8-without-description", "weight", "nothing says which scale they have"},
    {"block-size-zero", "quantisation", "\"weight_block_size\" is [16,0]"},
    {"scale-missing", "weight", "its scale is missing"},
    {"scale-twice", "weight", "expected one scale"},
    {"scale-shape", "weight", "has shape [3, 2], expected [2, 2] scales"},
    {"scale-zero", "weight", "is 0, expected a finite number above 0"},
    {"scale-negative", "weight", "is negative, expected a finite number above 0"},
    {"scale-nan", "weight", "is NaN, expected a finite number above 0"},
    {"scale-infinite", "weight", "is infinite, expected a finite number above 0"},
    {"scale-e8m0-nan", "weight", "scale [5, 0] of mxfp8 is NaN"},
    {"scale-e4m3-nan", "weight", "of nvfp4 is NaN"},
    {"scale-unused", "scale-unused", "model.layers.0.self_attn.kk_scale"},
    {"scale-no-power-of-two", "weight", "expected a power of two"},
    {"scale-upside-down", "magnitude", "with the reciprocal of the scale it would be 0.314"},
    {"nvfp4-global-scale-upside-down", "magnitude", "weight_scale_2: its largest weight is"},
    {"nvfp4-global-scale-multiplies", "magnitude", "weight_global_scale: its largest weight is 1.47e+07"},
    {"nvfp4-global-scale-missing", "weight", "its global scale is missing"},
    {"input-scale-upside-down", "input-scale", "scales activations by 1300"},
    {"input-scale-missing", "weight", "the static scale of its activations is missing"},
    {"fp8-nan-codes", "fp8-codes", "2 of 1024 codes are NaN (0x7F, 0xFF)"},
    {"fp8-fnuz-codes-called-fn", "fp8-codes", "these look like F8_E4M3FNUZ codes"},
    {"fp8-fn-codes-called-fnuz", "fp8-codes", "these look like codes of the type without FNUZ"},
    {"weights-all-zero", "all-zero", "all 1024 numbers are 0"},
    {"norm-with-nan", "numbers", "model.norm.weight: 1 of 32 numbers are NaN or infinite"},
    {"weight-infinite", "numbers", "the first at row 1, column 18"},
    {"bias-unused", "bias-unused", "model.layers.0.mlp.down_proj.bias"},
    {"cache-scales-one", "cache-scale-one", "all 4 scales of the KV cache are 1"},
    {"cache-scales-absent", "cache-scale-missing", "keys of all layers have no scale"},
    {"cache-scale-of-one-layer-missing", "cache-scale-missing", "values of layers 1 have no scale"},
    {"cache-scale-never-set", "cache-scale", "-1 marks a scale that was never set"},
    {"cache-scales-swapped", "cache-scale-swapped", "in each of 2 layers"},
    {"cache-scales-disagree", "cache-scale", "scales k of layer 1 otherwise than"},
    {"cache-scale-of-other-heads", "cache-scale", "holds 3 scales, expected one or one for each of 1 KV heads"},
    {"tokenizer-larger-than-embedding", "vocabulary", "the tokenizer has 10 tokens, and the embedding 8 rows"},
    {"tokenizer-truncated", "tokenizer", "tokenizer.json"},
    {"eos-token-unknown", "special-token", "eos_token is <|end|>"},
    {"added-token-of-other-id", "special-token", "token 3 is said to be </s>, and tokenizer.json has d there"},
    {"chat-template-broken", "chat-template", "chat_template.jinja"},
    {"chat-template-without-messages", "chat-template", "reads no messages"},
    {"gguf-truncated.gguf", "file", "is the download complete"},
    {"gguf-magic.gguf", "file", "does not begin with \"GGUF\""},
    {"gguf-version.gguf", "file", "GGUF version 1"},
    {"gguf-offset-misaligned.gguf", "file", "is no multiple of the alignment 32"},
    {"gguf-tensors-overlap.gguf", "file", "overlap"},
    {"gguf-alignment-type.gguf", "file", "general.alignment must be a u32, found string"},
    {"gguf-metadata-type.gguf", "config", "llama.block_count must be an integer, found string"},
    {"gguf-key-unknown.gguf", "config", "llama.attention.tilt"},
    {"gguf-block-scale-nan.gguf", "scale-value", "the scale of block [1, 0] of q8_0 is no finite number"},
    {"gguf-vocabulary-larger-than-embedding.gguf", "config", "tokenizer.ggml.tokens has 12 entries"},
    {"gguf-part-absent-00001-of-00002.gguf", "shards", "00002-of-00002"},
    {"gguf-trailing-bytes.gguf", "trailing-bytes", "64 bytes after the last tensor"},
    {"codes-alone.safetensors", "scale-missing", "a.weight: holds F8_E4M3 codes, and no scale stands beside it"},
};

class LintTest : public ::testing::TestWithParam<Defect> {};

// AUDIT-1: one defect, one kind of finding, with its place, what was found and what to do.
TEST_P(LintTest, FindsItsDefectAndNothingElse) {
  const Defect& defect = GetParam();
  const LintReport report = search(fs::path(VERNIER_TEST_DATA) / "broken" / defect.name);
  ASSERT_FALSE(report.findings.empty());
  for (const LintFinding& finding : report.findings) EXPECT_EQ(finding.check.id, defect.check) << report.to_string();
  const LintFinding& first = report.findings.front();
  EXPECT_THAT(first.file + ": " + first.tensor + ": " + first.message, HasSubstr(defect.message));
  EXPECT_FALSE(first.file.empty()) << report.to_string();
  EXPECT_FALSE(first.check.advice.empty());
}

INSTANTIATE_TEST_SUITE_P(Broken, LintTest, ::testing::ValuesIn(kDefects), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Lint, EveryBrokenCheckpointIsExpectedHere) {
  std::set<std::string> expected, found;
  for (const Defect& defect : kDefects) expected.insert(defect.name);
  expected.insert("cache-scale-of-other-projection");
  for (const auto& entry : fs::directory_iterator(fs::path(VERNIER_TEST_DATA) / "broken")) {
    found.insert(entry.path().filename().string());
  }
  EXPECT_EQ(found, expected);
  EXPECT_GE(found.size(), 30u);
}

// Both sides of a scale under another name: nobody takes it, and its layer is without.
TEST(Lint, GoesOnAfterTheFirstFinding) {
  const LintReport report = search(fs::path(VERNIER_TEST_DATA) / "broken" / "cache-scale-of-other-projection");
  ASSERT_EQ(report.findings.size(), 2u) << report.to_string();
  EXPECT_EQ(report.findings[0].check.id, "scale-unused");
  EXPECT_EQ(report.findings[0].tensor, "model.layers.1.self_attn.k_proj.v_scale");
  EXPECT_EQ(report.findings[1].check.id, "cache-scale-missing");
  EXPECT_EQ(report.count(LintLevel::kError), 1);
  EXPECT_EQ(report.to_json()["findings"][1]["level"], "warning");
}

TEST(Lint, WhatIsNotThereIsAFinding) {
  const LintReport report = search("no/such/model");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].message, HasSubstr("no such file"));
}

// A side-car for --kv-scales that `run` would refuse passed, alone and beside its model.
TEST(Lint, AScaleFileIsCheckedAloneAndAgainstItsModel) {
  const fs::path folder = fs::path(::testing::TempDir()) / "scale-file-beside-model";
  fs::remove_all(folder);
  fs::copy(fs::path(VERNIER_TEST_DATA) / "models" / "llama", folder);
  const fs::path file = folder / "kv-scales.json";
  const auto findings = [&](const std::string& layers, const fs::path& searched) {
    std::ofstream(file) << R"({"model_type": "llama", "kv_cache": {"dtype": "float8_e4m3fn", "scaling_factor": {"0": {)"
                        << layers << "}}}}";
    std::string found;
    for (const LintFinding& finding : search(searched).findings) {
      if (finding.check.level == LintLevel::kError) found += fmt::format("{}: {}", finding.check.id, finding.message);
    }
    return found;
  };
  std::string whole = R"("0": 0.3)";
  int layers = 1;
  while (findings(whole, folder).find("no scale for layer") != std::string::npos && layers < 20) {
    whole += fmt::format(R"(, "{}": {{"k": 0.6, "v": 1.7}})", layers++);
  }
  EXPECT_EQ(findings(whole, folder), "");
  EXPECT_THAT(findings(whole + R"(, "77": 1)", folder), HasSubstr("cache-scale: --kv-scales"));
  for (const fs::path& searched : {folder, file}) {
    EXPECT_EQ(findings(whole, searched), "");
    EXPECT_THAT(findings(R"("0": 0)", searched), HasSubstr("cache-scale: the scale of layer 0 is 0"));
    EXPECT_THAT(findings(R"("0": {"k": 1})", searched), HasSubstr("cache-scale: the scale of layer 0 is"));
  }
  fs::remove_all(folder);
}

// AUDIT-2: whatever the dialect, a checkpoint that is right gives neither error nor warning.
TEST(Lint, GoodCheckpointsGiveNoErrorAndNoWarning) {
  for (const auto& entry : fs::directory_iterator(fs::path(VERNIER_TEST_DATA) / "models")) {
    if (!entry.is_directory()) continue;
    const LintReport report = search(entry.path());
    EXPECT_EQ(report.count(LintLevel::kError) + report.count(LintLevel::kWarning), 0) << report.to_string();
  }
}

}  // namespace
}  // namespace vernier
