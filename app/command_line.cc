#include "app/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace vernier {
namespace {

constexpr std::string_view kModel = "MODEL";

constexpr FlagAlias kAliases[] = {
    {kModel, "--model", "SGLang, vLLM, llama.cpp"},
    {kModel, "--model-path", "SGLang"},
    {kModel, "-m", "llama.cpp"},
    {"max-model-len", "--context-length", "SGLang"},
    {"max-model-len", "--ctx-size", "llama.cpp"},
    {"max-model-len", "-c", "llama.cpp"},
    {"max-model-len", "--max-seq-len", "TensorRT-LLM"},
    {"max-model-len", "--session-len", "LMDeploy"},
    {"max-tokens", "--max-new-tokens", "SGLang"},
    {"max-tokens", "--n-predict", "llama.cpp"},
    {"max-tokens", "--predict", "llama.cpp"},
    {"max-tokens", "-n", "llama.cpp"},
    {"temperature", "--temp", "llama.cpp"},
    {"repetition-penalty", "--repeat-penalty", "llama.cpp"},
    {"system", "--system-prompt", "llama.cpp"},
    {"system", "-sys", "llama.cpp"},
    {"stop", "--reverse-prompt", "llama.cpp"},
    {"stop", "-r", "llama.cpp"},
    {"seed", "-s", "llama.cpp"},
    {"threads", "-t", "llama.cpp"},
    {"sampler-dialect", "--sampling-defaults", "SGLang"},
    {"chat-template", "--chat-template-file", "llama.cpp"},
    {"kv-cache-dtype", "--cache-type-k", "llama.cpp (K and V share one type here)"},
    {"kv-cache-dtype", "-ctk", "llama.cpp (K and V share one type here)"},
    {"kv-dtype-skip", "--kv-cache-dtype-skip-layers", "vLLM"},
    {"kv-scales", "--quantization-param-path", "SGLang, vLLM"},
    {"chunk", "--chunked-prefill-size", "SGLang"},
    {"chunk", "--ubatch-size", "llama.cpp"},
    {"chunk", "-ub", "llama.cpp"},
    {"max-num-batched-tokens", "--max-prefill-tokens", "SGLang"},
    {"max-num-batched-tokens", "--max-num-tokens", "TensorRT-LLM"},
    {"max-num-batched-tokens", "--max-prefill-token-num", "LMDeploy"},
    {"max-num-batched-tokens", "--batch-size", "llama.cpp"},
    {"max-num-batched-tokens", "-b", "llama.cpp"},
    {"max-num-seqs", "--max-running-requests", "SGLang"},
    {"max-num-seqs", "--max-batch-size", "TensorRT-LLM, LMDeploy"},
    {"max-num-seqs", "--parallel", "llama.cpp"},
    {"max-num-seqs", "-np", "llama.cpp"},
    {"memory-fraction", "--mem-fraction-static", "SGLang"},
    {"memory-fraction", "--gpu-memory-utilization", "vLLM"},
    {"memory-fraction", "--kv-cache-free-gpu-memory-fraction", "TensorRT-LLM"},
    {"memory-fraction", "--cache-max-entry-count", "LMDeploy"},
    {"tp", "--tp-size", "SGLang, TensorRT-LLM"},
    {"tp", "--tensor-parallel-size", "vLLM"},
    {"pp", "--pp-size", "SGLang, TensorRT-LLM"},
    {"dp", "--dp-size", "SGLang"},
    {"ep", "--ep-size", "SGLang, TensorRT-LLM"},
    {"no-prefix-cache", "--disable-radix-cache", "SGLang"},
    {"no-prefix-cache", "--no-enable-prefix-caching", "vLLM"},
    {"no-prefix-cache", "--no-cache-prompt", "llama.cpp"},
    {"swa-full", "--disable-hybrid-swa-memory", "SGLang"},
    {"swa-full", "--disable-hybrid-kv-cache-manager", "vLLM"},
    {"schedule", "--schedule-policy", "SGLang"},
    {"schedule", "--scheduling-policy", "vLLM"},
    {"speculative", "--speculative-algorithm", "SGLang, LMDeploy"},
    {"speculative", "--spec-type", "llama.cpp"},
    {"served-model-name", "--alias", "llama.cpp"},
    {"served-model-name", "-a", "llama.cpp"},
    {"served-model-name", "--model-name", "LMDeploy"},
    {"served-model-name", "--model-id", "xLLM"},
    {"api-key", "--api-keys", "LMDeploy"},
    {"request-timeout", "--timeout", "llama.cpp"},
    {"request-timeout", "-to", "llama.cpp"},
    {"deterministic", "--enable-deterministic-inference", "SGLang"},
};

std::string_view flag_part(std::string_view argument) {
  return argument.substr(0, argument.find('='));
}

bool has_option(const CLI::App& command, const std::string& flag) {
  return command.get_option_no_throw(flag) != nullptr;
}

bool takes(const CLI::App& app, const CLI::App* command, const std::string& flag) {
  return has_option(app, flag) || (command != nullptr && has_option(*command, flag));
}

/// `--max_tokens=5` to `--max-tokens=5`; the value keeps its underscores.
std::string hyphenated(std::string argument) {
  if (argument.size() < 3 || !argument.starts_with("--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  if (argument.find(' ') < end) return argument;
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

const FlagAlias* find_alias(std::string_view flag) {
  for (const FlagAlias& alias : flag_aliases()) {
    if (alias.spelling == flag) return &alias;
  }
  return nullptr;
}

bool takes_model(const CLI::App* command) {
  if (command == nullptr) return false;
  const auto options = command->get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_name(true) == kModel;
  });
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

CLI::App* find_command(CLI::App& app, const std::string& name) {
  return const_cast<CLI::App*>(find_command(std::as_const(app), name));
}

std::span<const FlagAlias> flag_aliases() {
  return kAliases;
}

std::string describe_aliases(const CLI::App& app) {
  std::string text = fmt::format("{:<36}{:<28}{:<42}{}\n", "their flag", "ours", "spelt so by", "taken by");
  for (const FlagAlias& alias : flag_aliases()) {
    std::string commands;
    const std::string flag = "--" + std::string(alias.canonical);
    if (has_option(app, flag)) commands = "all";
    for (const CLI::App* command : app.get_subcommands({})) {
      const bool takes_it = alias.canonical == kModel ? takes_model(command) : has_option(*command, flag);
      if (takes_it) commands += (commands.empty() ? "" : ", ") + command->get_name();
    }
    text += fmt::format("{:<36}{:<28}{:<42}{}\n", alias.spelling, alias.canonical == kModel ? "MODEL" : flag,
                        alias.engines, commands.empty() ? "not built yet" : commands);
  }
  return text + "Underscores may stand for hyphens in every long flag.\n";
}

std::optional<size_t> command_position(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("-")) return i;
    const CLI::Option* option = app.get_option_no_throw(std::string(flag_part(arguments[i])));
    if (option != nullptr && option->get_items_expected_min() > 0 && arguments[i].find('=') == std::string::npos) ++i;
  }
  return std::nullopt;
}

const CLI::App* typed_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto position = command_position(app, arguments);
  const CLI::App* command = position ? find_command(app, arguments[*position]) : nullptr;
  if (command == nullptr || *position + 1 >= arguments.size()) return command;
  const CLI::App* form = find_command(*command, arguments[*position + 1]);
  return form == nullptr ? command : form;
}

