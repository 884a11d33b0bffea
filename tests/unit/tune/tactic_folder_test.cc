#include "tune/tactic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "testing/child_process.h"
#include "testing/temp_folder.h"
#include "tune/content_hash.h"
#include "tune/folder_lock.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::start_child;
using testing::TempFolder;
using testing::wait_child;

constexpr int64_t kHourNs = 3600LL * 1'000'000'000;

std::string record_path(const TacticFolder& folder, const std::string& id) {
  return (folder.root() / "records" / (id + ".json")).string();
}

std::string add(const TacticFolder& folder, std::string_view bytes) {
  const Result<std::string> id = folder.add(bytes);
  EXPECT_TRUE(id.ok()) << id.error().to_string();
  return id.ok() ? *id : "";
}

size_t files_in(const fs::path& folder) {
  std::error_code error;
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder, error), fs::directory_iterator()));
}

TacticFolder::Contents contents(const TacticFolder& folder) {
  Result<TacticFolder::Contents> read = folder.read();
  EXPECT_TRUE(read.ok()) << read.error().to_string();
  return read.ok() ? std::move(*read) : TacticFolder::Contents{};
}

// TUNE-7: a record lies under the hash of its bytes, and nothing of its making is left beside it.
TEST(TacticFolderTest, ARecordLiesUnderTheHashOfItsBytesTune7) {
  const TempFolder temp;
  const TacticFolder folder(temp.path("home/tactics"));
  EXPECT_TRUE(contents(folder).entries.empty());  // absent is empty
  const std::string id = add(folder, "one\n");
  EXPECT_EQ(id, content_hash("one\n").to_hex());
  EXPECT_EQ(add(folder, "one\n"), id);
  add(folder, "two\n");
  const auto found = contents(folder);
  ASSERT_EQ(found.entries.size(), 2U);
  EXPECT_TRUE(found.damaged.empty());
  EXPECT_EQ(files_in(folder.root() / "temporary"), 0U);
}

// C17, TUNE-10: existence is not validity. Each of these is named, changes nothing else, and is healed by adding it
// again.
class DamagedRecord : public ::testing::TestWithParam<const char*> {};

void damage(const std::string& path, std::string_view how) {
  if (how == "empty") {
    fs::resize_file(path, 0);
  } else if (how == "half") {
    fs::resize_file(path, fs::file_size(path) / 2);
  } else if (how == "flipped") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(7) << '\x01';
  } else if (how == "cut") {
    std::ofstream(path, std::ios::trunc) << "{\"a\":";
  } else if (how == "marked") {
    std::ofstream(path, std::ios::trunc) << "\xef\xbb\xbf{\"format\":1, \"x\": 2}\n";
  } else if (how == "large") {
    fs::resize_file(path, 200'000'000);
  } else if (how == "folder") {
    fs::remove(path);
    fs::create_directories(path + "/inside");
  } else if (how == "pipe") {
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }
}

TEST_P(DamagedRecord, IsNamedSetAsideAndHealedC17Tune10) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const std::string bytes = "{\"format\":1,\"what\":\"a record\"}\n";
  const std::string other = add(folder, "{\"format\":1}\n");
  const std::string id = add(folder, bytes);
  damage(record_path(folder, id), GetParam());
  auto found = contents(folder);
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_EQ(found.damaged[0].name, id + ".json");
  EXPECT_FALSE(found.damaged[0].what.empty());
  ASSERT_EQ(found.entries.size(), 1U);
  EXPECT_EQ(found.entries[0].id, other);

  EXPECT_TRUE(folder.set_aside(found.damaged[0].name));
  EXPECT_FALSE(folder.set_aside(found.damaged[0].name));  // another was faster
  EXPECT_TRUE(fs::exists(fs::symlink_status(folder.root() / "damaged" / (id + ".json"))));
  EXPECT_TRUE(contents(folder).damaged.empty());

  EXPECT_EQ(add(folder, bytes), id);
  damage(record_path(folder, id), GetParam());
  EXPECT_EQ(add(folder, bytes), id);  // over what is damaged
  EXPECT_EQ(contents(folder).entries.size(), 2U);
  EXPECT_TRUE(contents(folder).damaged.empty());
}

