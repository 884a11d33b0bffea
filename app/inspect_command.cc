#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "api/option_words.h"
#include "app/commands.h"
#include "app/model_flags.h"
#include "app/shard_table.h"
#include "base/progress.h"
#include "checkpoint/checkpoint_binder.h"
#include "checkpoint/load_report.h"
#include "engine/cache_plan.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "ops/null_backend.h"

namespace vernier {
namespace {

std::string describe(const std::optional<Pooling>& pooling) {
  if (pooling == Pooling::kFirst) return "of the first token";
  if (pooling == Pooling::kLast) return "of the last token";
  return "the mean of all tokens";
}

struct InspectFlags {
  std::string model;
  std::string kv_cache_dtype = "auto";
  std::string kv_scales;
  ShardFlags shards;
};

/// "12 of 18 layers: window 512": layers that attend alike, counted.
std::string describe_windows(const DecoderSpec& spec) {
  std::map<int, int> windows;  // 0: all positions
  for (const LayerSpec& layer : spec.layers) ++windows[layer.attn.window.value_or(0)];
  std::string text;
  for (auto [window, layers] : windows) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", layers,
                        window == 0 ? "full" : fmt::format("window {}", window));
  }
  return text;
}

/// "23 of 24 layers: 4 of 32 experts ..., beside a dense part of 512": layers with experts, by what they have.
std::string describe_experts(const DecoderSpec& spec) {
  std::map<std::string, int> kinds;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.experts) continue;
    std::string kind = layer.experts->to_string();
    if (layer.shared_ffn > 0) kind += fmt::format(", beside one of width {} for all rows", layer.shared_ffn);
    if (layer.experts_late) kind += "; their answers join at the end of the next layer";
    ++kinds[kind];
  }
  std::string text;
  for (const auto& [kind, layers] : kinds) {
    text += fmt::format("{}{} of {} layers: {}", text.empty() ? "" : "; ", layers, spec.layers.size(), kind);
  }
  return text;
}

/// What changes attention's scores beside the window, for the first layer that has it.
std::string describe_scores(const DecoderSpec& spec) {
  std::string text;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attn.sinks && text.find("sinks") == std::string::npos) text += "; sinks";
    if (layer.attn.soft_cap > 0 && text.find("cap") == std::string::npos) {
      text += fmt::format("; scores capped at {:g}", layer.attn.soft_cap);
    }
  }
  if (spec.final_soft_cap > 0) text += fmt::format("; logits capped at {:g}", spec.final_soft_cap);
  return text;
}

/// "tables of 641 to 651 rows for n-grams of up to 4 tokens"
std::string describe_ngrams(const DecoderSpec& spec) {
  return fmt::format("the mean of the word's and of {} tables' of {} to {} rows, for n-grams of up to {} tokens",
                     spec.ngrams.size(), spec.ngrams.front().rows, spec.ngrams.back().rows, spec.ngrams.back().order);
}

/// Of the first layer that has one; 0 where all have experts.
int64_t dense_width(const DecoderSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.ffn > 0) return layer.ffn;
  }
  return 0;
}

void print_spec(const DecoderSpec& spec) {
  const AttnSpec& attn = spec.layers.front().attn;
  const std::string stored =
      spec.stored_together > 1 ? fmt::format(", {} to each that is stored", spec.stored_together) : "";
  fmt::print("model        {}, {} layers{} ({}), hidden {}, feed-forward {}\n", spec.family, spec.layers.size(), stored,
             describe_windows(spec), spec.hidden,
             dense_width(spec) > 0 ? std::to_string(dense_width(spec)) : "of experts alone");
  if (const std::string experts = describe_experts(spec); !experts.empty()) fmt::print("experts      {}\n", experts);
  if (!spec.ngrams.empty()) fmt::print("embedding    {}\n", describe_ngrams(spec));
  fmt::print("attention    {} query heads on {} key-value heads of {}; {}{}\n", attn.heads, attn.kv_heads,
             attn.head_dim, attn.rope.to_string(), describe_scores(spec));
  fmt::print("vocabulary   {} tokens, {} head; made for {} positions\n", spec.vocab, spec.tied ? "tied" : "own",
             spec.max_positions);
}

