#include "checkpoint/module_pattern.h"

#include <gtest/gtest.h>

#include <chrono>

namespace vernier {
namespace {

bool matches(const std::string& pattern, const std::string& module) {
  auto made = ModulePattern::make(pattern);
  EXPECT_TRUE(made.ok()) << pattern << ": " << (made.ok() ? "" : made.error().to_string());
  return made.ok() && made->matches(module);
}

// F23
TEST(ModulePattern, ANameIsWholeComponentsInARow) {
  EXPECT_TRUE(matches("lm_head", "lm_head"));
  EXPECT_TRUE(matches("self_attn.o_proj", "model.layers.1.self_attn.o_proj"));
  EXPECT_TRUE(matches("linear_attn.in_proj_qkv", "model.layers.0.linear_attn.in_proj_qkv"));
  EXPECT_FALSE(matches("self_attn.o_proj", "model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(matches("attn.o_proj", "model.layers.1.self_attn.o_proj"));
  EXPECT_FALSE(matches("model.layers.1", "model.layers.10.mlp.up_proj"));
  EXPECT_FALSE(matches("mlp.gate", "model.layers.0.mlp.gate_proj"));
}

TEST(ModulePattern, AModuleTakesAllBelowItAlong) {
  EXPECT_TRUE(matches("self_attn", "model.layers.1.self_attn.o_proj"));
  EXPECT_TRUE(matches("model.layers.3", "model.layers.3.mlp.up_proj"));
  EXPECT_TRUE(matches("mlp.experts", "model.layers.3.mlp.experts.7.up_proj"));
}

// F22
TEST(ModulePattern, WrappersInFrontMayDiffer) {
  for (const char* listed :
       {"model.language_model.layers.1.mlp.down_proj", "language_model.model.layers.1.mlp.down_proj",
        "model.layers.1.mlp.down_proj", "layers.1.mlp.down_proj"}) {
    for (const char* module : {"model.layers.1.mlp.down_proj", "language_model.model.layers.1.mlp.down_proj",
                               "model.language_model.layers.1.mlp.down_proj"}) {
      EXPECT_TRUE(matches(listed, module)) << listed << " " << module;
    }
  }
  EXPECT_TRUE(matches("language_model.lm_head", "lm_head"));
  EXPECT_FALSE(matches("model.visual.layers.1.mlp.down_proj", "model.layers.1.mlp.down_proj"));
  EXPECT_FALSE(matches("model.layers.1.mlp.down_proj", "model.visual.layers.1.mlp.down_proj"));
}

// F21
TEST(ModulePattern, TheFusedNameStandsForItsParts) {
  EXPECT_TRUE(matches("gate_up_proj", "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(matches("gate_up_proj", "model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(matches("gate_up_proj", "model.layers.0.mlp.down_proj"));
  EXPECT_TRUE(matches("model.layers.0.self_attn.qkv_proj", "model.layers.0.self_attn.v_proj"));
  EXPECT_FALSE(matches("model.layers.0.self_attn.qkv_proj", "model.layers.1.self_attn.v_proj"));
}

TEST(ModulePattern, WildcardsMatchDotsAndSubtrees) {
  EXPECT_TRUE(matches("*", "model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(matches("*lm_head*", "lm_head"));
  EXPECT_TRUE(matches("model.layers.*.self_attn", "model.layers.13.self_attn.q_proj"));
  EXPECT_FALSE(matches("model.layers.*.self_attn", "model.layers.13.mlp.q_proj"));
  EXPECT_TRUE(matches("model.layers.0*", "model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(matches("model.layers.0*", "model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(matches("*mlp.gate", "model.layers.0.mlp.gate"));
  EXPECT_FALSE(matches("*mlp.gate", "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(matches("model.layers.?.mlp", "model.layers.4.mlp.up_proj"));
  EXPECT_TRUE(matches("model.language_model.layers.0*", "model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(matches("*language_model.layers.0*", "model.layers.0.mlp.up_proj"));
}

// F23
TEST(ModulePattern, ExpressionsMatchFromTheStart) {
  EXPECT_TRUE(matches(R"(re:.*layers\.1\..*)", "model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(matches(R"(re:.*layers\.1\..*)", "model.layers.11.mlp.up_proj"));
  EXPECT_TRUE(matches("re:.*lm_head", "lm_head"));
  EXPECT_FALSE(matches("re:mlp", "layers.1.mlp"));
  EXPECT_TRUE(matches(R"(re:.*mlp\.gate$)", "model.layers.1.mlp.gate"));
  EXPECT_FALSE(matches(R"(re:.*mlp\.gate$)", "model.layers.1.mlp.gate_proj"));
  EXPECT_TRUE(matches(R"(re:^(?!.*mlp).*)", "model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(matches(R"(re:^(?!.*mlp).*)", "model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(matches(R"(re:.*\.gate_up_proj$)", "model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(matches(R"(re:^language_model\.model\.layers\.2\.)", "model.layers.2.mlp.up_proj"));
}

TEST(ModulePattern, WhatCannotBeReadIsRefused) {
  EXPECT_FALSE(ModulePattern::make("").ok());
  EXPECT_FALSE(ModulePattern::make("re:(").ok());
  EXPECT_FALSE(ModulePattern::make("re:[a-").ok());
  EXPECT_FALSE(ModulePattern::make("re:" + std::string(5000, 'a')).ok());
  EXPECT_FALSE(ModulePattern::make("re:(a?){9999}").ok());
  EXPECT_FALSE(ModulePattern::make("re:((a?){60}){60}").ok());
  EXPECT_TRUE(ModulePattern::make(R"(re:.*layers\.\d{1,2}\..*)").ok());
}

TEST(ModulePattern, HostileExpressionsCostBoundedTime) {
  const auto begin = std::chrono::steady_clock::now();
  matches("re:(a*)*(a*)*(a*)*b", std::string(400, 'a'));
  matches("re:(a|a)*(a|aa)*c", std::string(400, 'a'));
  matches("*a*a*a*a*a*a*a*a*b", std::string(2000, 'a'));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace vernier
