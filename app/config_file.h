#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace vernier {

/// Makes the values of a TOML file the defaults of the program's flags: a key at the top is a flag of every command
/// that has it, a table [run] holds flags of that command. The command line and the environment win over the file.
/// Refuses an unknown key or command, by name and with the nearest known one, and a value the flag does not take.
Status apply_config_file(CLI::App& app, const std::string& path);

}  // namespace vernier
