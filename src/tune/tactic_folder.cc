#include "tune/tactic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "tune/content_hash.h"
#include "tune/folder_lock.h"
#include "tune/tactic_record.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".json";
/// Another process's work with the lock is over in milliseconds; one that is stopped while it has it must stop nobody.
constexpr int kMostLockWaitMs = 2000;
constexpr int64_t kUsedWithinNs = 3600LL * 1'000'000'000;

Error system_error(std::string_view doing, const fs::path& path, int code) {
  return make_error(ErrorCode::kInternal, "cannot {} {}: {}", doing, path.string(), std::strerror(code));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  bool close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

/// What became of reading a file whole.
struct ReadOutcome {
  std::string bytes;
  std::string damage;  ///< why it is no record; empty: it may be one
  bool gone = false;
  bool unread = false;  ///< for a reason that is not the file's
  int64_t used_ns = 0;
};

ReadOutcome read_whole(const fs::path& path) {
  ReadOutcome outcome;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat state {};
  if (file.get() < 0 || ::fstat(file.get(), &state) != 0) {
    // A handle may be stale on a file system of the network where another removed the file.
    outcome.gone = errno == ENOENT || errno == ESTALE;
    outcome.unread =
        errno == EACCES || errno == EPERM || errno == EIO || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    outcome.damage = std::strerror(errno);
    return outcome;
  }
  outcome.used_ns = nanoseconds(state.st_mtim);
  if (!S_ISREG(state.st_mode)) {
    outcome.damage = S_ISDIR(state.st_mode) ? "a folder in place of a file" : "no regular file";
    return outcome;
  }
  if (state.st_size > static_cast<off_t>(kMostRecordBytes)) {
    outcome.damage = fmt::format("{} bytes; a record has at most {}", state.st_size, kMostRecordBytes);
    return outcome;
  }
  outcome.bytes.resize(static_cast<size_t>(state.st_size));
  size_t done = 0;
  while (done < outcome.bytes.size()) {
    const ssize_t got = ::read(file.get(), outcome.bytes.data() + done, outcome.bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    outcome.unread = got < 0;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  if (done < outcome.bytes.size()) outcome.damage = "could not be read to its end";
  return outcome;
}

/// Reads the file of that name and compares it with its name.
ReadOutcome read_record(const fs::path& folder, const std::string& name) {
  ReadOutcome outcome = read_whole(folder / name);
  // It is published before it is listed; a file system of the network may say so late.
  if (outcome.gone) outcome = read_whole(folder / name);
  if (outcome.gone || !outcome.damage.empty()) return outcome;
  const std::string_view id = std::string_view(name).substr(0, name.size() - kEnding.size());
  if (!is_hash_text(id)) {
    outcome.damage = "its name is no content hash";
  } else if (content_hash(outcome.bytes).to_hex() != id) {
    outcome.damage = outcome.bytes.empty() ? "empty" : "its bytes are not those that its name is the hash of";
  }
  return outcome;
}

/// "4711-0", a temporary file, or a damaged record's "<hash>.json" or "<hash>.json.1".
bool is_sweepable(std::string_view name) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (const size_t dash = name.find('-'); dash != std::string_view::npos) {
    return digits(name.substr(0, dash)) && digits(name.substr(dash + 1));
  }
  const size_t at = name.find(kEnding);
  if (at == std::string_view::npos || !is_hash_text(name.substr(0, at))) return false;
  const std::string_view rest = name.substr(at + kEnding.size());
  return rest.empty() || (rest.front() == '.' && digits(rest.substr(1)));
}

Status write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return system_error("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

Status flush_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error("open", path, errno);
#ifdef __linux__
  const int failed = ::syncfs(file.get());  // all that lies beside it, too
#else
  const int failed = ::fsync(file.get());
#endif
  return failed == 0 ? Status() : Status(system_error("flush", path, errno));
}

/// So that what the files hold is on the disk before they are named. All lie on one file system.
Status flush_files(std::span<const std::string> paths) {
#ifdef __linux__
  paths = paths.first(std::min<size_t>(paths.size(), 1));
#endif
  for (const std::string& path : paths) TRY_STATUS(flush_file(path));
  return {};
}

/// So that a name survives a loss of power; a file system that cannot loses no more than the name.
void flush_folder(const fs::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::fsync(opened.get());
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return system_error("make the folder", path, error.value());
  return {};
}

Result<std::vector<std::string>> record_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.ends_with(kEnding) && !name.starts_with(".")) names.push_back(std::move(name));
  }
  if (error) return system_error("list", folder, error.value());
  std::ranges::sort(names);
  return names;
}

}  // namespace

