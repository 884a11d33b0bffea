#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/program.h"

namespace vernier {
namespace {

void add_commands(CLI::App& app) {
#define VERNIER_COMMAND(name) add_##name##_command(app);
#include "command_list.h"
#undef VERNIER_COMMAND
}

}  // namespace
}  // namespace vernier

int main(int argc, char** argv) {
  try {
    const auto code = vernier::run_program(vernier::add_commands, {argv + 1, argv + argc});
    // A full disk must not pass for an answer.
    std::cout.flush();
    if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return static_cast<int>(code);
    std::fputs("error: standard output does not take what was written; what it holds is not whole\n", stderr);
    return static_cast<int>(code == vernier::ExitCode::kSuccess ? vernier::ExitCode::kFailed : code);
  } catch (const std::exception& error) {
    // fmt::print throws where standard error takes nothing either.
    std::fprintf(stderr, "error: unexpected: %s\n", error.what());
    return static_cast<int>(vernier::ExitCode::kFailed);
  }
}
