#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/model_flags.h"
#include "app/sampling_flags.h"

namespace vernier {
namespace {

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};

/// A conversation at the terminal. Each turn renders all of it again and feeds what the cache does not hold yet.
class Conversation {
 public:
  Conversation(const LoadedModel& model, const Tokenizer& tokenizer, SequenceRunner& runner, std::string system)
      : model_(model), tokenizer_(tokenizer), runner_(runner), system_(std::move(system)) {
    clear();
  }

  void clear() {
    messages_ = nlohmann::ordered_json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
    runner_.reset();
    fed_.clear();
  }

  Status answer(const std::string& text, const GenerateOptions& options) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    Result<std::string> answer = generate_answer(options);
    if (!answer.ok()) {
      messages_.erase(messages_.size() - 1);
      runner_.reset();
      fed_.clear();
      return answer.error();
    }
    messages_.push_back({{"role", "assistant"}, {"content", *answer}});
    return {};
  }

 private:
  Result<std::string> generate_answer(const GenerateOptions& options) {
    TRY_BIND(std::vector<int32_t> ids, model_.encode_chat(messages_));
    // The cache can go on only where all of it is a prefix of the new rendering, and one token is left to feed.
    const bool prefix = fed_.size() < ids.size() && std::equal(fed_.begin(), fed_.end(), ids.begin());
    if (!prefix) {
      runner_.reset();
      fed_.clear();
    }
    std::string answer;
    TRY_BIND(Generated generated, generate(runner_, tokenizer_, ids, options, [&](std::string_view piece) {
               answer += piece;
               std::fwrite(piece.data(), 1, piece.size(), stdout);
               std::fflush(stdout);
             }));
    std::fputc('\n', stdout);
    if (generated.reason == FinishReason::kContext) {
      fmt::print(stderr, "(the context of {} tokens is full; /clear starts anew)\n", runner_.context_tokens());
    }
    fed_ = std::move(ids);
    fed_.insert(fed_.end(), generated.tokens.begin(), generated.tokens.end());
    fed_.resize(static_cast<size_t>(runner_.position()));  // the last token was drawn and not fed
    return answer;
  }

  const LoadedModel& model_;
  const Tokenizer& tokenizer_;
  SequenceRunner& runner_;
  std::string system_;
  nlohmann::ordered_json messages_;
  std::vector<int32_t> fed_;
};

Status chat(const ChatFlags& flags) {
  if (global_options().json) return invalid_argument("--json: a conversation has no JSON form; use vernier run --json");
  TRY_BIND(std::unique_ptr<LoadedModel> model, load_for(flags.model, flags.sampling.deterministic));
  TRY_BIND(const Tokenizer* tokenizer, model->tokenizer());
  TRY_BIND(const ChatTemplate* chat_template, model->chat_template());
  if (chat_template == nullptr) {
    return unsupported("{} has no chat template, so there are no turns to take; use vernier run", model->path());
  }
  TRY_BIND(GenerateOptions options, flags.sampling.options(*model));
  TRY_BIND(RunnerOptions runner_options, flags.model.runner_options(*model));
  TRY_STATUS(flags.model.check_fallbacks(kernel_fallbacks(*model, runner_options.caches)));
  TRY_BIND(auto runner, SequenceRunner::make(model->backend(), model->decoder(), runner_options));
  Conversation conversation(*model, *tokenizer, *runner, flags.system);

  const bool prompts = ::isatty(STDIN_FILENO) != 0;
  if (prompts) fmt::print("{}: write and press Enter; /clear starts anew, /exit or Ctrl-D ends\n", model->path());
  std::string line;
  while (true) {
    if (prompts) {
      fmt::print("> ");
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line) || line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/clear") {
      conversation.clear();
      continue;
    }
    Status answered = conversation.answer(line, options);
    if (!answered.ok()) {
      if (!prompts) return answered;
      fmt::print(stderr, "error: {}\n", answered.error().to_string());
    }
  }
  return {};
}

}  // namespace

void add_chat_command(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model at the terminal");
  flags->model.add_to(*command);
  flags->model.on_fallback = "allow";  // a person waits for the answer, not for advice
  flags->model.add_fallback_flag(*command);
  flags->model.tune.add_to(*command);
  command->add_option("--system", flags->system, "A system message for the whole conversation");
  flags->sampling.add_to(*command);
  set_work(*command, [flags] { return chat(*flags); });
}

}  // namespace vernier
