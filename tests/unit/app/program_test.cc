#include "app/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "app/commands.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

/// The program with one command, `try`, whose flags and outcome the tests look at.
class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"VERNIER_ISA", "VERNIER_ARG_TOP_K", "VERNIER_CONFIG"}) ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  ExitCode run(std::vector<std::string> arguments) {
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    auto add = [this](CLI::App& app) {
      CLI::App* command = app.add_subcommand("try", "a command");
      command->add_option("MODEL", model_);
      command->add_option("--top-k", top_k_);
      command->add_option("--stop", stops_);
      command->add_flag("--fast", fast_);
      set_work(*command, [this]() -> Status {
        isa_ = global_options().isa;
        if (failure_) return *failure_;
        return {};
      });
    };
    ExitCode code = run_program(add, std::move(arguments));
    output_ = ::testing::internal::GetCapturedStdout();
    error_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  std::string config(const std::string& text) {
    const std::string path = ::testing::TempDir() + "vernier_program_test.toml";
    std::ofstream(path) << text;
    return path;
  }

  std::string model_;
  std::vector<std::string> stops_;
  int top_k_ = 40;
  bool fast_ = false;
  std::string isa_;
  std::optional<Error> failure_;
  std::string output_;
  std::string error_;
};

TEST_F(Program, RunsTheCommandWithItsFlags) {
  EXPECT_EQ(run({"try", "m", "--top_k", "5", "--isa", "avx2"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(model_, "m");
  EXPECT_EQ(top_k_, 5);
  EXPECT_EQ(isa_, "avx2") << "a global flag may follow the command";
}

TEST_F(Program, EachKindOfErrorHasItsExitCode) {
  const std::pair<ErrorCode, ExitCode> pairs[] = {
      {ErrorCode::kInvalidArgument, ExitCode::kUsage},  {ErrorCode::kNotFound, ExitCode::kNotFound},
      {ErrorCode::kCorrupt, ExitCode::kCorrupt},        {ErrorCode::kUnsupported, ExitCode::kUnsupported},
      {ErrorCode::kOutOfMemory, ExitCode::kDoesNotFit}, {ErrorCode::kInternal, ExitCode::kFailed},
  };
  for (const auto& [code, expected] : pairs) {
    failure_ = Error{code, "it broke", "file.gguf"};
    EXPECT_EQ(run({"try"}), expected);
    EXPECT_EQ(error_, "error: file.gguf: it broke\n");
  }
}

TEST_F(Program, AnUnknownNameIsAnErrorWithTheNearestOne) {
  EXPECT_EQ(run({"try", "m", "--topk", "5"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown flag --topk; did you mean --top-k?"));
  EXPECT_EQ(run({"try", "--jsn"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown flag --jsn; did you mean --json?"));
  EXPECT_EQ(run({"tyr", "m"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown command tyr; did you mean try?"));
  EXPECT_EQ(run({"try", "m", "more"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unexpected argument more"));
  EXPECT_EQ(run({"try", "--top-k", "many"}), ExitCode::kUsage);
  EXPECT_EQ(run({}), ExitCode::kUsage);
}

TEST_F(Program, TheCommandLineWinsOverTheEnvironmentAndThatOverTheFile) {
  const std::string path = config("isa = \"baseline\"\n[try]\ntop_k = 1\nstop = [\"a\", \"b\"]\nfast = true\n");
  EXPECT_EQ(run({"try", "--config", path}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(top_k_, 1);
  EXPECT_EQ(isa_, "baseline");
  EXPECT_TRUE(fast_);
  EXPECT_THAT(stops_, ::testing::ElementsAre("a", "b"));
  ::setenv("VERNIER_ARG_TOP_K", "2", 1);
  ::setenv("VERNIER_ISA", "avx2", 1);
  EXPECT_EQ(run({"--config=" + path, "try"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(top_k_, 2);
  EXPECT_EQ(isa_, "avx2");
  EXPECT_EQ(run({"try", "--config", path, "--top-k", "3", "--isa", "avx512"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(top_k_, 3);
  EXPECT_EQ(isa_, "avx512");
}

TEST_F(Program, AConfigurationFileIsReadStrictly) {
  EXPECT_EQ(run({"try", "--config", config("\n[try]\ntop-q = 1\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr(".toml:3: unknown key of [try]: top-q; did you mean top-k?"));
  EXPECT_EQ(run({"try", "--config", config("[tri]\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown command tri; did you mean try?"));
  EXPECT_EQ(run({"try", "--config", config("top-k = \"many\"\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr(".toml:1: top-k = many"));
  EXPECT_EQ(run({"try", "--config", config("top-k = 1979-05-27\n")}), ExitCode::kUsage);
  EXPECT_EQ(run({"try", "--config", config("top-k = = 1\n")}), ExitCode::kUsage);
  EXPECT_EQ(run({"try", "--config", "/nonexistent.toml"}), ExitCode::kNotFound);
}

TEST_F(Program, HelpAndVersionSucceed) {
  EXPECT_EQ(run({"--help"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("Exit codes: 0 success"));
  EXPECT_EQ(run({"--version"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, ::testing::MatchesRegex("vernier [0-9.]+\n"));
  EXPECT_EQ(run({"--help-aliases"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("--n-predict"));
  EXPECT_EQ(run({"try", "--help"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("--top-k"));
}

}  // namespace
}  // namespace vernier
