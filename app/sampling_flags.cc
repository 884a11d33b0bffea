#include "app/sampling_flags.h"

#include <charconv>
#include <random>

#include "api/serve_model.h"

namespace vernier {
namespace {

Result<std::pair<int32_t, float>> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t token = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  if (equals != std::string::npos) {
    auto id = std::from_chars(text.data(), text.data() + equals, token);
    auto value = std::from_chars(text.data() + equals + 1, end, bias);
    if (id.ec == std::errc{} && id.ptr == text.data() + equals && value.ec == std::errc{} && value.ptr == end) {
      return std::pair{token, bias};
    }
  }
  return invalid_argument("--logit-bias {}: expected TOKEN_ID=BIAS, such as 42=-5", text);
}

template <class T>
T first_of(const std::optional<T>& flag, const std::optional<double>& model, T fallback) {
  return flag ? *flag : model ? static_cast<T>(*model) : fallback;
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  command.add_option(
      "--temperature", temperature,
      "0: always the likeliest token (default: the model's, else 0.7; vernier serve: else 1, as the API has it)");
  command.add_option("--top-k", top_k, "Keep the k likeliest tokens; 0: all");
  command.add_option("--top-p", top_p,
                     "Keep the likeliest tokens of this mass together; 0: one (default: the model's, else 0.95)");
  command.add_option("--min-p", min_p, "Drop tokens below this share of the likeliest");
  command.add_option("--repetition-penalty", repetition_penalty, "Above 1: tokens seen in prompt or answer get rarer");
  command.add_option("--frequency-penalty", frequency_penalty, "Subtracted for each time a token was generated");
  command.add_option("--presence-penalty", presence_penalty, "Subtracted once a token was generated");
  command.add_option("--logit-bias", logit_bias, "TOKEN_ID=BIAS, may be given often");
  command.add_option("--seed", seed, "Same seed, same answer (default: a new one each time)");
  command.add_flag("--deterministic", deterministic, "The same answer each time, without a seed too");
  command.add_option("--sampler-dialect", dialect, "Order of the cuts: openai, sglang, llama, mlx")
      ->capture_default_str();
  command.add_option("--max-tokens", max_tokens, "Tokens to generate at most")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--stop", stops, "Text that ends the answer, may be given often");
  command.add_flag("--ignore-eos", ignore_eos, "Go on after the model's end tokens");
}

Result<GenerateOptions> SamplingFlags::options(const LoadedModel& model) const {
  const GenerationDefaults& defaults = model.checkpoint().generation();
  GenerateOptions options;
  SamplingParams& params = options.sampling;
  params.temperature = first_of(temperature, defaults.temperature, 0.7F);
  params.top_p = first_of(top_p, defaults.top_p, 0.95F);
  params.min_p = first_of(min_p, defaults.min_p, 0.0F);
  params.repetition_penalty = first_of(repetition_penalty, defaults.repetition_penalty, 1.0F);
  params.top_k = top_k.value_or(defaults.top_k.value_or(0));
  params.frequency_penalty = frequency_penalty;
  params.presence_penalty = presence_penalty;
  for (const std::string& text : logit_bias) {
    TRY_BIND(auto bias, parse_bias(text));
    params.logit_bias.push_back(bias);
  }
  std::random_device entropy;
  params.seed = seed.value_or(deterministic ? kFixedSeed : uint64_t{entropy()} << 32 | entropy());
  TRY_BIND(params.dialect, parse_sampler_dialect(dialect));
  TRY_STATUS(params.check(model.decoder().spec().vocab));
  options.max_tokens = max_tokens;
  options.stops = stops;
  if (!ignore_eos) options.end_tokens = model.end_tokens();
  return options;
}

}  // namespace vernier