Result<TacticFolder::Contents> TacticFolder::read() const {
  TRY_BIND(const std::vector<std::string> names, record_names(records()));
  Contents contents;
  for (const std::string& name : names) {
    ReadOutcome outcome = read_record(records(), name);
    if (outcome.gone) continue;
    if (!outcome.damage.empty()) {
      contents.damaged.push_back({name, std::move(outcome.damage), outcome.unread});
    } else {
      contents.entries.push_back(
          {name.substr(0, name.size() - kEnding.size()), std::move(outcome.bytes), outcome.used_ns});
    }
  }
  return contents;
}

Status TacticFolder::write_temporary(std::string_view bytes, bool flush, std::string& path) const {
  static std::atomic<uint64_t> count = 0;
  const fs::path folder = root_ / "temporary";
  TRY_STATUS(make_folder(folder));
  // A process of this number that died may have left files of these names: they are its own, and not written to.
  for (int tries = 0; tries < 10'000; ++tries) {
    path = (folder / fmt::format("{}-{}", ::getpid(), count++)).string();
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0 && errno == EEXIST) continue;
    if (file.get() < 0) return system_error("make", path, errno);
    Status written = write_all(file.get(), bytes, path);
    if (written.ok() && flush && ::fsync(file.get()) != 0) written = system_error("flush", path, errno);
    if (!file.close() && written.ok()) written = system_error("close", path, errno);
    if (!written.ok()) ::unlink(path.c_str());
    return written;
  }
  return make_error(ErrorCode::kInternal, "no free name for a temporary file in {}", folder.string());
}

Status TacticFolder::publish(const std::string& temporary, const std::string& id) const {
  const fs::path path = path_of(id);
  int code = ::rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (code == EISDIR) {
    move_to_damaged(id + std::string(kEnding));
    code = ::rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  }
  if (code == 0) return {};
  ::unlink(temporary.c_str());
  return system_error("publish", path, code);
}

Result<std::string> TacticFolder::add(std::string_view bytes) const {
  std::string id = content_hash(bytes).to_hex();
  TRY_STATUS(make_folder(records()));
  std::string temporary;
  TRY_STATUS(write_temporary(bytes, true, temporary));
  // Beside whoever sets aside a damaged file of this name: the two take turns.
  const auto lock = FolderLock::take(lock_path(), FolderLock::Kind::kShared, kMostLockWaitMs);
  TRY_STATUS(publish(temporary, id));
  flush_folder(records());
  return id;
}

Status TacticFolder::add_all(std::span<const std::string_view> all) const {
  TRY_STATUS(make_folder(records()));
  std::vector<std::string> temporaries(all.size());
  Status done;
  for (size_t i = 0; i < all.size() && done.ok(); ++i) done = write_temporary(all[i], false, temporaries[i]);
  if (done.ok()) done = flush_files(temporaries);
  const auto lock = FolderLock::take(lock_path(), FolderLock::Kind::kShared, kMostLockWaitMs);
  for (size_t i = 0; i < all.size(); ++i) {
    if (done.ok()) {
      done = publish(temporaries[i], content_hash(all[i]).to_hex());
    } else if (!temporaries[i].empty()) {
      ::unlink(temporaries[i].c_str());
    }
  }
  flush_folder(records());
  return done;
}

