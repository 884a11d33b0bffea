#include "base/unfinished_output.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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

UnfinishedOutput::UnfinishedOutput(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::exists(path_, ignored)) {
    log_warning("{} is of a run that was cut short: it is removed", path_.string());
    fs::remove_all(path_, ignored);
  }
  std::lock_guard lock(unfinished_paths().mutex);
  unfinished_paths().paths.push_back(path_);
}

UnfinishedOutput::~UnfinishedOutput() {
  std::lock_guard lock(unfinished_paths().mutex);
  std::vector<fs::path>& paths = unfinished_paths().paths;
  const auto place = std::ranges::find(paths, path_);
  if (place == paths.end()) return;
  paths.erase(place);
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Status UnfinishedOutput::put(const std::function<Status()>& give_name) {
  std::lock_guard lock(unfinished_paths().mutex);
  TRY_STATUS(give_name());
  std::erase(unfinished_paths().paths, path_);
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

}  // namespace vernier
