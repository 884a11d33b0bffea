#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace vernier {

/// What was wrong with a command line, and what to write instead.
struct UsageError {
  std::string message;
  std::string command;  ///< "run", "bench serve"; empty where none is known
};

/// Of the error that parsing `arguments` (in our spelling) ended with.
UsageError explain_usage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments);

/// A command's own flag beside one of its forms (`bench --numerics exact serve`), where it would be read and change
/// nothing.
std::optional<UsageError> find_flag_beside_form(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace vernier
