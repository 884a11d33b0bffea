#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hf_folder.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

const char* const kModules =
    R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}])";

EmbeddingDefaults with_pooling(const std::string& config, const std::string& modules = kModules) {
  testing::TempFolder folder;
  folder.write("modules.json", modules);
  folder.write("1_Pooling/config.json", config);
  return embedding_defaults(folder.path());
}

std::string refusal_of(const EmbeddingDefaults& defaults) {
  return defaults.refusal ? defaults.refusal->to_string() : "no refusal";
}

TEST(SentenceModules, NothingSaidIsNothingKnown) {
  testing::TempFolder folder;
  const EmbeddingDefaults defaults = embedding_defaults(folder.path());
  EXPECT_FALSE(defaults.pooling || defaults.max_tokens || defaults.refusal);
}

TEST(SentenceModules, PoolingAndLimitAreTheMakers) {
  EXPECT_EQ(with_pooling(R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})").pooling,
            Pooling::kMean);
  EXPECT_EQ(with_pooling(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})").pooling,
            Pooling::kFirst);
  EXPECT_EQ(with_pooling(R"({"pooling_mode_lasttoken": true, "include_prompt": true})").pooling, Pooling::kLast);
  EXPECT_EQ(with_pooling(R"({"pooling_mode": "mean"})").pooling, Pooling::kMean);
  testing::TempFolder folder;
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  EXPECT_EQ(embedding_defaults(folder.path()).max_tokens, 256);
}

// A vector that is made another way than the makers mean is worth nothing, and looks like any other.
TEST(SentenceModules, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(refusal_of(with_pooling(R"({"pooling_mode_max_tokens": true})")),
              HasSubstr("pooling by max is not built"));
  EXPECT_THAT(refusal_of(with_pooling(R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})")),
              HasSubstr("2 ways"));
  EXPECT_THAT(refusal_of(with_pooling(R"({"pooling_mode_median": true})")), HasSubstr("pooling_mode_median"));
  EXPECT_THAT(refusal_of(with_pooling("{}")), HasSubstr("0 ways"));
  EXPECT_THAT(refusal_of(with_pooling("[]")), HasSubstr("object"));
  EXPECT_THAT(refusal_of(with_pooling("{}", R"([{"type": "sentence_transformers.models.Dense", "path": "2"}])")),
              HasSubstr("Dense"));
  EXPECT_THAT(refusal_of(with_pooling("{}", R"([{"type": "x.Pooling", "path": "../elsewhere"}])")),
              HasSubstr("no plain folder name"));
  EXPECT_THAT(refusal_of(with_pooling("{}", R"({"type": 1})")), HasSubstr("list"));
  testing::TempFolder folder;
  folder.write("sentence_bert_config.json", R"({"max_seq_length": "long"})");
  EXPECT_THAT(refusal_of(embedding_defaults(folder.path())), HasSubstr("max_seq_length"));
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 8, "do_lower_case": true})");
  EXPECT_THAT(refusal_of(embedding_defaults(folder.path())), HasSubstr("do_lower_case"));
}

}  // namespace
}  // namespace vernier
