#include <algorithm>
#include <variant>

#include "audit/lint_parts.h"
#include "checkpoint/byte_reader.h"
#include "text/chat_template.h"

namespace vernier {

namespace {

/// "0, 1 and 3".
std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  }
  return text;
}

const CacheScale* find_scale(const LoadReport& loaded, int layer, char of) {
  auto found = std::find_if(loaded.cache_scales.begin(), loaded.cache_scales.end(),
                            [&](const CacheScale& scale) { return scale.layer == layer && scale.of == of; });
  return found == loaded.cache_scales.end() ? nullptr : &*found;
}

float largest(const CacheScale& scale) {
  return *std::max_element(scale.values.begin(), scale.values.end());
}

/// Keys are larger than values almost everywhere; scales that say the contrary in every layer were mixed up.
void lint_swapped(const LoadReport& loaded, int layers, LintReport& report) {
  constexpr float kTimes = 3;
  for (int layer = 0; layer < layers; ++layer) {
    const CacheScale* k = find_scale(loaded, layer, 'k');
    const CacheScale* v = find_scale(loaded, layer, 'v');
    if (k == nullptr || v == nullptr || largest(*v) < kTimes * largest(*k)) return;
  }
  if (layers < 2) return;
  report.add(
      lint_checks::kCacheSwapped, report.path, "",
      fmt::format("the scales of values are {:g} times those of keys and more in each of {} layers; keys are the "
                  "larger ones in models that are known",
                  kTimes, layers));
}

}  // namespace

void lint_cache_scales(const LoadReport& loaded, const QuantPlan& plan, const DecoderSpec& spec, LintReport& report) {
  const auto layers = static_cast<int>(spec.layers.size());
  bool all_ones = !loaded.cache_scales.empty();
  for (const CacheScale& scale : loaded.cache_scales) {
    all_ones = all_ones && std::all_of(scale.values.begin(), scale.values.end(), [](float v) { return v == 1; });
    if (scale.layer >= layers) {
      report.add(lint_checks::kCacheScale, report.path, scale.origin,
                 fmt::format("scales layer {}, and the model has {} layers", scale.layer, layers));
      continue;
    }
    const auto heads = static_cast<size_t>(spec.layers[static_cast<size_t>(scale.layer)].attn.kv_heads);
    if (scale.of == 'q' || scale.values.size() == 1 || scale.values.size() == heads) continue;
    report.add(lint_checks::kCacheScale, report.path, scale.origin,
               fmt::format("holds {} scales, expected one or one for each of {} KV heads", scale.values.size(), heads));
  }
  const bool wanted = plan.cache && !plan.cache->empty();
  if (!wanted && loaded.cache_scales.empty()) return;
  for (char of : {'k', 'v'}) {
    std::vector<int> missing;
    for (int layer = 0; layer < layers; ++layer) {
      if (find_scale(loaded, layer, of) == nullptr) missing.push_back(layer);
    }
    if (missing.empty()) continue;
    const std::string which = static_cast<int>(missing.size()) == layers ? "all layers" : "layers " + listed(missing);
    report.add(lint_checks::kCacheMissing, report.path, "",
               fmt::format("{} of {} have no scale{}", of == 'k' ? "keys" : "values", which,
                           wanted ? fmt::format(", and {} says that the cache is {}", plan.origin, *plan.cache) : ""));
  }
  if (all_ones) {
    report.add(lint_checks::kCacheOnes, report.path, "",
               fmt::format("all {} scales of the KV cache are 1", loaded.cache_scales.size()));
    return;
  }
  lint_swapped(loaded, layers, report);
}

