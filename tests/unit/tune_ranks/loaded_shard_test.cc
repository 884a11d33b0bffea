#include "api/loaded_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "api/tune_model.h"
#include "testing/isa.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

LoadOptions options() {
  LoadOptions made;
  made.backend.threads = 1;
  made.backend.isa = testing::requested_isa();
  return made;
}

std::string model(const std::string& name) {
  return VERNIER_TEST_DATA "/models/" + name;
}

/// Each problem with the ops that have it.
std::map<std::string, std::set<std::string>> told(const std::vector<TunedProblem>& problems) {
  std::map<std::string, std::set<std::string>> all;
  for (const TunedProblem& one : problems) all[one.problem.to_string()] = {one.ops.begin(), one.ops.end()};
  return all;
}

// API-14: with one rank nothing is cut, whatever the model's ops, codecs and layouts are.
TEST(LoadedShard, OneRankHasTheWholeModelsProblems) {
  for (const char* name :
       {"llama", "llama-tied", "llama-fp8-block", "qwen3-fp8-block-64x32", "qwen3-moe", "gpt-oss", "gpt-oss-mxfp4",
        "deepseek-v3", "deepseek-v3-fp8-block", "longcat-flash", "gemma3", "llama-modelopt-nvfp4"}) {
    Result<std::unique_ptr<LoadedShard>> shard = LoadedShard::load(model(name), options(), 1, 0);
    ASSERT_TRUE(shard.ok()) << name << ": " << shard.error().to_string();
    const std::unique_ptr<LoadedModel> whole = LoadedModel::load(model(name), options()).value();
    EXPECT_EQ(told(list_problems((*shard)->backend(), (*shard)->parts())),
              told(list_problems(whole->backend(), whole->decoder().parts())))
        << name;
  }
}

std::string fact(const Problem& problem, std::string_view name) {
  return std::ranges::find(problem.facts, name, &Problem::Fact::name)->value;
}

/// Rows and columns of each op's matrices.
std::map<std::string, std::set<std::string>> shapes(const std::string& name, int ranks, int rank) {
  const std::unique_ptr<LoadedShard> shard = LoadedShard::load(model(name), options(), ranks, rank).value();
  std::map<std::string, std::set<std::string>> all;
  for (const TunedProblem& one : list_problems(shard->backend(), shard->parts())) {
    for (const std::string& op : one.ops) all[op].insert(fact(one.problem, "rows") + "x" + fact(one.problem, "cols"));
  }
  return all;
}

// API-14, C22: a rank's problems are those of its share, by the cuts that inspect --shards tells.
TEST(LoadedShard, ARankHasItsShareOfEachMatrix) {
  std::map<std::string, std::set<std::string>> whole = shapes("gpt-oss-mxfp4", 1, 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::map<std::string, std::set<std::string>> half = shapes("gpt-oss-mxfp4", 2, rank);
    // 4 query heads and 2 key-value heads of 32 columns: 2 and 1 on each.
    EXPECT_THAT(half["qkv"], UnorderedElementsAre("128x64"));
    EXPECT_THAT(half["output"], UnorderedElementsAre("64x64"));
    EXPECT_EQ(half["router"], whole["router"]);
    EXPECT_EQ(half["head"], whole["head"]);
  }
  EXPECT_THAT(whole["qkv"], UnorderedElementsAre("256x64"));
  // 96 columns of an expert in groups of 32: two and one.
  EXPECT_THAT(whole["experts_gate_up"], UnorderedElementsAre("192x64"));
  EXPECT_THAT(shapes("gpt-oss-mxfp4", 2, 0)["experts_gate_up"], UnorderedElementsAre("128x64"));
  EXPECT_THAT(shapes("gpt-oss-mxfp4", 2, 1)["experts_gate_up"], UnorderedElementsAre("64x64"));
  EXPECT_THAT(shapes("gpt-oss-mxfp4", 2, 1)["experts_down"], UnorderedElementsAre("64x32"));
}

TEST(LoadedShard, ARankWithoutAPartHasNoProblemOfIt) {
  // 96 columns are three groups: the last of four ranks has none.
  EXPECT_EQ(shapes("gpt-oss-mxfp4", 4, 3).count("experts_down"), 0U);
  EXPECT_EQ(shapes("gpt-oss-mxfp4", 4, 3).count("router"), 1U);
}

TEST(LoadedShard, HeadsThatCannotBeCutAreRefused) {
  const Result<std::unique_ptr<LoadedShard>> shard = LoadedShard::load(model("gpt-oss-mxfp4"), options(), 3, 0);
  ASSERT_FALSE(shard.ok());
  EXPECT_EQ(shard.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(shard.error().message, HasSubstr("the nearest numbers of ranks that work: 2, 4"));
}

}  // namespace
}  // namespace vernier
