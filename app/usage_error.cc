#include "app/usage_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "app/command_line.h"
#include "app/foreign_flags.h"
#include "app/number_flags.h"

namespace vernier {
namespace {

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  const auto close = nearest(typed, known);
  return close ? fmt::format("; did you mean {}?", *close) : "";
}

/// The first flag, else the first word, of CLI11's "... not expected: a b c".
std::string first_unexpected(const std::string& message) {
  const size_t colon = message.find(": ");
  const std::string list = colon == std::string::npos ? message : message.substr(colon + 2);
  const size_t flag = list.starts_with("-") ? 0 : list.find(" -") == std::string::npos ? 0 : list.find(" -") + 1;
  return list.substr(flag, list.find(' ', flag) - flag);
}

std::string name_of(const CLI::App& app, const CLI::App* command) {
  if (command == nullptr) return "";
  const CLI::App* parent = command->get_parent();
  return parent == &app || parent == nullptr ? command->get_name() : parent->get_name() + " " + command->get_name();
}

void collect_takers(const CLI::App& app, const CLI::App& command, const std::string& flag,
                    std::vector<std::string>& takers) {
  if (command.get_option_no_throw(flag) != nullptr) takers.push_back("vernier " + name_of(app, &command));
  for (const CLI::App* form : command.get_subcommands({})) collect_takers(app, *form, flag, takers);
}

/// "; vernier serve takes it" of a flag, or a spelling of one, that other commands have.
std::string taken_elsewhere(const CLI::App& app, const std::string& flag) {
  std::string ours = flag;
  for (const FlagAlias& alias : flag_aliases()) {
    if (alias.spelling == flag) ours = "--" + std::string(alias.canonical);
  }
  std::vector<std::string> takers;
  for (const CLI::App* command : app.get_subcommands({})) collect_takers(app, *command, ours, takers);
  if (takers.empty()) return "";
  return fmt::format("; {} take{} {}", fmt::join(takers, ", "), takers.size() == 1 ? "s" : "",
                     ours == flag ? "it" : "it as " + ours);
}

/// "; vernier run has --temperature" of a flag that is like one of another command.
std::string like_elsewhere(const CLI::App& app, const std::string& flag) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const auto close = nearest(flag, flag_names(*command));
    if (close) return fmt::format("; vernier {} has {}", command->get_name(), *close);
  }
  return "";
}

std::string unknown_flag(const CLI::App& app, const CLI::App& command, const std::string& flag) {
  if (const auto advice = foreign_flag_advice(flag)) return fmt::format("unknown flag {}: {}", flag, *advice);
  std::string hint = taken_elsewhere(app, flag);
  if (hint.empty()) hint = did_you_mean(flag, flag_names(command));
  if (hint.empty()) hint = like_elsewhere(app, flag);
  return fmt::format("unknown flag {}{}", flag, hint);
}

std::string unexpected(const CLI::App& app, const CLI::App& command, const std::string& typed) {
  if (typed.starts_with("-")) return unknown_flag(app, command, typed.substr(0, typed.find('=')));
  const bool prompts =
      command.get_option_no_throw("PROMPT") != nullptr || command.get_option_no_throw("TEXT") != nullptr;
  return fmt::format("unexpected argument {}{}", typed, prompts ? "; a text of several words goes in quotes" : "");
}

std::string missing(const CLI::App& command, const CLI::ParseError& error) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0) names.push_back(option->get_name());
  }
  if (names.size() < 2) return error.what();
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {} are required", fmt::join(names, ", "), last);
}

/// " (from the environment: VERNIER_ARG_PORT)" where the flag that the message begins with was not typed.
std::string origin(const CLI::App& app, const std::string& message, const std::vector<std::string>& arguments) {
  std::vector<const CLI::App*> commands = {&app};
  for (size_t i = 0; i < commands.size(); ++i) {
    for (const CLI::App* command : commands[i]->get_subcommands({})) commands.push_back(command);
    for (const CLI::Option* option : commands[i]->get_options()) {
      const std::string name = option->get_name();
      if (option->get_envname().empty() || !message.starts_with(name)) continue;
      if (message.size() > name.size() && message[name.size()] != ':' && message[name.size()] != ' ') continue;
      const bool typed = std::ranges::any_of(arguments, [&](const std::string& argument) {
        return argument.starts_with("-") && option->check_name(argument.substr(0, argument.find('=')));
      });
      const bool is_set = std::getenv(option->get_envname().c_str()) != nullptr;
      if (!typed && is_set) return fmt::format(" (from the environment: {})", option->get_envname());
    }
  }
  return "";
}

}  // namespace

UsageError explain_usage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const auto position = command_position(app, arguments);
  const CLI::App* command = typed_command(app, arguments);
  if (position && command == nullptr) {
    std::vector<std::string> names;
    for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
    return {fmt::format("unknown command {}{}", arguments[*position], did_you_mean(arguments[*position], names)), ""};
  }
  const CLI::App& at = command == nullptr ? app : *command;
  const std::string name = name_of(app, command);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return {unexpected(app, at, first_unexpected(error.what())), name};
  }
  if (command == nullptr && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return {"no command; vernier --help lists them", name};
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return {missing(at, error), name};
  const std::string message = describe_bad_value(app, error);
  return {message + origin(app, message, arguments), name};
}

std::optional<UsageError> find_flag_beside_form(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto position = command_position(app, arguments);
  const CLI::App* command = position ? find_command(app, arguments[*position]) : nullptr;
  if (command == nullptr) return std::nullopt;
  const CLI::App* form = nullptr;
  std::vector<std::string> flags;
  for (size_t i = *position + 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (!arguments[i].starts_with("-")) {
      if (form == nullptr) form = find_command(*command, arguments[i]);
      continue;
    }
    const std::string flag = arguments[i].substr(0, arguments[i].find('='));
    flags.push_back(flag);
    const CLI::Option* option = form != nullptr ? form->get_option_no_throw(flag) : nullptr;
    if (option == nullptr) option = command->get_option_no_throw(flag);
    if (option == nullptr) option = app.get_option_no_throw(flag);
    const bool value_follows = option != nullptr && option->get_items_expected_min() > 0;
    if (value_follows && flag.size() == arguments[i].size()) ++i;
  }
  if (form == nullptr) return std::nullopt;
  for (const std::string& flag : flags) {
    if (form->get_option_no_throw(flag) != nullptr || app.get_option_no_throw(flag) != nullptr) continue;
    if (command->get_option_no_throw(flag) == nullptr) continue;
    const std::string name = command->get_name() + " " + form->get_name();
    return UsageError{fmt::format("{} is of vernier {} MODEL; {} does not take it", flag, command->get_name(), name),
                      name};
  }
  return std::nullopt;
}

}  // namespace vernier
