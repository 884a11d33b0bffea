#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "base/log.h"
#include "base/result.h"

namespace vernier {

/// Flags that every command takes. Filled from the command line, the environment (VERNIER_...) and the configuration
/// file before a command runs, and constant from then on.
struct GlobalOptions {
  bool json = false;           ///< print one JSON value instead of text for people
  std::string isa;             ///< "baseline", "avx2", "avx512", "amx"; empty: the best that the machine has
  int threads = 0;             ///< 0: one for each core
  std::filesystem::path home;  ///< models and tactics: VERNIER_HOME, else ~/.cache/vernier
  LogLevel log_level = LogLevel::kWarning;
};
const GlobalOptions& global_options();

/// Gives a command its work. A failed Status is printed on standard error and becomes the exit code (exit_code.h).
void set_work(CLI::App& command, std::function<Status()> work);

/// The path of a MODEL argument: a file or folder as it is, else a short name ("smollm2-135m") in home/models.
Result<std::string> find_model(const std::string& given);

/// app/<name>_command.cc defines add_<name>_command: it adds one subcommand, its flags and its work. The build lists
/// the files that exist, so a command is added by its file alone.
void add_bench_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_chat_command(CLI::App& app);
void add_detokenize_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_lint_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_render_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_selftest_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_verify_command(CLI::App& app);

}  // namespace vernier
