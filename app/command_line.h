#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// Another engine's spelling of one of our flags. `canonical` without dashes; "MODEL" is the positional argument.
struct FlagAlias {
  std::string_view canonical;
  std::string_view spelling;  ///< with dashes, as typed
  std::string_view engines;   ///< who spells it so
};
std::span<const FlagAlias> flag_aliases();

/// The table for --help-aliases: each alias, our flag, the commands that take it ("not built yet" where none does).
std::string describe_aliases(const CLI::App& app);

/// Arguments as typed (without the program's name) in our spelling: `--top_k` becomes `--top-k`, `--n-predict 5`
/// becomes
/// `--max-tokens 5` where the command has that flag, `--model M` becomes the positional MODEL. Nothing after `--`
/// changes.
std::vector<std::string> canonical_arguments(const CLI::App& app, std::vector<std::string> arguments);

/// The command of that name; null where there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);
CLI::App* find_command(CLI::App& app, const std::string& name);

/// Where the command's name stands in the arguments; nullopt where there is none.
std::optional<size_t> command_position(const CLI::App& app, const std::vector<std::string>& arguments);

/// The command that the arguments name, or the form of it that the next word names (`bench serve`); null: none.
const CLI::App* typed_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// Every flag of a command and of the program, with dashes.
std::vector<std::string> flag_names(const CLI::App& command);

/// The candidate with the fewest edits, if close enough to be meant.
std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace vernier
