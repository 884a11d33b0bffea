#include "base/unfinished_output.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

/// Whoever ends the program by a signal keeps the lock: what waits for it has nothing to do any more.
struct UnfinishedPaths {
  std::mutex mutex;
  std::vector<fs::path> paths;
};

UnfinishedPaths& unfinished_paths() {
  static auto* all = new UnfinishedPaths;  // outlives every thread
  return *all;
}

fs::path lock_of(const fs::path& path) {
  return path.string() + ".lock";
}

struct OutputLock {
  int file;
  bool was_there;  // an earlier run's
};

/// A writer removes its lock when it is done, so the file that was locked may be none any more.
Result<OutputLock> take_lock(const fs::path& path) {
  const std::string name = lock_of(path).string();
  for (;;) {
    bool was_there = false;
    int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) {
      was_there = true;
      file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0 && errno == ENOENT) continue;
    }
    if (file < 0) return make_error(ErrorCode::kInternal, "cannot write {}: {}", name, std::strerror(errno));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      ::close(file);
      return make_error(ErrorCode::kUnavailable,
                        "{} is being written by another run; wait for it or give another place", path.string());
    }
    struct stat held {
    }, named{};
    if (::fstat(file, &held) == 0 && ::stat(name.c_str(), &named) == 0 && held.st_ino == named.st_ino) {
      return OutputLock{file, was_there};
    }
    ::close(file);
  }
}

sem_t signal_came;
volatile sig_atomic_t which_signal = 0;

/// The only work that a handler may do.
void on_ending_signal(int signal) {
  which_signal = signal;
  sem_post(&signal_came);
}

void remove_and_end() {
  while (sem_wait(&signal_came) != 0) {
  }
  UnfinishedPaths& all = unfinished_paths();
  all.mutex.lock();
  std::error_code ignored;
  for (const fs::path& path : all.paths) {
    // A writer that is still at work may put another file into a folder meanwhile.
    for (int attempt = 0; attempt < 10 && fs::exists(path, ignored); ++attempt) fs::remove_all(path, ignored);
    fs::remove(lock_of(path), ignored);
  }
  const int signal = which_signal;
  ::signal(signal, SIG_DFL);
  sigset_t it;
  sigemptyset(&it);
  sigaddset(&it, signal);
  pthread_sigmask(SIG_UNBLOCK, &it, nullptr);
  kill(getpid(), signal);
  for (;;) pause();
}

}  // namespace

Result<std::unique_ptr<UnfinishedOutput>> UnfinishedOutput::begin(const fs::path& path) {
  TRY_BIND(const OutputLock lock, take_lock(path));
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    if (!lock.was_there) {
      fs::remove(lock_of(path), ignored);
      ::close(lock.file);
      return invalid_argument("{} is in the way, and no run left it there: move it or give another place",
                              path.string());
    }
    log_warning("{} is of a run that was cut short: it is removed", path.string());
    fs::remove_all(path, ignored);
  }
  return std::unique_ptr<UnfinishedOutput>(new UnfinishedOutput(path, lock.file));
}

UnfinishedOutput::UnfinishedOutput(fs::path path, int lock) : path_(std::move(path)), lock_(lock) {
  std::lock_guard guard(unfinished_paths().mutex);
  unfinished_paths().paths.push_back(path_);
}

UnfinishedOutput::~UnfinishedOutput() {
  std::lock_guard guard(unfinished_paths().mutex);
  std::error_code ignored;
  if (!named_) fs::remove_all(path_, ignored);
  fs::remove(lock_of(path_), ignored);
  ::close(lock_);
  std::erase(unfinished_paths().paths, path_);
}

Status UnfinishedOutput::put(const std::function<Status()>& give_name) {
  std::lock_guard guard(unfinished_paths().mutex);
  TRY_STATUS(give_name());
  named_ = true;
  return {};
}

void UnfinishedOutput::remove_on_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    sem_init(&signal_came, 0, 0);
    std::thread(remove_and_end).detach();
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler == SIG_IGN) continue;  // as under nohup
      action = {};
      action.sa_handler = on_ending_signal;
      action.sa_flags = SA_RESTART;
      sigaction(signal, &action, nullptr);
    }
  });
}

Status write_whole(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code failure;
  const fs::file_status there = fs::status(path, failure);
  const bool in_place = fs::exists(there) && !fs::is_regular_file(there);
  const std::string target = fs::is_regular_file(there) ? fs::canonical(path, failure).string() : path;
  const std::string written = in_place ? target : target + ".partial";
  std::unique_ptr<UnfinishedOutput> unfinished;
  if (!in_place) {
    TRY_BIND(unfinished, UnfinishedOutput::begin(written));
  }
  std::ofstream out(written, std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  const auto give_name = [&]() -> Status {
    if (out && (in_place || std::rename(written.c_str(), target.c_str()) == 0)) return {};
    return make_error(ErrorCode::kInternal, "cannot write {}: {}", path, std::strerror(errno));
  };
  return unfinished ? unfinished->put(give_name) : give_name();
}

}  // namespace vernier