void lint_settings(const Checkpoint& checkpoint, const DecoderSpec& spec, LintReport& report) {
  const GenerationDefaults& generation = checkpoint.generation();
  const bool is_gguf = checkpoint.dialect().format.starts_with("GGUF");
  const std::string where = is_gguf ? report.path : report.path + "/config.json";
  auto check_id = [&](int32_t id, const char* what) {
    if (id < spec.vocab) return;
    report.add(lint_checks::kSpecialId, where, "",
               fmt::format("{} is {}, and the vocabulary has {} tokens", what, id, spec.vocab));
  };
  for (int32_t id : generation.eos_ids) check_id(id, "eos_token_id");
  if (generation.bos_id) check_id(*generation.bos_id, "bos_token_id");
  for (const LayerSpec& layer : spec.layers) {
    const auto* yarn = std::get_if<RopeYarn>(&layer.attn.rope.scaling);
    if (yarn == nullptr) continue;
    const double reach = yarn->factor * yarn->original_max_positions;
    if (static_cast<double>(spec.max_positions) <= reach * 1.001) continue;
    report.add(lint_checks::kRope, where, "",
               fmt::format("max_position_embeddings is {}, and YaRN stretches {:g} positions {:g} times, to {:g}",
                           spec.max_positions, yarn->original_max_positions, yarn->factor, reach));
    return;
  }
}

void lint_templates(const std::vector<StoredTemplate>& templates, const std::string& where, LintReport& report) {
  for (const StoredTemplate& stored : templates) {
    Result<ChatTemplate> parsed = ChatTemplate::parse(stored.text);
    if (!parsed.ok()) {
      const std::string place = parsed.error().where.empty() ? "" : fmt::format(" ({})", parsed.error().where);
      report.add(lint_checks::kTemplate, where, "",
                 fmt::format("template \"{}\" of {}: {}{}", printable(stored.name), printable(stored.origin),
                             parsed.error().message, printable(place)));
    } else if (stored.text.find("messages") == std::string::npos) {
      report.add(lint_checks::kTemplate, where, "",
                 fmt::format("template \"{}\" of {} reads no messages: every conversation would be rendered alike",
                             printable(stored.name), printable(stored.origin)));
    }
  }
}

namespace {

/// tokenizer_config.json names tokens by their ids once more.
void lint_added_tokens(const Tokenizer& tokenizer, const nlohmann::json& settings, LintReport& report) {
  if (!settings.is_object()) return;
  const nlohmann::json added = settings.value("added_tokens_decoder", nlohmann::json());
  if (!added.is_object()) return;
  for (const auto& [key, entry] : added.items()) {
    const bool is_id = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id || !entry.is_object() || !entry.value("content", nlohmann::json()).is_string()) continue;
    const auto text = entry["content"].get<std::string>();
    const auto found = tokenizer.token_text(static_cast<TokenId>(std::stoi(key)));
    if (found && *found == text) continue;
    report.add(lint_checks::kSpecialToken, "tokenizer_config.json", "",
               fmt::format("token {} is said to be {}, and {}", key, printable(text),
                           found ? fmt::format("tokenizer.json has {} there", printable(*found))
                                 : std::string("tokenizer.json has none there")));
  }
}

}  // namespace

void lint_text(const Checkpoint& checkpoint, int64_t vocab, const LintOptions& options, LintReport& report) {
  lint_templates(checkpoint.chat_templates(), report.path, report);
  const TokenizerSource& source = checkpoint.tokenizer();
  if (source.tokenizer_json.empty() && source.gguf == nullptr) return;
  Result<Tokenizer> tokenizer = options.load_tokenizer(source);
  if (!tokenizer.ok()) return report.add(lint_checks::kTokenizer, tokenizer.error());
  const auto tokens = static_cast<int64_t>(tokenizer->vocabulary_size());
  const std::string where = source.gguf != nullptr ? source.gguf->path() : source.tokenizer_json;
  if (vocab > 0 && tokens > vocab) {
    report.add(
        lint_checks::kVocabulary, where, "",
        fmt::format("the tokenizer has {} tokens, and the embedding {} rows: token {} would be read past its end",
                    tokens, vocab, vocab));
  }
  for (const std::string& token : checkpoint.generation().eos_tokens) {
    if (tokenizer->find_token(token)) continue;
    report.add(
        lint_checks::kSpecialToken, "tokenizer_config.json", "",
        fmt::format("eos_token is {}, and the vocabulary has no such token: answers would not end", printable(token)));
  }
  lint_added_tokens(*tokenizer, source.tokenizer_config, report);
}

}  // namespace vernier