bool TacticFolder::move_to_damaged(const std::string& name) const {
  const fs::path folder = root_ / "damaged";
  if (!make_folder(folder).ok()) return false;
  std::error_code error;
  fs::path to = folder / name;
  for (int i = 1; fs::exists(fs::symlink_status(to, error)); ++i) to = folder / fmt::format("{}.{}", name, i);
  fs::rename(records() / name, to, error);
  return !error;
}

bool TacticFolder::set_aside(const std::string& name) const {
  const auto lock = FolderLock::take(lock_path(), FolderLock::Kind::kExclusive, kMostLockWaitMs);
  if (!lock) return false;
  // Another may have put the right bytes there meanwhile.
  const ReadOutcome now = read_record(records(), name);
  return !now.gone && !now.unread && !now.damage.empty() && move_to_damaged(name);
}

bool TacticFolder::set_aside_unreadable(const std::string& id) const {
  const auto lock = FolderLock::take(lock_path(), FolderLock::Kind::kExclusive, kMostLockWaitMs);
  return lock && move_to_damaged(id + std::string(kEnding));
}

void TacticFolder::mark_used(Entry& entry) const {
  const int64_t now = now_ns();
  if (now - entry.used_ns < kUsedWithinNs) return;
  entry.used_ns = now;
  ::utimensat(AT_FDCWD, path_of(entry.id).c_str(), nullptr, 0);
}

Status TacticFolder::note_slower(const std::string& id, std::string_view text) const {
  TRY_STATUS(make_folder(slower()));
  std::string temporary;
  TRY_STATUS(write_temporary(text, false, temporary));
  const fs::path path = slower() / id;
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int code = errno;
  ::unlink(temporary.c_str());
  return system_error("note", path, code);
}

std::map<std::string, std::string> TacticFolder::slower_notes() const {
  std::map<std::string, std::string> notes;
  std::error_code error;
  for (fs::directory_iterator at(slower(), error); !error && at != fs::directory_iterator(); at.increment(error)) {
    std::string id = at->path().filename().string();
    ReadOutcome note = read_whole(at->path());
    if (is_hash_text(id) && note.damage.empty() && !note.gone) notes.emplace(std::move(id), std::move(note.bytes));
  }
  return notes;
}

Result<int64_t> TacticFolder::remove(std::span<const Entry> entries) const {
  if (entries.empty()) return int64_t{0};
  const auto lock = FolderLock::take(lock_path(), FolderLock::Kind::kExclusive, kMostLockWaitMs);
  if (!lock) {
    return make_error(ErrorCode::kUnavailable,
                      "{} is held by another process, or cannot be locked; nothing was removed", lock_path());
  }
  int64_t removed = 0;
  for (const Entry& entry : entries) {
    const fs::path path = path_of(entry.id);
    struct stat state {};
    if (::stat(path.c_str(), &state) != 0 || nanoseconds(state.st_mtim) != entry.used_ns) continue;
    if (::unlink(path.c_str()) != 0) return system_error("remove", path, errno);
    ::unlink((slower() / entry.id).c_str());
    ++removed;
  }
  flush_folder(records());
  return removed;
}

int64_t TacticFolder::sweep(const fs::path& folder, int64_t older_than_ns, bool remove) {
  int64_t removed = 0;
  std::error_code error;
  const int64_t now = now_ns();
  if (fs::is_symlink(fs::symlink_status(folder, error))) return 0;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    struct stat state {};
    if (::lstat(at->path().c_str(), &state) != 0 || now - nanoseconds(state.st_mtim) < older_than_ns) continue;
    // What lies there under another name is none of the store's.
    std::error_code ignored;
    if (is_sweepable(at->path().filename().string()) && (!remove || fs::remove(at->path(), ignored))) ++removed;
  }
  return removed;
}

}  // namespace vernier
