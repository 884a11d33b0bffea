#include <unistd.h>

#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/model_flags.h"
#include "app/sampling_flags.h"

namespace vernier {
namespace {

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt;
  bool has_prompt = false;  ///< "" is one
  std::string system;
  bool raw = false;
};

Result<std::string> prompt_of(const RunFlags& flags) {
  const Error empty = invalid_argument("the prompt is empty; only with --raw may a model begin on its own");
  if (flags.has_prompt) {
    if (flags.prompt.empty() && !flags.raw) return empty;
    return flags.prompt;
  }
  if (::isatty(STDIN_FILENO) != 0) {
    return invalid_argument("no prompt; give one after MODEL or on standard input, or use vernier chat");
  }
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return invalid_argument("no prompt after MODEL, and standard input is empty");
  return text;
}

/// As one user message through the model's chat template; as plain text where there is none, or with --raw.
Result<std::vector<int32_t>> encode_prompt(const LoadedModel& model, const RunFlags& flags, const std::string& prompt) {
  TRY_BIND(const ChatTemplate* chat_template, model.chat_template());
  if (flags.raw || chat_template == nullptr) {
    if (!flags.system.empty()) return invalid_argument("--system needs a chat template; this prompt is plain text");
    TRY_BIND(const Tokenizer* tokenizer, model.tokenizer());
    return tokenizer->encode(prompt, {.add_special = true, .parse_special = flags.raw});
  }
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!flags.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return model.encode_chat(messages);
}

std::string_view name(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

/// To three decimals: what comes after them is noise.
double rate(size_t tokens, int64_t ns) {
  return ns > 0 ? std::round(static_cast<double>(tokens) * 1e12 / static_cast<double>(ns)) / 1e3 : 0;
}

Status run(const RunFlags& flags) {
  TRY_BIND(std::string prompt, prompt_of(flags));
  TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(flags.model, flags.sampling.deterministic));
  TRY_BIND(const Tokenizer* tokenizer, model->tokenizer());
  TRY_BIND(GenerateOptions options, flags.sampling.options(*model));
  TRY_BIND(std::vector<int32_t> ids, encode_prompt(*model, flags, prompt));
  TRY_BIND(RunnerOptions runner_options, flags.model.runner_options(*model));
  TRY_STATUS(flags.model.check_fallbacks(kernel_fallbacks(*model, runner_options.caches)));
  TRY_BIND(auto runner, SequenceRunner::make(model->backend(), model->decoder(), runner_options));

  const bool json = global_options().json;
  std::string answer;
  TRY_BIND(Generated generated, generate(*runner, *tokenizer, ids, options, [&](std::string_view text) {
             answer += text;
             if (json) return;
             std::fwrite(text.data(), 1, text.size(), stdout);
             std::fflush(stdout);
           }));
  const size_t decoded = generated.tokens.empty() ? 0 : generated.tokens.size() - 1;
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"text", answer},
                                      {"finish_reason", name(generated.reason)},
                                      {"prompt_tokens", ids.size()},
                                      {"completion_tokens", generated.tokens.size()},
                                      {"seed", options.sampling.seed},
                                      {"prefill_tokens_per_s", rate(ids.size(), generated.prefill_ns)},
                                      {"decode_tokens_per_s", rate(decoded, generated.decode_ns)}}
                           .dump());
    return {};
  }
  if (answer.empty() || answer.back() != '\n') std::fputc('\n', stdout);
  log_info("{} prompt token{} at {:.0f} tok/s, {} more at {:.1f} tok/s, seed {}", ids.size(),
           ids.size() == 1 ? "" : "s", rate(ids.size(), generated.prefill_ns), generated.tokens.size(),
           rate(decoded, generated.decode_ns), options.sampling.seed);
  return {};
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt, streaming");
  flags->model.add_to(*command);
  flags->model.on_fallback = "allow";  // a person waits for the answer, not for advice
  flags->model.add_fallback_flag(*command);
  flags->model.tune.add_to(*command);
  CLI::Option* prompt = command->add_option("PROMPT", flags->prompt, "The prompt (default: standard input)");
  CLI::Option* named = command->add_option("-p,--prompt", flags->prompt, "The prompt, as llama.cpp spells it");
  named->excludes(prompt);
  command->add_option("--system", flags->system, "A system message before it");
  command->add_flag("--raw", flags->raw, "Continue the prompt as plain text, without the chat template");
  flags->sampling.add_to(*command);
  set_work(*command, [flags, prompt, named] {
    flags->has_prompt = prompt->count() + named->count() > 0;
    return run(*flags);
  });
}

}  // namespace vernier
