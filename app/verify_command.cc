#include <memory>
#include <nlohmann/json.hpp>

#include "api/backend_choice.h"
#include "api/load_tokenizer.h"
#include "api/option_words.h"
#include "app/commands.h"
#include "app/model_flags.h"
#include "audit/verify_numerics.h"
#include "models/registry.h"

namespace vernier {
namespace {

struct VerifyFlags {
  ModelFlags model;
  std::string prompt = "The vernier scale reads a fine value off a coarse one: 3.1416 is nearer to pi than 22/7.";
  int32_t chunk = 12;
  bool every_layer = false;
};

/// The prompt's tokens; of a model that comes without a tokenizer, some that are spread over its vocabulary.
Result<std::vector<int32_t>> prompt_tokens(const Checkpoint& checkpoint, const DecoderSpec& spec,
                                           const std::string& prompt) {
  const TokenizerSource& source = checkpoint.tokenizer();
  if (!source.tokenizer_json.empty() || source.gguf != nullptr) {
    TRY_BIND(Tokenizer tokenizer, load_tokenizer(source));
    return tokenizer.encode(prompt, {.add_special = true, .parse_special = false});
  }
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < 24; ++i) tokens.push_back(static_cast<int32_t>((i * 7919 + 1) % spec.vocab));
  return tokens;
}

Status run_verify(const VerifyFlags& flags) {
  TRY_BIND(std::string path, find_model(flags.model.model));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  TRY_BIND(Config config, checkpoint->config());
  TRY_BIND(DecoderSpec spec, read_decoder(config));
  TRY_BIND(BackendOptions options, flags.model.backend_options());
  TRY_BIND(std::unique_ptr<Backend> tested, make_backend(options));
  std::unique_ptr<Backend> unquantised;
  if (tested->features().numerics == Numerics::kFast) {
    options.numerics = Numerics::kExact;
    TRY_BIND(unquantised, make_backend(options));
  }
  NumericsRequest request{*tested, unquantised.get(), {}, {}};
  TRY_BIND(const CacheSource source, read_cache_source(*checkpoint));
  TRY_BIND(request.runner, flags.model.runner_options(spec, source));
  TRY_BIND(request.prompt, prompt_tokens(*checkpoint, spec, flags.prompt));
  request.runner.chunk_rows = flags.chunk;
  TRY_BIND(const NumericsReport report, verify_numerics(*checkpoint, request));
  if (global_options().json) {
    fmt::print("{}\n", report.to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", report.to_string(flags.every_layer));
  }
  if (report.passed()) return {};
  return make_error(ErrorCode::kInternal, "ops are outside their bound; what they compute is not what they mean");
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify = app.add_subcommand("verify", "Compare what this machine computes with its definition");
  verify->require_subcommand(1);
  CLI::App* command = verify->add_subcommand("numerics", "Each op of a prompt against float64 on the same inputs");
  flags->model.add_to(*command);
  command->add_option("--prompt", flags->prompt, "Text to run")->capture_default_str();
  command->add_option("--chunk", flags->chunk, "Rows of a step, so that later ones read a cache")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->add_flag("--every-layer", flags->every_layer, "Print every layer, not the worst of each op");
  set_work(*command, [flags] { return run_verify(*flags); });
}

}  // namespace vernier