INSTANTIATE_TEST_SUITE_P(Each, DamagedRecord,
                         ::testing::Values("empty", "half", "flipped", "cut", "marked", "large", "folder", "pipe"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TacticFolderTest, AHealthyRecordIsNeverSetAside) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const std::string id = add(folder, "one\n");
  EXPECT_FALSE(folder.set_aside(id + ".json"));  // it was damaged when listed, and is healed
  EXPECT_EQ(contents(folder).entries.size(), 1U);
}

TEST(TacticFolderTest, ANameThatIsNoHashIsNamed) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  temp.write("records/notes.json", "mine");
  temp.write("records/.nfs0001.json", "of the file system");
  temp.write("records/README", "mine");
  const auto found = contents(folder);
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_EQ(found.damaged[0].name, "notes.json");
  EXPECT_EQ(found.damaged[0].what, "its name is no content hash");
}

// C19: what vanishes between the listing and the reading is no fault and no end of the work.
TEST(TacticFolderTest, WhatVanishesMeanwhileWasNeverThereC19) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  add(folder, "one\n");
  fs::create_symlink("/nowhere", record_path(folder, std::string(64, 'a')));  // listed, and cannot be opened
  const auto found = contents(folder);
  EXPECT_EQ(found.entries.size(), 1U);
  EXPECT_TRUE(found.damaged.empty());
}

// C18: another process of this number may have left files of the names that this one would take.
TEST(TacticFolderTest, TemporaryNamesDoNotCollideC18) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  for (int i = 0; i < 200; ++i) {
    temp.write("temporary/" + std::to_string(::getpid()) + "-" + std::to_string(i), "another's");
  }
  for (int i = 0; i < 20; ++i) add(folder, "record " + std::to_string(i) + "\n");
  EXPECT_EQ(contents(folder).entries.size(), 20U);
  EXPECT_EQ(files_in(folder.root() / "temporary"), 200U);
  for (const auto& left : fs::directory_iterator(folder.root() / "temporary")) {
    EXPECT_EQ(fs::file_size(left.path()), 9U);
  }
}

// C15: sixteen processes publish one artefact at once: one is there, whole, and nothing is left beside it.
TEST(TacticFolderTest, SixteenProcessesPublishOneRecordC15) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const std::string bytes = std::string(20'000, 'r') + "\n";
  auto* barrier = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(barrier), MAP_FAILED);
  new (barrier) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(start_child([&] {
      ++*barrier;
      while (*barrier < 16) std::this_thread::yield();
      return folder.add(bytes).ok() && folder.read().value().entries.size() == 1;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(wait_child(child), 0);
  ::munmap(barrier, sizeof(std::atomic<int>));
  EXPECT_EQ(contents(folder).entries.size(), 1U);
  EXPECT_EQ(files_in(folder.root() / "temporary"), 0U);
}

// TUNE-11: of a process that is killed after k records k are there, each whole.
TEST(TacticFolderTest, KilledAfterSoManyRecordsTheyAreThereTune11) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const pid_t child = start_child([&] {
    for (int i = 0; i < 5; ++i) {
      if (!folder.add("record " + std::to_string(i) + "\n").ok()) return false;
    }
    // In the middle of the sixth.
    temp.write("temporary/" + std::to_string(::getpid()) + "-99", "rec");
    ::kill(::getpid(), SIGKILL);
    return false;
  });
  EXPECT_EQ(wait_child(child), 128 + SIGKILL);
  const auto found = contents(folder);
  EXPECT_EQ(found.entries.size(), 5U);
  EXPECT_TRUE(found.damaged.empty());
  EXPECT_EQ(folder.sweep_temporaries(kHourNs), 0);  // it may be another's work
  EXPECT_EQ(folder.sweep_temporaries(0), 1);
}

// TUNE-7, TUNE-11: many at once are what they are one by one: each whole, what was damaged healed, none twice.
TEST(TacticFolderTest, ManyAtOnceAreEachWholeTune11) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const std::string damaged = add(folder, "record 7\n");
  damage(temp.path("records/" + damaged + ".json"), "half");
  std::vector<std::string> records;
  for (int i = 0; i < 300; ++i) records.push_back("record " + std::to_string(i) + "\n");
  records.push_back("record 11\n");
  std::vector<std::string_view> all(records.begin(), records.end());
  ASSERT_TRUE(folder.add_all({}).ok());
  ASSERT_TRUE(folder.add_all(all).ok());
  EXPECT_EQ(contents(folder).entries.size(), 300U);
  EXPECT_TRUE(contents(folder).damaged.empty());
  EXPECT_EQ(files_in(folder.root() / "temporary"), 0U);
}

