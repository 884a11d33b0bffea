#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "app/exit_code.h"

namespace vernier {

/// The whole program but for its list of commands: global flags, environment, configuration file, spelling of flags,
/// errors with the nearest match, exit codes. `arguments` without the program's name. Main thread, once for each
/// process.
ExitCode run_program(const std::function<void(CLI::App&)>& add_commands, std::vector<std::string> arguments);

}  // namespace vernier
