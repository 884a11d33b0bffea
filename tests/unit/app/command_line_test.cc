#include "app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace vernier {
namespace {

using ::testing::ElementsAre;
using Arguments = std::vector<std::string>;

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() {
    app_.add_option("--threads", threads_);
    app_.add_flag("--json", json_);
    CLI::App* run = app_.add_subcommand("run");
    run->add_option("MODEL", model_);
    run->add_option("PROMPT", prompt_);
    run->add_option("--max-tokens", tokens_);
    run->add_option("--temperature", temperature_);
    run->add_option("-s,--seed", tokens_);
    app_.add_subcommand("doctor");
    CLI::App* bench = app_.add_subcommand("bench");
    bench->add_option("FILE", model_);
    bench->add_option("--chunk", tokens_);
    CLI::App* serve = bench->add_subcommand("serve");
    serve->add_option("--url", prompt_);
    serve->add_option("--timeout", tokens_);
    serve->add_option("--temperature", temperature_);
  }

  CLI::App app_;
  int threads_ = 0;
  int tokens_ = 0;
  double temperature_ = 0;
  bool json_ = false;
  std::string model_;
  std::string prompt_;
};

TEST_F(CommandLine, UnderscoresStandForHyphensInNamesOnly) {
  EXPECT_THAT(canonical_arguments(app_, {"run", "my_model", "--max_tokens=1_0", "--max_tokens", "a_b", "_x_"}),
              ElementsAre("run", "my_model", "--max-tokens=1_0", "--max-tokens", "a_b", "_x_"));
  EXPECT_THAT(canonical_arguments(app_, {"run", "m", "--", "--max_tokens"}),
              ElementsAre("run", "m", "--", "--max_tokens"));
}

TEST_F(CommandLine, AFormOfACommandHasItsOwnFlags) {
  const CLI::App* bench = find_command(app_, "bench");
  EXPECT_EQ(typed_command(app_, {"bench", "serve", "--url", "x"}), find_command(*bench, "serve"));
  EXPECT_EQ(typed_command(app_, {"--threads", "2", "bench", "serve"}), find_command(*bench, "serve"));
  EXPECT_EQ(typed_command(app_, {"bench", "a.gguf"}), bench);
  EXPECT_EQ(typed_command(app_, {"bench"}), bench);
  EXPECT_EQ(typed_command(app_, {"run", "serve"}), find_command(app_, "run")) << "a model's name";
  EXPECT_THAT(canonical_arguments(app_, {"bench", "serve", "--temp", "0", "--timeout", "5"}),
              ElementsAre("bench", "serve", "--temperature", "0", "--timeout", "5"));
  EXPECT_THAT(canonical_arguments(app_, {"bench", "a.gguf", "-ub", "64"}),
              ElementsAre("bench", "a.gguf", "--chunk", "64"));
  EXPECT_THAT(canonical_arguments(app_, {"bench", "serve", "-ub", "64"}), ElementsAre("bench", "serve", "-ub", "64"))
      << "a flag of another form";
}

TEST_F(CommandLine, OtherEnginesSpellingsAreTaken) {
  EXPECT_THAT(canonical_arguments(app_, {"run", "m", "-n", "5", "--temp=0.5", "-t", "2"}),
              ElementsAre("run", "m", "--max-tokens", "5", "--temperature=0.5", "--threads", "2"));
  EXPECT_THAT(canonical_arguments(app_, {"run", "m", "-s", "5"}), ElementsAre("run", "m", "-s", "5")) << "its own flag";
  EXPECT_THAT(canonical_arguments(app_, {"doctor", "-n", "5"}), ElementsAre("doctor", "-n", "5"))
      << "no such flag there";
  EXPECT_THAT(canonical_arguments(app_, {"run", "m", "--", "-n"}), ElementsAre("run", "m", "--", "-n")) << "a prompt";
}

TEST_F(CommandLine, AModelFlagBecomesThePositional) {
  EXPECT_THAT(canonical_arguments(app_, {"run", "hello", "-m", "a.gguf"}), ElementsAre("run", "a.gguf", "hello"));
  EXPECT_THAT(canonical_arguments(app_, {"--threads", "2", "run", "--model_path=a", "hello"}),
              ElementsAre("--threads", "2", "run", "a", "hello"));
  EXPECT_THAT(canonical_arguments(app_, {"run", "--model"}), ElementsAre("run", "--model"))
      << "no value: left for the error";
  EXPECT_THAT(canonical_arguments(app_, {"run", "--model", "--", "x"}), ElementsAre("run", "--model", "--", "x"));
}

TEST_F(CommandLine, TheCommandIsFoundBehindGlobalFlags) {
  EXPECT_EQ(command_position(app_, {"run"}), 0u);
  EXPECT_EQ(command_position(app_, {"--threads", "2", "--json", "run"}), 3u);
  EXPECT_EQ(command_position(app_, {"--threads=2", "run"}), 1u);
  EXPECT_EQ(command_position(app_, {"--json"}), std::nullopt);
}

TEST_F(CommandLine, TheNearestNameIsOneThatCouldBeMeant) {
  const Arguments flags = flag_names(*app_.get_subcommand("run"));
  EXPECT_EQ(nearest("--temprature", flags), "--temperature");
  EXPECT_EQ(nearest("--max-token", flags), "--max-tokens");
  EXPECT_EQ(nearest("--thread", flags), "--threads") << "a global flag";
  EXPECT_EQ(nearest("--temp", flags), "--temperature") << "a beginning";
  EXPECT_EQ(nearest("--frobnicate", flags), std::nullopt);
}

TEST_F(CommandLine, TheTableSaysWhoTakesWhat) {
  const std::string table = describe_aliases(app_);
  EXPECT_THAT(table, ::testing::ContainsRegex("--n-predict +--max-tokens +llama.cpp +run\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("-t +--threads +llama.cpp +all\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("--model-path +MODEL +SGLang +run\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("--tp-size +--tp .*not built yet\n"));
}

TEST(FlagAliases, EachSpellingMeansOneThing) {
  std::set<std::string_view> seen;
  for (const FlagAlias& alias : flag_aliases()) EXPECT_TRUE(seen.insert(alias.spelling).second) << alias.spelling;
}

}  // namespace
}  // namespace vernier
