#include "engine/cache_plan.h"

#include <algorithm>

#include "checkpoint/byte_reader.h"
#include "checkpoint/cache_scale_file.h"
#include "checkpoint/cache_scales.h"

namespace vernier {
namespace {

/// "layer 3", "layers 0 to 4, 7".
std::string layer_list(const std::vector<int>& layers) {
  std::string text = layers.size() == 1 ? "layer " : "layers ";
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += i == 0 ? "" : ", ";
    text += last == i ? fmt::format("{}", layers[i]) : fmt::format("{} to {}", layers[i], layers[last]);
    i = last + 1;
  }
  return text;
}

/// The stored type where the user names none.
CodecId own_type(const CacheSource& source, std::vector<std::string>& notes) {
  if (!source.type || source.type->empty()) return CodecId::kF16;
  if (*source.type == "fp8" || *source.type == "fp8_e4m3") return CodecId::kE4M3Tensor;
  if (*source.type == "fp8_e5m2") return CodecId::kE5M2Tensor;
  notes.push_back(fmt::format("{} asks for a cache of {}, which is not built: it is f16", source.type_origin,
                              printable(*source.type)));
  return CodecId::kF16;
}

Status choose_types(const DecoderSpec& spec, const CacheOptions& options, CodecId stored, CachePlan& plan) {
  plan.layers = cache_specs(spec, stored);
  const int count = static_cast<int>(plan.layers.size());
  bool skipped = false;
  for (int layer : options.skip_layers) {
    if (layer >= count || layer < 0) {
      return invalid_argument("--kv-dtype-skip {}: the model has layers 0 to {}", layer, count - 1);
    }
  }
  for (CacheSpec& layer : plan.layers) {
    layer.fresh = options.fresh;
    const bool skip = (options.skip_windows && layer.window) ||
                      std::ranges::find(options.skip_layers, layer.layer) != options.skip_layers.end();
    if (!skip || !has_cache_scale(stored)) continue;
    layer.stored = CodecId::kF16;
    skipped = true;
  }
  if ((options.skip_windows || !options.skip_layers.empty()) && !skipped) {
    plan.notes.push_back(
        has_cache_scale(stored)
            ? std::string("--kv-dtype-skip sliding_window changes nothing: no layer has a window")
            : fmt::format("--kv-dtype-skip changes nothing: the cache is {} everywhere", cache_type_name(stored)));
  }
  return {};
}

/// A side-car's scales in the form of a checkpoint's.
Result<std::vector<CacheScale>> read_side_car(const DecoderSpec& spec, const CacheOptions& options,
                                              const CachePlan& plan, CodecId stored) {
  TRY_BIND(const CacheScaleFile file, CacheScaleFile::read(options.scales_file));
  if (!has_cache_scale(stored)) {
    return invalid_argument(
        "--kv-scales {}: scales act on an FP8 cache only, and this one is {}; add "
        "--kv-cache-dtype {}",
        file.path, cache_type_name(stored), cache_type_name(file.stored));
  }
  if (file.stored != stored) {
    return invalid_argument("--kv-scales {} holds scales for {}, and the cache is {}; make both the same", file.path,
                            cache_type_name(file.stored), cache_type_name(stored));
  }
  if (!file.model_type.empty() && file.model_type != spec.family) {
    return invalid_argument("--kv-scales {} was made for a model of type {}, and this is {}", file.path,
                            printable(file.model_type), spec.family);
  }
  std::vector<CacheScale> scales;
  for (const auto& [layer, own] : file.layers) {
    if (layer >= static_cast<int>(plan.layers.size())) {
      return invalid_argument("--kv-scales {} has a layer {}, and the model has layers 0 to {}", file.path, layer,
                              plan.layers.size() - 1);
    }
    scales.push_back({layer, 'k', own.k, file.path});
    scales.push_back({layer, 'v', own.v, file.path});
  }
  for (const CacheSpec& layer : plan.layers) {
    if (has_cache_scale(layer.stored) && !file.layers.contains(layer.layer)) {
      return invalid_argument("--kv-scales {} has no scale for layer {}; it must have one for each", file.path,
                              layer.layer);
    }
  }
  return scales;
}

Result<std::optional<KvScale>> find_scale(const std::vector<CacheScale>& scales, const CacheSpec& layer, char of) {
  for (const CacheScale& scale : scales) {
    if (scale.layer != layer.layer || scale.of != of) continue;
    if (scale.values.size() != 1 && static_cast<int>(scale.values.size()) != layer.kv_heads) {
      return corrupt("{}: {} scales for layer {}, expected one, or one for each of {} KV heads",
                     printable(scale.origin), scale.values.size(), layer.layer, layer.kv_heads);
    }
    TRY_BIND(KvScale found, KvScale::make(scale.values, printable(scale.origin)));
    return std::optional(std::move(found));
  }
  return std::optional<KvScale>();
}

/// Gives each scaled layer both its scales; `missing` lists those that got a 1 for want of one.
Status give_scales(const std::vector<CacheScale>& scales, CachePlan& plan, std::vector<int>& missing) {
  for (CacheSpec& layer : plan.layers) {
    if (!has_cache_scale(layer.stored)) continue;
    TRY_BIND(layer.k_scale, find_scale(scales, layer, 'k'));
    if (layer.kind == CacheKind::kPairs) {
      TRY_BIND(layer.v_scale, find_scale(scales, layer, 'v'));
    }
    const bool lacks = !layer.k_scale || (layer.kind == CacheKind::kPairs && !layer.v_scale);
    if (lacks) missing.push_back(layer.layer);
    const KvScale one(1, "default");
    if (!layer.k_scale) layer.k_scale = one;
    if (layer.kind == CacheKind::kPairs && !layer.v_scale) layer.v_scale = one;
  }
  return {};
}

Status note_missing(const std::vector<int>& missing, MissingScale how, CodecId stored, CachePlan& plan) {
  if (missing.empty() || how == MissingScale::kOne) return {};
  const std::string text =
      fmt::format("{} {} no scale of keys, of values or of both for a cache of {}", layer_list(missing),
                  missing.size() == 1 ? "has" : "have", cache_type_name(stored));
  if (how == MissingScale::kError) {
    return invalid_argument(
        "--kv-scale-missing=error: {}; give them with "
        "--kv-scales, or store the cache as f16",
        text);
  }
  plan.notes.push_back(text + ": 1 is used; --kv-scales gives others");
  return {};
}

/// What the checkpoint has and nothing acts upon.
void note_unused(const CacheSource& source, bool from_file, CodecId stored, CachePlan& plan) {
  const auto of = [](const CacheScale& scale) { return scale.of == 'k' || scale.of == 'v'; };
  const auto keys_and_values = std::ranges::count_if(source.scales, of);
  const auto others = std::ssize(source.scales) - keys_and_values;
  if (keys_and_values > 0 && from_file) {
    plan.notes.push_back(
        fmt::format("{} cache scales of the checkpoint give way to those of --kv-scales", keys_and_values));
  } else if (keys_and_values > 0 && !has_cache_scale(stored)) {
    plan.notes.push_back(fmt::format("{} cache scales of the checkpoint act on nothing: the cache is {}",
                                     keys_and_values, cache_type_name(stored)));
  }
  if (others > 0) {
    plan.notes.push_back(fmt::format(
        "{} scales of queries or probabilities act on nothing: attention computes with both in float32", others));
  }
}

}  // namespace

