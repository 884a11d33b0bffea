#include "app/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "app/command_line.h"
#include "app/number_flags.h"

namespace vernier {
namespace {

/// A value as the command line would spell it; nullopt for dates and tables.
std::optional<std::string> spelled(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* list = node.as_array()) {
    std::string joined;
    for (const toml::node& item : *list) {
      const auto text = spelled(item);
      if (!text || item.is_array()) return std::nullopt;
      joined += (joined.empty() ? "" : ",") + *text;
    }
    return "[" + joined + "]";
  }
  return std::nullopt;
}

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

Error with_place(Error error, std::string where) {
  error.where = std::move(where);
  return error;
}

Status set_default(const CLI::App& command, CLI::Option& option, const std::string& key, const toml::node& node,
                   const std::string& path) {
  const auto text = spelled(node);
  if (!text) {
    return with_place(invalid_argument("{}: expected a string, a number, true, false or a list of them", key),
                      place(path, node));
  }
  try {
    option.default_val(*text);
  } catch (const CLI::Error& error) {
    const auto* refused = dynamic_cast<const CLI::ParseError*>(&error);
    const std::string message = refused != nullptr ? describe_bad_value(command, *refused) : error.what();
    return with_place(invalid_argument("{} = {}: {}", key, *text, message), place(path, node));
  }
  return {};
}

Error unknown(std::string_view what, const std::string& key, const std::vector<std::string>& known,
              const std::string& where) {
  const auto close = nearest(key, known);
  return with_place(invalid_argument("unknown {} {}{}", what, key, close ? "; did you mean " + *close + "?" : ""),
                    where);
}

std::vector<std::string> keys_of(const CLI::App& command) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : command.get_options()) {
    keys.insert(keys.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return keys;
}

CLI::Option* find_option(CLI::App& command, std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  if (key == "config" || key.starts_with("help") || key == "version") return nullptr;
  return command.get_option_no_throw("--" + key);
}

Status apply_command(CLI::App& app, const std::string& name, const toml::table& table, const std::string& path) {
  CLI::App* command = find_command(app, name);
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
    return unknown("command", name, names, place(path, table));
  }
  for (const auto& [key, node] : table) {
    if (const toml::table* form = node.as_table()) {
      TRY_STATUS(apply_command(*command, std::string(key.str()), *form, path));
      continue;
    }
    CLI::Option* option = find_option(*command, std::string(key.str()));
    if (option == nullptr) {
      return unknown(fmt::format("key of [{}]:", name), std::string(key.str()), keys_of(*command), place(path, node));
    }
    TRY_STATUS(set_default(*command, *option, std::string(key.str()), node, path));
  }
  return {};
}

/// The program, its commands and their forms.
void find_takers(CLI::App& app, const std::string& key, std::vector<CLI::Option*>& options,
                 std::vector<std::string>& known) {
  if (CLI::Option* option = find_option(app, key)) options.push_back(option);
  const auto more = keys_of(app);
  known.insert(known.end(), more.begin(), more.end());
  for (CLI::App* command : app.get_subcommands({})) find_takers(*command, key, options, known);
}

Status apply_everywhere(CLI::App& app, const std::string& key, const toml::node& node, const std::string& path) {
  std::vector<CLI::Option*> options;
  std::vector<std::string> known;
  find_takers(app, key, options, known);
  if (options.empty()) return unknown("key", key, known, place(path, node));
  for (CLI::Option* option : options) TRY_STATUS(set_default(app, *option, key, node, path));
  return {};
}

/// A device or a pipe might never end.
Status check_file(const std::string& path) {
  constexpr uintmax_t kMostBytes = uintmax_t{1} << 20;
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) return not_found("cannot read the configuration file {}: not there", path);
  if (!std::filesystem::is_regular_file(status)) return invalid_argument("--config {}: no regular file", path);
  const uintmax_t bytes = std::filesystem::file_size(path, failure);
  if (!failure && bytes <= kMostBytes) return {};
  return invalid_argument("--config {}: {} bytes are more than a configuration has (at most {})", path, bytes,
                          kMostBytes);
}

}  // namespace

Status apply_config_file(CLI::App& app, const std::string& path) {
  TRY_STATUS(check_file(path));
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    if (line == 0) return not_found("cannot read the configuration file {}: {}", path, error.description());
    return with_place(invalid_argument("{}", error.description()), fmt::format("{}:{}", path, line));
  }
  for (const auto& [key, node] : file) {
    if (const toml::table* table = node.as_table()) {
      TRY_STATUS(apply_command(app, std::string(key.str()), *table, path));
    } else {
      TRY_STATUS(apply_everywhere(app, std::string(key.str()), node, path));
    }
  }
  return {};
}

}  // namespace vernier
