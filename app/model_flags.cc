#include "app/model_flags.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "api/option_words.h"
#include "app/commands.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/thread_pool.h"

namespace vernier {

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("MODEL", model, "A GGUF file, a Hugging Face folder, or a short name")->required();
  add_backend_to(command);
  command.add_option("--numerics", numerics, "fast: activations may be quantised inside a product; exact: float32")
      ->capture_default_str();
  command
      .add_option("--kv-cache-dtype", kv_cache_dtype,
                  "Stored type of keys and values: auto (what the checkpoint was made for, else f16), f32, f16, bf16, "
                  "fp8_e4m3 (fp8), fp8_e5m2")
      ->capture_default_str();
  command
      .add_option("--kv-dtype-skip", kv_dtype_skip,
                  "Layers that keep 16 bits beside an FP8 cache: sliding_window, or their numbers")
      ->delimiter(',');
  command.add_option("--kv-scales", kv_scales, "Side-car JSON with the cache's scales, in place of the checkpoint's");
  command
      .add_option("--kv-scale-missing", kv_scale_missing,
                  "Where an FP8 cache has no scale: warn (1 is used), one (the same in silence) or error")
      ->capture_default_str();
  command
      .add_option("--attention", attention,
                  "How a row meets the keys and values of its own step: paged (as the cache stores them), split (as "
                  "they were computed) or split-roundtrip (in two parts, with the answer of paged)")
      ->capture_default_str();
  command
      .add_option("--max-model-len", max_model_len, "Longest sequence in tokens (default: the model's, at most 8192)")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max()));
  add_quantization_to(command);
}

void ModelFlags::add_quantization_to(CLI::App& command) {
  command.add_option("--quantization", quantization,
                     "Quantises linear weights while they are loaded, to one of " + quant_target_names());
  command.add_flag("--quantize-head", quantize_head, "With --quantization: the head's own matrix, too");
  command.add_option("--keep", keep, "With --quantization: module that stays as it is; * stands for anything");
}

void ModelFlags::add_backend_to(CLI::App& command) {
  command
      .add_option(
          "--backend", backend,
          "What computes: cpu, cuda (an NVIDIA GPU), auto (cuda where this build has it and a GPU answers, else "
          "cpu) or reference (float64, slow)")
      ->capture_default_str();
  command.add_option("--device", device, "With --backend cuda: which GPU, from 0")
      ->capture_default_str()
      ->check(CLI::Range(0, 1023));
}

Result<BackendOptions> ModelFlags::backend_options() const {
  BackendOptions options;
  options.name = backend;
  options.device = device;
  options.threads = global_options().threads;
  options.isa = global_options().isa;
  TRY_BIND(options.numerics, parse_numerics("--numerics", numerics));
  return options;
}

Result<std::optional<QuantiseRequest>> ModelFlags::quantise_request(int threads) const {
  if (quantization.empty()) {
    if (!quantize_head && keep.empty()) return std::optional<QuantiseRequest>();
    return invalid_argument("--quantize-head and --keep need --quantization FORMAT");
  }
  TRY_BIND(QuantTarget target, find_quant_target("--quantization", quantization));
  return std::optional(
      QuantiseRequest{std::move(target), quantize_head, keep, false, threads > 0 ? threads : usable_cpus()});
}

void ModelFlags::add_fallback_flag(CLI::App& command) {
  command
      .add_option("--on-fallback", on_fallback,
                  "Where the fastest kernel cannot run: error, warn or allow; or for each op: linear=error,attend=warn")
      ->capture_default_str();
}

Status ModelFlags::check_fallbacks(std::span<const KernelFallback> fallbacks) const {
  TRY_BIND(FallbackRules rules, FallbackRules::parse("--on-fallback", on_fallback));
  return rules.apply(fallbacks);
}

Result<CacheOptions> ModelFlags::cache_options() const {
  CacheOptions options;
  TRY_BIND(options.stored, parse_cache_type("--kv-cache-dtype", kv_cache_dtype));
  TRY_BIND(options.fresh, parse_fresh_rows("--attention", attention));
  TRY_BIND(options.missing, parse_missing_scale("--kv-scale-missing", kv_scale_missing));
  options.scales_file = kv_scales;
  for (const std::string& word : kv_dtype_skip) {
    if (word == "sliding_window") {
      options.skip_windows = true;
      continue;
    }
    int layer = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), layer);
    if (failure != std::errc() || end != word.data() + word.size() || layer < 0) {
      return invalid_argument("--kv-dtype-skip {}: expected sliding_window or a layer's number", word);
    }
    options.skip_layers.push_back(layer);
  }
  return options;
}

Result<RunnerOptions> ModelFlags::runner_options(const LoadedModel& model) const {
  const QuantPlan& plan = model.checkpoint().plan();
  return runner_options(model.decoder().spec(), {plan.cache, plan.origin, model.report().cache_scales});
}

Result<RunnerOptions> ModelFlags::runner_options(const DecoderSpec& spec, const CacheSource& source) const {
  RunnerOptions options;
  TRY_BIND(const CacheOptions cache, cache_options());
  TRY_BIND(CachePlan plan, plan_cache(spec, cache, source));
  for (const std::string& note : plan.notes) log_warning("{}", note);
  options.caches = std::move(plan.layers);
  TRY_BIND(options.context_tokens, context_tokens(spec));
  return options;
}

Result<int32_t> ModelFlags::context_tokens(const DecoderSpec& spec) const {
  if (max_model_len > spec.max_positions) {
    return invalid_argument(
        "--max-model-len {}: the model was made for {} tokens (max_position_embeddings); give at "
        "most that, or leave it out for {}",
        max_model_len, spec.max_positions, std::min<int64_t>(spec.max_positions, kDefaultContext));
  }
  const auto own_limit = static_cast<int32_t>(std::min<int64_t>(spec.max_positions, kDefaultContext));
  return max_model_len > 0 ? max_model_len : own_limit;
}

namespace {

std::vector<DecoderPart> parts_of(const LoadedModel& model) {
  return model.decoder().parts();
}
std::vector<DecoderPart> parts_of(const LoadedEncoder& model) {
  return model.encoder().parts();
}

template <class Model>
Result<std::unique_ptr<Model>> load_as(const ModelFlags& flags, bool same_rows) {
  TRY_BIND(std::string path, find_model(flags.model));
  LoadOptions options;
  TRY_BIND(options.backend, flags.backend_options());
  options.backend.same_rows = same_rows;
  TRY_BIND(options.quantise, flags.quantise_request(options.backend.threads));
  TRY_BIND(options.tactics, flags.tune.open_store(options.backend));
  TRY_BIND(options.tactic_use, flags.tune.use());
  std::optional<Progress> bar;
  options.on_progress = [&](const BindProgress& state) {
    if (!bar) bar.emplace("loading", state.total_bytes, ProgressUnit::kBytes);
    bar->set(state.done_bytes);
  };
  TRY_BIND(std::unique_ptr<Model> model, Model::load(path, options));
  bar.reset();
  TRY_STATUS(flags.tune.settle(model->backend(), parts_of(*model), model->tactics()));
  return model;
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> load_for(const ModelFlags& flags, bool same_rows) {
  return load_as<LoadedModel>(flags, same_rows);
}

Result<std::unique_ptr<LoadedEncoder>> load_encoder_for(const ModelFlags& flags, bool same_rows) {
  return load_as<LoadedEncoder>(flags, same_rows);
}

Result<bool> names_encoder(const ModelFlags& flags) {
  TRY_BIND(std::string path, find_model(flags.model));
  return is_encoder(path);
}

}  // namespace vernier
