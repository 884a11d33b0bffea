#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

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
    return static_cast<int>(vernier::run_program(vernier::add_commands, {argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: unexpected: {}\n", error.what());
    return static_cast<int>(vernier::ExitCode::kFailed);
  }
}
