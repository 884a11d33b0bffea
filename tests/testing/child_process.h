#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace vernier::testing {

/// Runs `work` in a process of its own, which ends with it and writes no results of tests. `true` is exit code 0.
inline pid_t start_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  return child;
}

/// Waits for it: its exit code, or 128 and the signal that ended it.
inline int wait_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace vernier::testing