std::vector<std::string> canonical_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  std::transform(arguments.begin(), separator, arguments.begin(), hyphenated);
  const CLI::App* command = typed_command(app, arguments);

  std::vector<std::string> result;
  std::optional<std::string> model;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    const std::string flag(flag_part(*argument));
    const FlagAlias* alias = argument < separator ? find_alias(flag) : nullptr;
    if (alias == nullptr || takes(app, command, flag)) {
      result.push_back(*argument);
    } else if (alias->canonical == kModel && takes_model(command)) {
      const bool inline_value = flag.size() < argument->size();
      if (!inline_value && argument + 1 == separator) {
        result.push_back(*argument);
        continue;
      }
      model = inline_value ? argument->substr(flag.size() + 1) : *++argument;
    } else if (const std::string ours = "--" + std::string(alias->canonical); takes(app, command, ours)) {
      result.push_back(ours + argument->substr(flag.size()));
    } else {
      result.push_back(*argument);
    }
  }
  if (model) {
    const auto name = std::find(result.begin(), result.end(), command->get_name());
    result.insert(name == result.end() ? name : name + 1, *model);
  }
  return result;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  }
  return names;
}

std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& candidates) {
  auto bare = [](std::string_view name) { return name.substr(std::min(name.find_first_not_of('-'), name.size())); };
  const std::string_view word = bare(typed);
  if (word.size() < 2) return std::nullopt;  // every letter is near to every other
  // A beginning is meant more surely than a misspelling: `--temp` for `--temperature`, `tok` for `tokenize`.
  for (const std::string& candidate : candidates) {
    if (word.size() >= 3 && bare(candidate).starts_with(word)) return candidate;
  }
  const std::string* best = nullptr;
  size_t best_edits = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const size_t edits = edit_distance(word, bare(candidate));
    if (bare(candidate).size() > 1 && edits < best_edits) {
      best = &candidate;
      best_edits = edits;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace vernier