// C20: where the disk takes one and not the next, none of them is named, and nothing is left.
TEST(TacticFolderTest, ManyAtOnceOnAFullDiskLeaveNothingC20) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const pid_t child = start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit few{8, 8};
    ::setrlimit(RLIMIT_FSIZE, &few);
    const std::string_view all[] = {"small\n", "a record of more bytes\n", "tiny\n"};
    const Status added = folder.add_all(all);
    return !added.ok() && added.error().message.starts_with("cannot write");
  });
  EXPECT_EQ(wait_child(child), 0);
  EXPECT_TRUE(contents(folder).entries.empty());
  EXPECT_EQ(files_in(folder.root() / "temporary"), 0U);
}

// A process that is stopped, or dies, while it has the lock stops nobody for long.
TEST(TacticFolderTest, ALockIsGivenBackByTheDeadAndNotAwaitedForEver) {
  const TempFolder temp;
  const std::string path = temp.path("lock");
  using Kind = FolderLock::Kind;
  {
    const auto shared = FolderLock::take(path, Kind::kShared, 0);
    ASSERT_TRUE(shared);
    EXPECT_TRUE(FolderLock::take(path, Kind::kShared, 0));
    EXPECT_FALSE(FolderLock::take(path, Kind::kExclusive, 20));
  }
  const pid_t child = start_child([&] {
    const auto held = FolderLock::take(path, Kind::kExclusive, 0);
    ::kill(::getpid(), SIGKILL);
    return held.has_value();
  });
  EXPECT_EQ(wait_child(child), 128 + SIGKILL);
  EXPECT_TRUE(FolderLock::take(path, Kind::kExclusive, 0));
}

// C20: a disk that takes no more is an error that names the file, and leaves nothing half written.
TEST(TacticFolderTest, AFullDiskIsAnErrorAndLeavesNothingC20) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  add(folder, "one\n");
  const pid_t child = start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{2, 2};
    ::setrlimit(RLIMIT_FSIZE, &none);
    const Result<std::string> added = folder.add("a record of more than two bytes\n");
    return !added.ok() && added.error().message.starts_with("cannot write");
  });
  EXPECT_EQ(wait_child(child), 0);
  EXPECT_EQ(contents(folder).entries.size(), 1U);
  EXPECT_TRUE(contents(folder).damaged.empty());
  EXPECT_EQ(files_in(folder.root() / "temporary"), 0U);
}

// TUNE-12: what is wanted meanwhile is not removed by whoever saw it as unused.
TEST(TacticFolderTest, WhatIsUsedMeanwhileIsNotRemovedTune12) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  const std::string used = add(folder, "used\n"), unused = add(folder, "unused\n");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(48);
  fs::last_write_time(record_path(folder, used), old);
  fs::last_write_time(record_path(folder, unused), old);
  auto listed = contents(folder).entries;
  ASSERT_EQ(listed.size(), 2U);
  for (TacticFolder::Entry entry : listed) {
    if (entry.id == used) folder.mark_used(entry);
  }
  const Result<int64_t> removed = folder.remove(listed);
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 1);
  const auto left = contents(folder).entries;
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].id, used);
}

TEST(TacticFolderTest, NothingIsRemovedWhileAnotherHasTheLock) {
  const TempFolder temp;
  const TacticFolder folder(temp.path());
  add(folder, "one\n");
  const auto held = FolderLock::take(temp.path("lock"), FolderLock::Kind::kExclusive, 0);
  const Result<int64_t> removed = folder.remove(contents(folder).entries);
  ASSERT_FALSE(removed.ok());
  EXPECT_EQ(removed.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(removed.error().message, HasSubstr("nothing was removed"));
  EXPECT_EQ(contents(folder).entries.size(), 1U);
}

}  // namespace
}  // namespace vernier
