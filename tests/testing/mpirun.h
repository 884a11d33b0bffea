#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace vernier::testing {

inline constexpr const char* kNoMpirun = "no mpirun on this machine; tools/setup installs Open MPI";

inline bool has_mpirun() {
  return std::system("mpirun --version >/dev/null 2>&1") == 0;
}

struct MpiOutcome {
  int exit_code = -1;
  std::string output;  ///< of all ranks and of mpirun, errors too
};

/// Runs a command line on each of so many ranks of this machine, whoever runs the tests.
inline MpiOutcome mpirun(int ranks, const std::string& command) {
  const std::string line =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun --oversubscribe -n " +
      std::to_string(ranks) + " " + command + " 2>&1";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), nullptr);
  MpiOutcome outcome;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    outcome.output.append(buffer.data(), got);
  const int status = ::pclose(pipe.release());
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace vernier::testing
