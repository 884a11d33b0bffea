#include "app/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/config_file.h"
#include "app/number_flags.h"
#include "app/usage_error.h"

namespace vernier {
namespace {

constexpr const char* kFooter = R"(
Each flag may also come from the environment (VERNIER_HOME, VERNIER_ISA, VERNIER_THREADS, VERNIER_LOG_LEVEL, VERNIER_JSON,
VERNIER_CONFIG; a command's flag --top-k from VERNIER_ARG_TOP_K) or from a TOML file (--config). The command line wins over
the environment, the environment over the file.

`vernier help COMMAND` is `vernier COMMAND --help`.

Exit codes: 0 success, 1 failed, 2 usage, 3 not found, 4 corrupt file, 5 not supported, 6 does not fit in memory.)";

struct ProgramState {
  GlobalOptions options;
  std::string config_path;
  std::string log_level = "warning";
  std::string home;
  Status outcome;
};

ProgramState& state() {
  static ProgramState instance;
  return instance;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add_global_flags(CLI::App& app) {
  ProgramState& program = state();
  app.add_flag("--json", program.options.json, "print JSON instead of text for people");
  app.add_option("--config", program.config_path, "TOML file with defaults for flags")->type_name("FILE");
  app.add_option("--isa", program.options.isa,
                 "CPU instruction set: baseline, avx2, avx512, amx (default: the best there is)")
      ->type_name("NAME");
  app.add_option("--threads", program.options.threads, "CPU threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--home", program.home, "folder of models and tactics (default: ~/.cache/vernier)")
      ->type_name("FOLDER");
  app.add_option("--log-level", program.log_level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "warn", "error", "off"}));
  app.add_flag_callback(
      "--help-aliases",
      [&app] {
        fmt::print("{}", describe_aliases(app));
        throw CLI::Success();
      },
      "list the spellings of other engines that are taken too");
  app.set_version_flag("--version", std::string("vernier ") + VERNIER_VERSION, "print the version");
}

/// VERNIER_HOME for --home, VERNIER_ARG_TOP_K for a command's --top-k.
void name_environment(CLI::App& app, const std::string& prefix) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    std::string name = option->get_lnames().front();
    if (name.starts_with("help") || name == "version") continue;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    option->envname(prefix + name);
  }
}

/// The configuration file must be known before parsing: its values become defaults.
std::string config_path(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(9);
  }
  return environment("VERNIER_CONFIG");
}

ExitCode fail(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.to_string());
  return exit_code(error.code);
}

ExitCode usage_error(const std::string& message, const std::string& command) {
  fmt::print(stderr, "error: {}\nvernier {}--help says more\n", message, command.empty() ? "" : command + " ");
  return ExitCode::kUsage;
}

/// `help run` for `run --help`; `-v` alone for --version, since a command's -v means something else to others.
std::vector<std::string> spelled_as_flags(std::vector<std::string> arguments) {
  if (arguments.front() == "help") {
    std::rotate(arguments.begin(), arguments.begin() + 1, arguments.end());
    arguments.back() = "--help";
  }
  if (arguments.size() == 1 && (arguments[0] == "-v" || arguments[0] == "-V")) return {"--version"};
  return arguments;
}

ExitCode answer_parse_error(CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == 0) {
    // Asked for the help of a command that is none, the library shows the program's.
    if (command_position(app, arguments) && typed_command(app, arguments) == nullptr) {
      const UsageError wrong = explain_usage(app, error, arguments);
      return usage_error(wrong.message, wrong.command);
    }
    app.exit(error);
    return ExitCode::kSuccess;
  }
  const UsageError wrong = explain_usage(app, error, arguments);
  return usage_error(wrong.message, wrong.command);
}

Status settle_globals() {
  ProgramState& program = state();
  if (!program.home.empty()) {
    program.options.home = program.home;
  } else {
    const std::string user = environment("HOME");
    program.options.home =
        user.empty() ? std::filesystem::path("/var/tmp/vernier") : std::filesystem::path(user) / ".cache" / "vernier";
  }
  program.options.log_level = parse_log_level(program.log_level).value_or(LogLevel::kWarning);
  set_log_level(program.options.log_level);
  return {};
}

}  // namespace

const GlobalOptions& global_options() {
  return state().options;
}

void set_work(CLI::App& command, std::function<Status()> work) {
  command.callback([work = std::move(work)] {
    if (!state().outcome.ok()) return;  // of the form that was given
    state().outcome = settle_globals();
    if (state().outcome.ok()) state().outcome = work();
  });
}

ExitCode run_program(const std::function<void(CLI::App&)>& add_commands, std::vector<std::string> arguments) {
  state() = ProgramState{};
  CLI::App app{"Vernier serves large language models stored in narrow numbers.", "vernier"};
  app.footer(kFooter);
  add_global_flags(app);
  name_environment(app, "VERNIER_");
  add_commands(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    name_environment(*command, "VERNIER_ARG_");
    for (CLI::App* form : command->get_subcommands({})) {
      form->fallthrough();
      name_environment(*form, "VERNIER_ARG_");
    }
  }
  check_numbers(app);
  app.require_subcommand(1);
  if (arguments.empty()) {
    fmt::print("{}", app.help());
    return ExitCode::kUsage;
  }
  arguments = spelled_as_flags(std::move(arguments));
  if (const std::string path = config_path(arguments); !path.empty()) {
    if (Status status = apply_config_file(app, path); !status.ok()) return fail(status.error());
  }
  arguments = canonical_arguments(app, std::move(arguments));
  if (const auto wrong = find_flag_beside_form(app, arguments)) return usage_error(wrong->message, wrong->command);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return answer_parse_error(app, error, arguments);
  }
  return state().outcome.ok() ? ExitCode::kSuccess : fail(state().outcome.error());
}

}  // namespace vernier
