#include "checkpoint/cache_scales.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "checkpoint/byte_reader.h"
#include "checkpoint/scale_tensor.h"

namespace vernier {

namespace {

struct Spelling {
  std::string_view parent;  ///< the last component before; empty: the attention module or its "attn"
  std::string_view last;
  std::string_view of;
};

constexpr std::array kSpellings = {
    Spelling{"", "k_scale", "k"},
    Spelling{"", "v_scale", "v"},
    Spelling{"", "kv_scale", "kv"},
    Spelling{"", "q_scale", "q"},
    Spelling{"", "prob_scale", "p"},
    Spelling{"", "prob_output_scale", "p"},
    Spelling{"k_proj", "k_scale", "k"},
    Spelling{"v_proj", "v_scale", "v"},
    Spelling{"k_proj", "output_scale", "k"},
    Spelling{"v_proj", "output_scale", "v"},
    Spelling{"q_proj", "q_scale", "q"},
    Spelling{"q_proj", "output_scale", "q"},
    Spelling{"qkv_proj", "k_scale", "k"},
    Spelling{"qkv_proj", "v_scale", "v"},
    Spelling{"qkv_proj", "q_scale", "q"},
};

constexpr int kMostLayers = 100'000;  // a larger number is none of a layer
constexpr int kMostAttentions = 16;   // of a layer; a larger number counts something else

bool is_attention(std::string_view component) {
  return component == "self_attn" || component == "attn" || component == "attention" || component == "self_attention";
}

/// The number behind "layers." (or "h.", "blocks.").
std::optional<int> layer_of(std::string_view name) {
  for (std::string_view list : {"layers.", "blocks.", "h."}) {
    size_t at = name.find(list);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) continue;
    std::string_view rest = name.substr(at + list.size());
    int layer = 0;
    auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (failure == std::errc() && end != rest.data() + rest.size() && *end == '.' && layer >= 0 &&
        layer < kMostLayers) {
      return layer;
    }
  }
  return std::nullopt;
}

std::string_view take_last(std::string_view& name) {
  size_t dot = name.rfind('.');
  std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  name = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  return last;
}

/// The number behind the attention module's name, where the layer has several.
std::optional<int> attention_of(std::string_view name) {
  while (!name.empty()) {
    const std::string_view last = take_last(name);
    std::string_view before = name;
    int number = 0;
    const auto [end, failure] = std::from_chars(last.data(), last.data() + last.size(), number);
    const bool is_number = failure == std::errc() && end == last.data() + last.size() && number >= 0;
    if (is_number && number < kMostAttentions && is_attention(take_last(before))) return number;
  }
  return std::nullopt;
}

/// How many attentions a layer of the checkpoint holds.
int attentions_of_layer(const Checkpoint& checkpoint) {
  int most = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (!belongs_to_other_modality(tensor.name) && layer_of(tensor.name)) {
      most = std::max(most, attention_of(tensor.name).value_or(0));
    }
  }
  return most + 1;
}

/// The layer of the cache that a scale belongs to.
Result<int> cache_layer(const CacheScaleName& name, int attentions, const StoredTensor& tensor) {
  if (attentions == 1 || name.attention) return name.layer * attentions + name.attention.value_or(0);
  return tensor_error(tensor, ErrorCode::kCorrupt,
                      fmt::format("does not say which of the {} attentions of layer {} it scales, as in "
                                  "layers.{}.self_attn.1.k_scale",
                                  attentions, name.layer, name.layer));
}

Result<std::vector<float>> read_values(const StoredTensor& tensor) {
  TRY_BIND(std::vector<float> values, read_floats(tensor));
  if (tensor.extents.size() > 1 || values.empty()) {
    return tensor_error(
        tensor, ErrorCode::kCorrupt,
        fmt::format("has shape {}, expected one scale or one for each KV head", shape_text(tensor.extents)));
  }
  for (float value : values) {
    if (std::isfinite(value) && value > 0) continue;
    return tensor_error(tensor, ErrorCode::kCorrupt,
                        fmt::format("is {}, expected a finite number above 0{}", value,
                                    value == -1 ? " (-1 marks a scale that was never set)" : ""));
  }
  return values;
}

}  // namespace

std::optional<CacheScaleName> parse_cache_scale(std::string_view tensor_name) {
  std::optional<int> layer = layer_of(tensor_name);
  if (!layer) return std::nullopt;
  std::string_view rest = tensor_name;
  std::string_view last = take_last(rest);
  std::string_view parent = take_last(rest);
  const std::optional<int> attention = attention_of(tensor_name);
  if (attention && std::ranges::all_of(parent, [](char c) { return c >= '0' && c <= '9'; })) parent = take_last(rest);
  const bool of_attention = is_attention(parent);
  for (const Spelling& spelling : kSpellings) {
    const bool fits = spelling.parent.empty() ? of_attention : parent == spelling.parent;
    if (fits && last == spelling.last) return CacheScaleName{*layer, attention, spelling.of};
  }
  return std::nullopt;
}

Status take_cache_scales(const Checkpoint& checkpoint, LoadReport& report) {
  const int attentions = attentions_of_layer(checkpoint);
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const StoredTensor& tensor = checkpoint.tensors()[i];
    if (belongs_to_other_modality(tensor.name)) continue;
    std::optional<CacheScaleName> name = parse_cache_scale(tensor.name);
    if (!name) continue;
    TRY_BIND(std::vector<float> values, read_values(tensor));
    TRY_BIND(const int layer, cache_layer(*name, attentions, tensor));
    report.tensors[i].use = TensorUse::kCacheScale;
    report.tensors[i].bound_as = fmt::format("layer {}", layer);
    for (char of : name->of) {
      auto known = std::find_if(report.cache_scales.begin(), report.cache_scales.end(),
                                [&](const CacheScale& scale) { return scale.layer == layer && scale.of == of; });
      if (known == report.cache_scales.end()) {
        report.cache_scales.push_back({layer, of, values, tensor.file_name});
      } else if (known->values != values) {
        return tensor_error(tensor, ErrorCode::kCorrupt,
                            fmt::format("scales {} of layer {} otherwise than {} does; one of them must be wrong", of,
                                        layer, printable(known->origin)));
      }
    }
  }
  std::stable_sort(report.cache_scales.begin(), report.cache_scales.end(),
                   [](const CacheScale& a, const CacheScale& b) { return a.layer < b.layer; });
  return {};
}

}  // namespace vernier
