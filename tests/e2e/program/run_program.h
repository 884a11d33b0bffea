#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace vernier::testing {

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< standard output; standard error too where `vernier` was asked for it
};

/// Runs the program through a shell. `arguments` may hold redirections.
inline Outcome vernier(const std::string& arguments, bool with_errors = false) {
  const std::string command = std::string(VERNIER_PROGRAM) + " " + arguments + (with_errors ? " 2>&1" : " 2>/dev/null");
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), nullptr);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    outcome.output.append(buffer.data(), got);
  const int status = ::pclose(pipe.release());
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder's model, small enough to be in the repository.
inline std::string tiny_model(const std::string& name) {
  return std::string(VERNIER_TEST_DATA) + "/models/" + name;
}

}  // namespace vernier::testing