Result<CacheSource> read_cache_source(const Checkpoint& checkpoint) {
  LoadReport report = describe(checkpoint);
  TRY_STATUS(take_cache_scales(checkpoint, report));
  return CacheSource{checkpoint.plan().cache, checkpoint.plan().origin, std::move(report.cache_scales)};
}

Result<CachePlan> plan_cache(const DecoderSpec& spec, const CacheOptions& options, const CacheSource& source) {
  CachePlan plan;
  const CodecId stored = options.stored.value_or(own_type(source, plan.notes));
  if (options.stored) plan.notes.clear();
  TRY_STATUS(choose_types(spec, options, stored, plan));
  std::vector<CacheScale> scales = source.scales;
  if (!options.scales_file.empty()) {
    TRY_BIND(scales, read_side_car(spec, options, plan, stored));
  }
  std::vector<int> missing;
  TRY_STATUS(give_scales(scales, plan, missing));
  TRY_STATUS(note_missing(missing, options.missing, stored, plan));
  note_unused(source, !options.scales_file.empty(), stored, plan);
  return plan;
}

std::string describe_cache(const CacheSpec& spec) {
  std::string text(cache_type_name(spec.stored));
  if (!has_cache_scale(spec.stored)) return text;
  if (spec.kind == CacheKind::kLatent) return fmt::format("{}, rows {}", text, spec.key_scale().to_string());
  return fmt::format("{}, k {}, v {}", text, spec.key_scale().to_string(), spec.value_scale().to_string());
}

nlohmann::json to_json(const CacheSpec& spec) {
  nlohmann::json out = {{"layer", spec.layer},
                        {"stored", cache_type_name(spec.stored)},
                        {"attention", name(spec.fresh)},
                        {"bytes_per_token", spec.bytes_per_token()}};
  out["window"] = spec.window ? nlohmann::json(*spec.window) : nlohmann::json(nullptr);
  if (!has_cache_scale(spec.stored)) return out;
  const auto scale = [](const KvScale& of) {
    return nlohmann::json{{"values", std::vector(of.values().begin(), of.values().end())}, {"origin", of.origin()}};
  };
  out["k_scale"] = scale(spec.key_scale());
  if (spec.kind == CacheKind::kPairs) out["v_scale"] = scale(spec.value_scale());
  return out;
}

}  // namespace vernier
