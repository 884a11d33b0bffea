#pragma once

#include <CLI/CLI.hpp>

namespace vernier {

/// Makes every flag of a command and its forms that takes a number refuse what is none, and what its type cannot hold:
/// nothing is clamped, wrapped or read as octal. To be called when all commands are there.
void check_numbers(CLI::App& command);

/// A size in bytes: "1000000", "512KiB", "4GB" (powers of 1000), "4GiB" and "4g" (powers of 1024).
CLI::Validator byte_size();

/// What to say of a value that a flag did not take: "--port 99999: expected 0 to 65535".
std::string describe_bad_value(const CLI::App& app, const CLI::ParseError& error);

}  // namespace vernier
