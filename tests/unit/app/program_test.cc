#include "app/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "app/commands.h"
#include "app/number_flags.h"

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
      command->add_option("--seed", seed_);
      command->add_option("--port", port_)->check(CLI::Range(0, 65535));
      command->add_option("--bytes", bytes_)->transform(byte_size());
      CLI::App* other = app.add_subcommand("other", "another");
      other->add_option("--ids", ids_)->required();
      other->add_option("--out", ids_)->required();
      CLI::App* form = command->add_subcommand("form", "A form of it");
      form->add_option("--deep", deep_, "A number");
      set_work(*form, []() -> Status { return {}; });
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
  std::optional<uint64_t> seed_;
  uint16_t port_ = 0;
  int64_t bytes_ = 0;
  std::string ids_;
  bool fast_ = false;
  int deep_ = 0;
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
  EXPECT_EQ(run({"help", "tyr"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown command tyr; did you mean try?"));
  EXPECT_EQ(run({"try", "--top-k", "many"}), ExitCode::kUsage);
  EXPECT_EQ(run({}), ExitCode::kUsage);
}

// Hints of a letter's distance were "-h" for every short flag, and "--stop" for "--dtype".
TEST_F(Program, AFlagOfAnotherEngineIsAnsweredByItsMeaning) {
  const std::pair<const char*, const char*> cases[] = {
      {"-ngl", "not needed"},
      {"--tensor-parallel-size", "not built"},
      {"--trust-remote-code", "not needed"},
      {"--dtype", "--numerics exact"},
      {"-v", "--log-level"},
  };
  for (const auto& [flag, advice] : cases) {
    EXPECT_EQ(run({"try", "m", flag, "1"}), ExitCode::kUsage);
    EXPECT_THAT(error_, HasSubstr(std::string("unknown flag ") + flag + ": "));
    EXPECT_THAT(error_, HasSubstr(advice));
  }
  EXPECT_EQ(run({"try", "m", "-x"}), ExitCode::kUsage);
  EXPECT_THAT(error_, ::testing::Not(HasSubstr("did you mean")));
  EXPECT_EQ(run({"other", "--ids", "a", "--out", "b", "--top-k", "1"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown flag --top-k; vernier try takes it"));
}

TEST_F(Program, NumbersAreNeverClamped) {
  for (const char* value : {"99999999999999999999999", "-1", "1.5", "x", ""}) {
    EXPECT_EQ(run({"try", std::string("--seed=") + value}), ExitCode::kUsage) << value;
    EXPECT_THAT(error_, HasSubstr("--seed")) << value;
  }
  EXPECT_EQ(run({"try", "--seed", "18446744073709551615"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(seed_, 18446744073709551615U);
  EXPECT_EQ(run({"try", "--seed", "010"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(seed_, 10U) << "no octal";
  EXPECT_EQ(run({"try", "--port", "99999"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("--port 99999: expected 0 to 65535"));
  EXPECT_EQ(run({"try", "--top-k", "99999999999"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("--top-k 99999999999: expected a whole number from -2147483648 to 2147483647"));
  for (const auto& [text, bytes] : {std::pair{"512", 512LL}, {"4KiB", 4096LL}, {"4 kb", 4000LL}, {"2g", 2LL << 30}}) {
    EXPECT_EQ(run({"try", "--bytes", text}), ExitCode::kSuccess) << error_;
    EXPECT_EQ(bytes_, bytes) << text;
  }
  for (const char* text : {"99999999999999999999", "9999999999g", "-1", "g", "1 apple"}) {
    EXPECT_EQ(run({"try", std::string("--bytes=") + text}), ExitCode::kUsage) << text;
    EXPECT_THAT(error_, HasSubstr("--bytes: ")) << text;
  }
}

TEST_F(Program, ABadValueSaysWhereItCameFrom) {
  ::setenv("VERNIER_ARG_TOP_K", "many", 1);
  EXPECT_EQ(run({"try"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("--top-k: 'many' is no whole number (from the environment: VERNIER_ARG_TOP_K)"));
  EXPECT_EQ(run({"try", "--config", config("\n[try]\nport = 99999\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr(".toml:3: port = 99999: --port 99999: expected 0 to 65535"));
}

TEST_F(Program, AllThatIsMissingIsSaidAtOnce) {
  EXPECT_EQ(run({"other"}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("--ids and --out are required"));
}

// --config /dev/zero never ended.
TEST_F(Program, AConfigurationIsARegularFileOfItsSize) {
  EXPECT_EQ(run({"try", "--config", "/dev/zero"}), ExitCode::kUsage);
  EXPECT_EQ(run({"try", "--config", ::testing::TempDir()}), ExitCode::kUsage);
  EXPECT_EQ(run({"try", "--config", config(std::string(2 << 20, '#'))}), ExitCode::kUsage);
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

// Its help says so of each form of a command.
TEST_F(Program, AFormOfACommandTakesItsFlagsFromTheFile) {
  EXPECT_EQ(run({"try", "form", "--config", config("[try.form]\ndeep = 3\n")}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(deep_, 3);
  EXPECT_EQ(run({"try", "form", "--config", config("deep = 4\n")}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(deep_, 4);
  EXPECT_EQ(run({"try", "--config", config("[try.from]\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown command from; did you mean form?"));
  EXPECT_EQ(run({"try", "--config", config("[try.form]\ndeap = 3\n")}), ExitCode::kUsage);
  EXPECT_THAT(error_, HasSubstr("unknown key of [form]: deap; did you mean deep?"));
}

TEST_F(Program, AFormRefusesTheFlagsOfItsCommand) {
  for (const std::vector<std::string>& typed : {std::vector<std::string>{"try", "form", "--top-k", "3"},
                                                {"try", "--top-k=3", "form"},
                                                {"try", "form", "--fast"}}) {
    EXPECT_EQ(run(typed), ExitCode::kUsage) << typed[2];
    EXPECT_THAT(error_, HasSubstr("is of vernier try MODEL; try form does not take it"));
    EXPECT_THAT(error_, HasSubstr("vernier try form --help says more"));
  }
  EXPECT_EQ(run({"try", "form", "--deep", "2", "--threads", "1"}), ExitCode::kSuccess) << error_;
  EXPECT_EQ(run({"try", "--stop", "form"}), ExitCode::kSuccess) << "a value: " << error_;
  ::setenv("VERNIER_ARG_TOP_K", "3", 1);
  EXPECT_EQ(run({"try", "form"}), ExitCode::kSuccess) << "meant for every command: " << error_;
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
  EXPECT_EQ(run({"-v"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, ::testing::MatchesRegex("vernier [0-9.]+\n"));
  EXPECT_EQ(run({"help"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("Exit codes: 0 success"));
  EXPECT_EQ(run({"help", "try"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("--top-k"));
  EXPECT_EQ(run({"--help-aliases"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("--n-predict"));
  EXPECT_EQ(run({"try", "--help"}), ExitCode::kSuccess);
  EXPECT_THAT(output_, HasSubstr("--top-k"));
}

}  // namespace
}  // namespace vernier
