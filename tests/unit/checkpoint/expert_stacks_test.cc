#include "checkpoint/expert_stacks.h"

#include <gmock/gmock.h>

#include "checkpoint/checkpoint.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The names, in order, that a folder with these tensors of [3, 2, 4] and [3, 4] has.
std::vector<std::string> names_of(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  testing::TempFolder folder;
  testing::SafetensorsWriter writer;
  for (const auto& [name, extents] : tensors) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    writer.f32(name, extents, values);
  }
  folder.write("config.json", R"({"model_type":"mixtral"})");
  folder.write("model.safetensors", writer.bytes());
  auto checkpoint = Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  std::vector<std::string> names;
  for (const StoredTensor& tensor : (*checkpoint)->tensors()) names.push_back(tensor.name);
  return names;
}

TEST(ExpertStacks, EachExpertHasATensorOfItsOwn) {
  EXPECT_THAT(names_of({{"a.experts.down_proj", {2, 3, 4}}}),
              ElementsAre("a.experts.0.down_proj.weight", "a.experts.1.down_proj.weight"));
  EXPECT_THAT(names_of({{"a.experts.up_proj.weight", {1, 3, 4}}, {"a.experts.down_proj_bias", {2, 3}}}),
              ElementsAre("a.experts.0.up_proj.weight", "a.experts.0.down_proj.bias", "a.experts.1.down_proj.bias"));
  EXPECT_THAT(names_of({{"a.experts.gate_up_proj_blocks", {2, 3, 4}}}),
              ElementsAre("a.experts.0.gate_up_proj_blocks", "a.experts.1.gate_up_proj_blocks"));
}

TEST(ExpertStacks, AnExpertsScaleIsItsOwn) {
  EXPECT_THAT(names_of({{"a.experts.up_proj.scale", {2}}}),
              ElementsAre("a.experts.0.up_proj.scale", "a.experts.1.up_proj.scale"));
  EXPECT_THAT(names_of({{"a.experts.up_proj.input_scale", {2}}}),
              ElementsAre("a.experts.0.up_proj.input_scale", "a.experts.1.up_proj.input_scale"));
}

TEST(ExpertStacks, ATensorKnowsItsStack) {
  StoredTensor tensor;
  tensor.name = "model.layers.0.mlp.experts.12.up_proj.weight";
  tensor.file_name = "blk.0.ffn_up_exps.weight[12]";
  EXPECT_TRUE(is_of_stack(tensor));
  EXPECT_EQ(stack_of(tensor), "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(place_in_stack(tensor), 12u);
}

// A name that ends in brackets by itself, rows of a matrix, and one without.
TEST(ExpertStacks, ATensorOfNoneIsItself) {
  for (const auto& [name, file_name] : {std::pair("foo[3]", "foo[3]"), std::pair("a.q_proj.weight", "a.qkv[0:64]"),
                                        std::pair("a.up_proj.weight", "blk.0.ffn_up.weight")}) {
    StoredTensor tensor;
    tensor.name = name;
    tensor.file_name = file_name;
    EXPECT_FALSE(is_of_stack(tensor)) << file_name;
    EXPECT_EQ(stack_of(tensor), file_name);
    EXPECT_EQ(place_in_stack(tensor), 0u);
  }
}

// What is named for one expert, or is no matrix of experts, stays.
TEST(ExpertStacks, OthersStayAsTheyAre) {
  for (const char* name : {"a.experts.0.down_proj.weight", "a.shared_experts.down_proj.weight", "a.experts.router",
                           "a.experts.down_proj.weight_scale_inv"}) {
    EXPECT_THAT(names_of({{name, {2, 3}}}), ElementsAre(name));
  }
  EXPECT_THAT(names_of({{"a.experts.down_proj", {6}}}), ElementsAre("a.experts.down_proj"));
}

// CKPT-3: a stack beside one of its own experts.
TEST(ExpertStacks, WhatStandsTwiceIsAnError) {
  testing::TempFolder folder;
  testing::SafetensorsWriter writer;
  writer.f32("a.experts.down_proj", {2, 1, 2}, {1, 2, 3, 4});
  writer.f32("a.experts.1.down_proj.weight", {1, 2}, {3, 4});
  folder.write("config.json", R"({"model_type":"mixtral"})");
  folder.write("model.safetensors", writer.bytes());
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(checkpoint.error().to_string(), HasSubstr("a.experts.1.down_proj.weight"));
}

TEST(ExpertStacks, AnExpertsBytesAreItsOwn) {
  std::vector<StoredTensor> tensors(1);
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  tensors[0].name = tensors[0].file_name = "a.experts.down_proj";
  tensors[0].extents = {3, 1, 2};
  tensors[0].bytes = std::as_bytes(std::span(numbers));
  take_expert_stacks_apart(tensors);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[2].file_name, "a.experts.down_proj[2]");
  EXPECT_THAT(tensors[2].extents, ElementsAre(1, 2));
  float first = 0;
  std::memcpy(&first, tensors[2].bytes.data(), sizeof(first));
  EXPECT_EQ(first, 5);
}

}  // namespace
}  // namespace vernier
