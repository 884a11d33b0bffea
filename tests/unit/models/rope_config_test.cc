#include <gmock/gmock.h>

#include "unit/models/family_configs.h"

namespace vernier {
namespace {

using nlohmann::json;
using testing::error_of;
using ::testing::HasSubstr;
using testing::llama_config;
using testing::read;

json with(json fields) {
  json config = llama_config();
  config.update(fields);
  return config;
}

const json kLlama3 = {
    {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 16}};

json llama3(const char* type_key) {
  json settings = kLlama3;
  settings[type_key] = "llama3";
  return settings;
}

// F19: one rope in each of its spellings gives the same frequencies.
TEST(RopeConfig, SpellingsAgree) {
  json newest = llama3("rope_type");
  newest["rope_theta"] = 500000.0;
  auto expected = read(with({{"rope_parameters", newest}}));
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  std::vector<float> frequencies = expected->layers[0].attn.rope.frequencies();
  ASSERT_EQ(frequencies.size(), 8u);
  const json others[] = {{{"rope_theta", 500000.0}, {"rope_scaling", llama3("rope_type")}},
                         {{"rope_theta", 500000.0}, {"rope_scaling", llama3("type")}},
                         {{"rope_theta", 500000.0}, {"rope_parameters", llama3("rope_type")}},
                         {{"rope_theta", 500000}, {"rope_scaling", llama3("type")}, {"rope_parameters", newest}},
                         {{"rope_scaling", newest}}};
  for (const json& other : others) {
    auto spec = read(with(other));
    ASSERT_TRUE(spec.ok()) << other << ": " << spec.error().to_string();
    EXPECT_EQ(spec->layers[0].attn.rope.frequencies(), frequencies) << other;
  }
}

TEST(RopeConfig, DefaultsAndNullsArePlain) {
  auto expected = read(llama_config());
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const json others[] = {{{"rope_scaling", nullptr}},
                         {{"rope_scaling", {{"rope_type", "default"}, {"type", "default"}}}},
                         {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}},
                         {{"rope_scaling", {{"type", "default"}, {"mrope_section", {2, 3, 3}}}}},
                         {{"rope_theta", 10000}, {"rope_parameters", nullptr}}};
  for (const json& other : others) {
    auto spec = read(with(other));
    ASSERT_TRUE(spec.ok()) << other << ": " << spec.error().to_string();
    EXPECT_EQ(spec->layers[0].attn.rope.frequencies(), expected->layers[0].attn.rope.frequencies()) << other;
  }
}

// MODELS-3: two spellings that disagree are an error, never a choice.
TEST(RopeConfig, ConflictsAreErrors) {
  const json cases[] = {
      {{"rope_theta", 10000.0}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500000.0}}}},
      {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
       {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 10000.0}}}},
      {{"rope_scaling", {{"rope_type", "linear"}, {"type", "llama3"}, {"factor", 2.0}}}}};
  for (const json& fields : cases) EXPECT_THAT(error_of(with(fields)), HasSubstr("remove the wrong one")) << fields;
}

TEST(RopeConfig, OtherTypesAreRefusedByName) {
  EXPECT_THAT(error_of(with({{"rope_scaling", {{"rope_type", "foo"}, {"factor", 2.0}}}})),
              HasSubstr("rope type 'foo' is unknown"));
  EXPECT_THAT(error_of(with({{"rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}}})),
              HasSubstr("rope type 'longrope' is recognised and not built yet"));
}

TEST(RopeConfig, SettingsAreReadStrictly) {
  const std::pair<json, const char*> cases[] = {
      {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"mscale", 0.7}}}}, "'mscale' = 0.7"},
      {{{"rope_scaling", {{"rope_type", "linear"}}}}, "'factor' is missing"},
      {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}}, "'factor' is 0"},
      {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 1e-300}}}}, "expected a positive number"},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "'low_freq_factor' is missing"},
      {{{"rope_scaling", "linear"}}, "expected an object"},
      {{{"rope_theta", -1.0}}, "'rope_theta' is -1"},
      {{{"rope_theta", "10000"}}, "expected a finite number"},
      {{{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}}, "partial_rotary_factor"},
      {{{"rope_scaling", {{"rope_type", "frequency_factors"}, {"factors", {1.0, 2.0}}}}}, "one for each of 8 pairs"},
      {{{"rope_interleaved", true}}, "'rope_interleaved' is true"},
  };
  for (const auto& [fields, expected] : cases) EXPECT_THAT(error_of(with(fields)), HasSubstr(expected)) << fields;
}

TEST(RopeConfig, FrequencyFactorsDivide) {
  auto plain = read(llama_config());
  auto divided = read(with(
      {{"rope_scaling", {{"rope_type", "frequency_factors"}, {"factors", json::array({2, 2, 2, 2, 2, 2, 2, 2})}}}}));
  ASSERT_TRUE(divided.ok()) << divided.error().to_string();
  std::vector<float> expected = plain->layers[0].attn.rope.frequencies();
  for (float& frequency : expected) frequency /= 2;
  EXPECT_EQ(divided->layers[0].attn.rope.frequencies(), expected);
}

}  // namespace
}  // namespace vernier
