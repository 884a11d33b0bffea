#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/model_flags.h"
#include "app/text_tokens.h"
#include "audit/evaluate.h"
#include "base/progress.h"

namespace vernier {
namespace {

struct EvalFlags {
  ModelFlags a;
  std::string b, b_numerics, b_kv_cache_dtype, b_kv_scales, b_quantization;
  std::string text;
  int32_t window = 512;
  int64_t tokens = 8192;
};

/// A loaded model and one sequence over it.
struct Judged {
  std::unique_ptr<LoadedModel> model;
  std::unique_ptr<SequenceRunner> runner;
};

Result<Judged> load_judged(const ModelFlags& flags, int32_t window) {
  Judged judged;
  TRY_BIND(judged.model, load_for(flags));
  TRY_BIND(RunnerOptions options, flags.runner_options(*judged.model));
  if (window > options.context_tokens) {
    return invalid_argument("--context {}: the model was made for {} tokens", window, options.context_tokens);
  }
  options.context_tokens = window;
  TRY_BIND(judged.runner, SequenceRunner::make(judged.model->backend(), judged.model->decoder(), options));
  return judged;
}

Result<TextTokens> tokenise(const LoadedModel& model, const std::string& text, int64_t limit) {
  TRY_BIND(const Tokenizer* tokenizer, model.tokenizer());
  return tokenise_text(*tokenizer, text, limit);
}

/// The same text must be the same tokens to both; a model without a tokenizer is taken to have the other's.
Status check_same_tokens(const LoadedModel& a, const LoadedModel& b, const std::string& text) {
  if (!b.tokenizer().ok()) return {};
  TRY_BIND(TextTokens of_a, tokenise(a, text, 0));
  TRY_BIND(TextTokens of_b, tokenise(b, text, 0));
  if (of_a.text == of_b.text) return {};
  return invalid_argument("{} and {} cut the text into different tokens: their predictions cannot be compared",
                          a.path(), b.path());
}

/// Shows progress while `measure` runs.
template <class Measure>
auto with_progress(const EvalFlags& flags, const TextTokens& tokens, const Measure& measure) {
  std::optional<Progress> bar;
  EvalOptions options{flags.window, tokens.prefix, [&](int64_t done, int64_t total) {
                        if (!bar) bar.emplace("eval", total, ProgressUnit::kCount);
                        bar->set(done);
                      }};
  auto result = measure(options);
  if (bar && result.ok()) bar->finish();
  return result;
}

nlohmann::json to_json(const Perplexity& of) {
  return {{"perplexity", of.perplexity}, {"nll", of.nll}, {"nll_error", of.nll_error}, {"scored_tokens", of.scored}};
}

Status run_ppl(const EvalFlags& flags) {
  TRY_BIND(std::string text, read_text(flags.text));
  TRY_BIND(Judged judged, load_judged(flags.a, flags.window));
  TRY_BIND(TextTokens tokens, tokenise(*judged.model, text, flags.tokens));
  TRY_BIND(Perplexity found, with_progress(flags, tokens, [&](const EvalOptions& options) {
             return measure_perplexity(*judged.runner, tokens.text, options);
           }));
  if (global_options().json) {
    fmt::print("{}\n", to_json(found).dump());
    return {};
  }
  fmt::print("perplexity   {:.4f} +- {:.4f}, {} tokens scored in windows of {}\n", found.perplexity,
             found.perplexity * found.nll_error, found.scored, flags.window);
  return {};
}

Result<ModelFlags> second_model(const EvalFlags& flags) {
  ModelFlags b = flags.a;
  const bool has_setting = !flags.b_numerics.empty() || !flags.b_kv_cache_dtype.empty() || !flags.b_kv_scales.empty() ||
                           !flags.b_quantization.empty();
  if (flags.b.empty() && !has_setting) {
    return invalid_argument(
        "nothing to compare: give a second model, or one of --b-quantization, --b-numerics, --b-kv-cache-dtype and "
        "--b-kv-scales");
  }
  if (!flags.b.empty()) {
    b.model = flags.b;
    b.quantization.clear();
    b.keep.clear();
    b.quantize_head = false;
  }
  if (!flags.b_numerics.empty()) b.numerics = flags.b_numerics;
  if (!flags.b_kv_cache_dtype.empty()) b.kv_cache_dtype = flags.b_kv_cache_dtype;
  if (!flags.b_kv_scales.empty()) b.kv_scales = flags.b_kv_scales;
  if (!flags.b_quantization.empty()) b.quantization = flags.b_quantization;
  return b;
}

Status run_kl(const EvalFlags& flags) {
  TRY_BIND(ModelFlags second, second_model(flags));
  TRY_BIND(std::string text, read_text(flags.text));
  TRY_BIND(Judged a, load_judged(flags.a, flags.window));
  TRY_BIND(Judged b, load_judged(second, flags.window));
  TRY_BIND(TextTokens tokens, tokenise(*a.model, text, flags.tokens));
  if (!flags.b.empty()) TRY_STATUS(check_same_tokens(*a.model, *b.model, text));
  TRY_BIND(Divergence found, with_progress(flags, tokens, [&](const EvalOptions& options) {
             return measure_divergence(*a.runner, *b.runner, tokens.text, options);
           }));
  if (global_options().json) {
    const nlohmann::json all = {{"kl",
                                 {{"mean", found.mean},
                                  {"mean_error", found.mean_error},
                                  {"median", found.median},
                                  {"p99", found.p99},
                                  {"largest", found.largest}}},
                                {"top1_agreement", found.top1_agreement},
                                {"rms_delta_p", found.rms_delta_p},
                                {"a", to_json(found.a)},
                                {"b", to_json(found.b)}};
    fmt::print("{}\n", all.dump());
    return {};
  }
  fmt::print("KL(A || B)   mean {:.6f} +- {:.6f}, median {:.6f}, 99th percentile {:.6f}, largest {:.4f} nats\n",
             found.mean, found.mean_error, found.median, found.p99, found.largest);
  fmt::print("top-1        {:.2f} % agree; probability of the text's token moves by {:.2f} % (root mean square)\n",
             100 * found.top1_agreement, 100 * found.rms_delta_p);
  fmt::print("perplexity   A {:.4f}, B {:.4f}; {} tokens scored in windows of {}\n", found.a.perplexity,
             found.b.perplexity, found.a.scored, flags.window);
  return {};
}

void add_text_flags(CLI::App& command, EvalFlags& flags) {
  command.add_option("--text", flags.text, "Text file to predict (default: a built-in text of 64 KB)");
  command.add_option("--context", flags.window, "Tokens of a window; its second half is scored")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command.add_option("--tokens", flags.tokens, "Tokens of the text at most; 0: all of it")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Judge a model: perplexity, or how far it is from another");
  command->require_subcommand(1);
  auto ppl = std::make_shared<EvalFlags>();
  CLI::App* ppl_command = command->add_subcommand("ppl", "Perplexity over a text");
  ppl->a.add_to(*ppl_command);
  add_text_flags(*ppl_command, *ppl);
  set_work(*ppl_command, [ppl] { return run_ppl(*ppl); });

  auto kl = std::make_shared<EvalFlags>();
  CLI::App* kl_command =
      command->add_subcommand("kl", "How far the predictions of B are from those of A: two models, or two settings");
  kl->a.add_to(*kl_command);
  kl_command->add_option("B", kl->b, "Second model; without one, A with other settings");
  kl_command->add_option("--b-numerics", kl->b_numerics, "--numerics of B");
  kl_command->add_option("--b-kv-cache-dtype", kl->b_kv_cache_dtype, "--kv-cache-dtype of B");
  kl_command->add_option("--b-kv-scales", kl->b_kv_scales, "--kv-scales of B");
  kl_command->add_option("--b-quantization", kl->b_quantization, "--quantization of B");
  add_text_flags(*kl_command, *kl);
  set_work(*kl_command, [kl] { return run_kl(*kl); });
}

}  // namespace vernier
