#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/load_tokenizer.h"
#include "app/commands.h"
#include "audit/lint.h"

namespace vernier {
namespace {

struct LintFlags {
  std::vector<std::string> paths;
  bool all = false;
  bool strict = false;
};

/// A path as it is, else a short name; what is neither is searched, so that it is reported with the others.
std::string lint_path(const std::string& given) {
  Result<std::string> found = find_model(given);
  return found.ok() ? *found : given;
}

Status run_lint(const LintFlags& flags) {
  const LintOptions options{[](const TokenizerSource& source) { return load_tokenizer(source); }};
  nlohmann::json all = nlohmann::json::array();
  int64_t errors = 0, warnings = 0, broken = 0;
  for (const std::string& given : flags.paths) {
    const LintReport report = lint(lint_path(given), options);
    errors += report.count(LintLevel::kError);
    warnings += report.count(LintLevel::kWarning);
    const bool fails = report.count(LintLevel::kError) > 0 || (flags.strict && report.count(LintLevel::kWarning) > 0);
    if (fails) ++broken;
    if (global_options().json) {
      all.push_back(report.to_json());
    } else {
      fmt::print("{}", report.to_string(flags.all ? 0 : 5));
    }
  }
  if (global_options().json) fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  if (broken == 0) return {};
  return corrupt("{} errors and {} warnings; {} of {} paths would not load, or would answer wrongly", errors, warnings,
                 broken, flags.paths.size());
}

}  // namespace

void add_lint_command(CLI::App& app) {
  auto flags = std::make_shared<LintFlags>();
  CLI::App* command = app.add_subcommand("lint", "Search checkpoints for everything that is wrong with them");
  command
      ->add_option("PATH", flags->paths,
                   "Hugging Face folders, GGUF files, single .safetensors, .json or .jinja files, or short names")
      ->required();
  command->add_flag("--all", flags->all, "List every finding, not the first five of each kind");
  command->add_flag("--strict", flags->strict, "Fail on warnings, too");
  set_work(*command, [flags] { return run_lint(*flags); });
}

}  // namespace vernier
