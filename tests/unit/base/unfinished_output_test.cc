#include "base/unfinished_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace vernier {
namespace {

namespace fs = std::filesystem;

class UnfinishedOutputTest : public ::testing::Test {
 protected:
  UnfinishedOutputTest() : folder_(fs::temp_directory_path() / ("unfinished-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~UnfinishedOutputTest() override { fs::remove_all(folder_); }

  static void write(const fs::path& path) { std::ofstream(path) << "half"; }
  static std::unique_ptr<UnfinishedOutput> begun(const fs::path& path) {
    Result<std::unique_ptr<UnfinishedOutput>> output = UnfinishedOutput::begin(path);
    EXPECT_TRUE(output.ok());
    return std::move(output).value();
  }

  /// Runs `work` in a process of its own, which gets the signal once it has called what it is handed; how that ended.
  static int end_by(int signal, const std::function<void(const std::function<void()>& ready)>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      UnfinishedOutput::remove_on_signals();
      work([&] { EXPECT_EQ(::write(ends[1], "r", 1), 1); });
      _exit(0);
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    EXPECT_EQ(kill(child, signal), 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    close(ends[0]);
    close(ends[1]);
    return status;
  }

  const fs::path folder_;
};

TEST_F(UnfinishedOutputTest, ASignalThatEndsTheProgramRemovesFilesAndFolders) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const fs::path file = folder_ / "a.partial", tree = folder_ / "b.partial";
    const int status = end_by(signal, [&](const auto& ready) {
      const auto first = begun(file), second = begun(tree);
      write(file);
      fs::create_directories(tree / "deep");
      write(tree / "deep" / "shard");
      ready();
      for (;;) pause();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_FALSE(fs::exists(file));
    EXPECT_FALSE(fs::exists(tree));
  }
}

TEST_F(UnfinishedOutputTest, ASignalDoesNotPartWhatGivesTheName) {
  const fs::path partial = folder_ / "c.partial", step = folder_ / "c.step", whole = folder_ / "c";
  const int status = end_by(SIGTERM, [&](const auto& ready) {
    const auto output = begun(partial);
    write(partial);
    const Status put = output->put([&]() -> Status {
      fs::rename(partial, step);
      ready();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      fs::rename(step, whole);
      return {};
    });
    for (;;) pause();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_TRUE(fs::exists(whole));
  EXPECT_FALSE(fs::exists(step));
}

TEST_F(UnfinishedOutputTest, WhatGotItsNameStaysAndWhatDidNotGoes) {
  const fs::path partial = folder_ / "d.partial", whole = folder_ / "d";
  write(partial);
  write(partial.string() + ".lock");
  {
    const auto output = begun(partial);
    EXPECT_FALSE(fs::exists(partial));  // of an earlier run
    write(partial);
    EXPECT_FALSE(output->put([] { return Status(invalid_argument("no room")); }).ok());
    EXPECT_TRUE(fs::exists(partial));
  }
  EXPECT_FALSE(fs::exists(partial));
  {
    const auto output = begun(partial);
    write(partial);
    EXPECT_TRUE(output
                    ->put([&]() -> Status {
                      fs::rename(partial, whole);
                      return {};
                    })
                    .ok());
    write(partial);  // another's by now
  }
  EXPECT_TRUE(fs::exists(whole));
  EXPECT_TRUE(fs::exists(partial));
}

TEST_F(UnfinishedOutputTest, WhatNoRunLeftStays) {
  const fs::path partial = folder_ / "runs.partial";
  fs::create_directories(partial);
  write(partial / "kept");
  const auto refused = UnfinishedOutput::begin(partial);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("in the way"));
  EXPECT_TRUE(fs::exists(partial / "kept"));
  EXPECT_FALSE(fs::exists(partial.string() + ".lock"));
}

TEST_F(UnfinishedOutputTest, OneRunWritesAtATime) {
  const fs::path partial = folder_ / "e.partial";
  auto first = begun(partial);
  write(partial);
  const auto second = UnfinishedOutput::begin(partial);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, testing::HasSubstr("another run"));
  EXPECT_TRUE(fs::exists(partial));
  first.reset();
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_TRUE(UnfinishedOutput::begin(partial).ok());
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace vernier