void print_spec(const EncoderSpec& spec, const EmbeddingDefaults& said) {
  fmt::print("model        {}, an encoder of {} layers, hidden {}, feed-forward {}\n", spec.family, spec.layers,
             spec.hidden, spec.ffn);
  fmt::print("attention    {} heads of {}; all tokens see each other\n", spec.attn.heads, spec.attn.head_dim);
  fmt::print("vocabulary   {} tokens; {} positions, inputs of at most {}\n", spec.vocab, spec.max_positions,
             said.max_tokens.value_or(static_cast<int32_t>(spec.max_positions)));
  fmt::print("embeddings   {}\n", said.refusal ? "cannot be made: " + said.refusal->to_string()
                                               : fmt::format("{} numbers, {}", spec.hidden, describe(said.pooling)));
}

nlohmann::json to_json(const EncoderSpec& spec, const EmbeddingDefaults& said) {
  nlohmann::json all = {{"family", spec.family},    {"encoder", true},          {"hidden", spec.hidden},
                        {"vocab", spec.vocab},      {"layers", spec.layers},    {"max_positions", spec.max_positions},
                        {"feed_forward", spec.ffn}, {"heads", spec.attn.heads}, {"head_dim", spec.attn.head_dim}};
  all["pooling"] = describe(said.pooling);
  all["max_tokens"] = said.max_tokens ? nlohmann::json(*said.max_tokens) : nlohmann::json(nullptr);
  return all;
}

nlohmann::json to_json(const DecoderSpec& spec) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerSpec& layer : spec.layers) {
    nlohmann::json entry = {{"heads", layer.attn.heads},
                            {"kv_heads", layer.attn.kv_heads},
                            {"head_dim", layer.attn.head_dim},
                            {"rope", layer.attn.rope.to_string()},
                            {"feed_forward", layer.ffn}};
    entry["window"] = layer.attn.window ? nlohmann::json(*layer.attn.window) : nlohmann::json(nullptr);
    entry["sinks"] = layer.attn.sinks;
    entry["soft_cap"] = layer.attn.soft_cap;
    entry["experts"] = layer.experts ? nlohmann::json(layer.experts->to_string()) : nlohmann::json(nullptr);
    if (layer.experts) entry["experts_join_late"] = layer.experts_late;
    layers.push_back(std::move(entry));
  }
  return {{"family", spec.family},
          {"hidden", spec.hidden},
          {"vocab", spec.vocab},
          {"tied", spec.tied},
          {"max_positions", spec.max_positions},
          {"stored_together", spec.stored_together},
          {"ngram_tables", spec.ngrams.size()},
          {"layers", std::move(layers)}};
}

/// What each layer's cache is.
Result<CachePlan> plan_shown_cache(const DecoderSpec& spec, const Checkpoint& checkpoint, const InspectFlags& flags) {
  CacheOptions options;
  TRY_BIND(options.stored, parse_cache_type("--kv-cache-dtype", flags.kv_cache_dtype));
  options.scales_file = flags.kv_scales;
  TRY_BIND(const CacheSource source, read_cache_source(checkpoint));
  return plan_cache(spec, options, source);
}

/// Layers whose lines are alike share one: "0 to 11".
void print_cache(const CachePlan& plan) {
  for (size_t first = 0, end; first < plan.layers.size(); first = end) {
    const std::string text = describe_cache(plan.layers[first]);
    for (end = first + 1; end < plan.layers.size() && describe_cache(plan.layers[end]) == text;) ++end;
    const std::string layers = end - first > 1 ? fmt::format("{} to {}", first, end - 1) : fmt::format("{}", first);
    fmt::print("{} layer {}: {}\n", first == 0 ? "cache       " : "            ", layers, text);
  }
  for (const std::string& note : plan.notes) fmt::print("             {}\n", note);
}

/// An error where the model is no encoder, too.
Result<EncoderSpec> read_encoder_spec(const Checkpoint& checkpoint) {
  TRY_BIND(Config config, checkpoint.config());
  return read_encoder(config);
}

/// Binds the model's weights where they cost nothing, so that `report` tells what each tensor is used for.
Status try_binding(const Checkpoint& checkpoint, const Result<DecoderSpec>& spec, const Result<EncoderSpec>& encoder,
                   LoadReport& report) {
  NullBackend backend;
  CheckpointBinder binder(checkpoint, backend);
  auto bind = [&]() -> Status {
    if (encoder.ok()) {
      TRY_STATUS(Encoder::bind(*encoder, binder));
      return binder.finish(Encoder::unneeded_tensors());
    }
    TRY_STATUS(Decoder::bind(*spec, binder));
    return binder.finish(spec->unneeded);
  };
  Status bound = bind();
  if (!bound.ok()) return bound;
  report = binder.report();
  report.weights.clear();  // what a backend packs is explain's to tell
  return {};
}

void print_unused(const LoadReport& report) {
  const auto unused = report.unused();
  if (unused.empty()) return;
  constexpr size_t kShown = 5;
  fmt::print("unused       {} tensor{}:", unused.size(), unused.size() == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(unused.size(), kShown); ++i) fmt::print(" {}", unused[i]->file_name);
  fmt::print("{}\n", unused.size() > kShown ? " ..." : "");
}

Status run_inspect(const InspectFlags& flags) {
  TRY_BIND(std::string path, find_model(flags.model));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  if (flags.shards.ranks > 0) return print_shards(*checkpoint, flags.shards);
  LoadReport report = describe(*checkpoint);
  auto read_spec = [&]() -> Result<DecoderSpec> {
    TRY_BIND(Config config, checkpoint->config());
    return read_decoder(config);
  };
  const Result<DecoderSpec> spec = read_spec();
  const Result<EncoderSpec> encoder = read_encoder_spec(*checkpoint);
  // An encoder's own error says more than that it is no decoder.
  TRY_BIND(const bool is_one, is_encoder(path));
  Status loads;
  if (spec.ok() || encoder.ok()) loads = try_binding(*checkpoint, spec, encoder, report);
  const Error refused = spec.ok() || encoder.ok() ? Error{} : is_one ? encoder.error() : spec.error();
  if (global_options().json) {
    nlohmann::json all = {{"path", path}, {"report", report.to_json()}};
    if (spec.ok()) {
      all["model"] = to_json(*spec);
      TRY_BIND(const CachePlan cache, plan_shown_cache(*spec, *checkpoint, flags));
      for (const CacheSpec& layer : cache.layers) all["cache"]["layers"].push_back(to_json(layer));
      all["cache"]["notes"] = cache.notes;
    }
    if (encoder.ok()) all["model"] = to_json(*encoder, checkpoint->embedding());
    if (!spec.ok() && !encoder.ok()) all["refused"] = refused.to_string();
    if (!loads.ok()) all["refused"] = loads.error().to_string();
    // A path may hold bytes that are no UTF-8.
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  fmt::print("{}\nformat       {}, {} in {} tensors\n", path, report.format, format_bytes(report.stored_bytes()),
             report.tensors.size());
  if (spec.ok()) {
    print_spec(*spec);
    TRY_BIND(const CachePlan cache, plan_shown_cache(*spec, *checkpoint, flags));
    print_cache(cache);
  }
  if (encoder.ok()) print_spec(*encoder, checkpoint->embedding());
  if (!spec.ok() && !encoder.ok()) fmt::print("model        cannot be run: {}\n", refused.to_string());
  if (!loads.ok()) fmt::print("load         refused: {}\n", loads.error().to_string());
  const bool has_template = checkpoint->chat_template() != nullptr;
  if (!encoder.ok())
    fmt::print("chat         {}\n", has_template ? "template in the checkpoint" : "no template: plain text only");
  const bool bound = loads.ok() && (spec.ok() || encoder.ok());
  if (bound) print_unused(report);
  fmt::print("\n{}", report.to_string());
  if (!bound) fmt::print("what each tensor is used for is not known, as the model does not load\n");
  return {};
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Show a checkpoint's configuration, tensors, codecs and scales");
  command->add_option("MODEL", flags->model, "A GGUF file, a Hugging Face folder, or a short name")->required();
  command->add_option("--kv-cache-dtype", flags->kv_cache_dtype, "Shows the cache with this stored type")
      ->capture_default_str();
  command->add_option("--kv-scales", flags->kv_scales, "Shows the cache with the scales of this side-car JSON");
  flags->shards.add_to(*command);
  set_work(*command, [flags] { return run_inspect(*flags); });
}

}  // namespace vernier
