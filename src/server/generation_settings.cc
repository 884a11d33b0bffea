#include "server/generation_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <random>

#include "base/random.h"
#include "text/vocabulary.h"

namespace vernier {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxWords = 1024;

uint64_t fresh_seed() {
  thread_local std::mt19937_64 entropy(std::random_device{}());
  return entropy();
}

Result<std::vector<std::string>> read_stops(const Fields& fields) {
  const Json* value = fields.find("stop");
  if (value == nullptr) return std::vector<std::string>{};
  const std::string place = fields.spelling("stop");
  std::vector<std::string> stops;
  auto add = [&](const Json& stop) -> Status {
    if (!stop.is_string()) return bad_field(place, "{} holds {}, expected strings", place, describe_json(stop));
    stops.push_back(stop.get<std::string>());
    if (stops.back().empty()) return bad_field(place, "{} holds an empty string; it would end every answer", place);
    if (stops.back().size() > kMaxStopBytes) {
      return bad_field(place, "{} holds a string of {} bytes, expected {} at most", place, stops.back().size(),
                       kMaxStopBytes);
    }
    return {};
  };
  if (!value->is_array()) {
    TRY_STATUS(add(*value));
    return stops;
  }
  if (value->size() > kMaxStops) {
    return bad_field(place, "{} holds {} strings, expected {} at most", place, value->size(), kMaxStops);
  }
  for (const Json& stop : *value) TRY_STATUS(add(stop));
  return stops;
}

Status read_logit_bias(const Fields& fields, int32_t vocabulary, SamplingParams& sampling) {
  const Json* value = fields.find("logit_bias");
  if (value == nullptr) return {};
  const std::string place = fields.spelling("logit_bias");
  for (const auto& [key, bias] : value->items()) {
    int32_t token = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size() || token < 0 || token >= vocabulary) {
      return bad_field(place, "{} names the token '{}', expected an id from 0 to {}", place, key.substr(0, 40),
                       vocabulary - 1);
    }
    const double amount = bias.is_number() ? bias.get<double>() : 1e9;
    if (!(amount >= -100 && amount <= 100)) {
      return bad_field(place, "{} gives token {} {}, expected a number from -100 to 100", place, token, bias.dump());
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(amount));
  }
  return {};
}

/// A word is banned as it stands and as a word after a space; of several tokens, the last is banned after the others.
Status read_bad_words(const Fields& fields, const Tokenizer& tokenizer, SamplingParams& sampling) {
  const Json* words = fields.find("bad_words");
  if (words == nullptr) return {};
  const std::string place = fields.spelling("bad_words");
  if (words->size() > kMaxWords)
    return bad_field(place, "{} holds {} words, expected {} at most", place, words->size(), kMaxWords);
  for (const Json& word : *words) {
    if (!word.is_string() || word.get_ref<const std::string&>().empty()) {
      return bad_field(place, "{} holds {}, expected strings that are not empty", place, word.dump());
    }
    const std::string text = word.get<std::string>();
    for (const std::string& form : {text, " " + text}) {
      TRY_BIND(std::vector<int32_t> tokens, tokenizer.encode(form, {.add_special = false, .parse_special = false}));
      if (!tokens.empty()) sampling.banned_sequences.push_back(std::move(tokens));
    }
  }
  return {};
}

Status read_sampling(const Fields& fields, const ServedModel& model, GenerationSettings& settings) {
  SamplingParams& sampling = settings.sampling;
  auto take = [&](std::string_view name, float& value) {
    if (const auto number = fields.number(name)) value = static_cast<float>(*number);
  };
  take("temperature", sampling.temperature);
  take("top_p", sampling.top_p);
  take("min_p", sampling.min_p);
  take("typical_p", sampling.typical_p);
  take("frequency_penalty", sampling.frequency_penalty);
  take("presence_penalty", sampling.presence_penalty);
  take("repetition_penalty", sampling.repetition_penalty);
  if (const auto k = fields.integer("top_k")) sampling.top_k = static_cast<int32_t>(*k);
  const auto seed = fields.integer("seed");
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : model.seed ? *model.seed : fresh_seed();
  if (const auto dialect = fields.text("sampler_dialect")) {
    auto parsed = parse_sampler_dialect(*dialect);
    if (!parsed.ok()) return bad_field(fields.spelling("sampler_dialect"), "{}", parsed.error().message);
    sampling.dialect = *parsed;
  }
  TRY_STATUS(read_logit_bias(fields, model.vocabulary(), sampling));
  if (const Json* allowed = fields.find("allowed_token_ids")) {
    const std::string place = fields.spelling("allowed_token_ids");
    TRY_BIND(std::vector<int32_t> tokens, read_token_ids(*allowed, place, model.vocabulary()));
    sampling.allowed = allow_only(tokens, model.vocabulary());
    if (tokens.empty()) return bad_field(place, "{} is empty; no token could be drawn", place);
  }
  return read_bad_words(fields, *model.tokenizer, sampling);
}

Status read_ends(const Fields& fields, const ServedModel& model, GenerationSettings& settings) {
  for (const char* name : {"max_completion_tokens", "max_output_tokens", "max_tokens"}) {
    if (const auto limit = fields.integer(name)) {
      settings.max_tokens = static_cast<int32_t>(*limit);
      settings.max_tokens_field = fields.spelling(name);
      break;
    }
  }
  settings.min_tokens = static_cast<int32_t>(fields.integer("min_tokens").value_or(0));
  if (settings.max_tokens && settings.min_tokens > *settings.max_tokens) {
    const std::string place = fields.spelling("min_tokens");
    return bad_field(place, "{} is {}, more than {} allows, {}", place, settings.min_tokens, settings.max_tokens_field,
                     *settings.max_tokens);
  }
  TRY_BIND(settings.stops, read_stops(fields));
  settings.include_stop = fields.flag("include_stop_str_in_output");
  settings.ignore_end_tokens = fields.flag("ignore_eos");
  settings.skip_special = fields.flag("skip_special_tokens", true);
  if (const Json* stops = fields.find("stop_token_ids")) {
    TRY_BIND(settings.stop_tokens, read_token_ids(*stops, fields.spelling("stop_token_ids"), model.vocabulary()));
  }
  return {};
}

Status read_logprobs_mode(const Fields& fields) {
  const auto mode = fields.text("logprobs_mode");
  if (!mode || *mode == "raw_logprobs") return {};
  const std::string place = fields.spelling("logprobs_mode");
  const bool known = *mode == "processed_logprobs" || *mode == "raw_logits" || *mode == "processed_logits";
  return Error{known ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
               fmt::format("{} is '{}'; this server gives raw_logprobs", place, mode->substr(0, 40)), place};
}

}  // namespace

Result<GenerationSettings> read_generation(const Fields& fields, const ServedModel& model) {
  GenerationSettings settings;
  settings.sampling = model.sampling;
  TRY_STATUS(read_sampling(fields, model, settings));
  TRY_STATUS(read_ends(fields, model, settings));
  TRY_STATUS(read_logprobs_mode(fields));
  settings.choices = static_cast<int32_t>(fields.integer("n").value_or(1));
  settings.prompt_logprobs = static_cast<int32_t>(fields.integer("prompt_logprobs").value_or(-1));
  settings.token_ids = fields.flag("return_token_ids");
  settings.priority = static_cast<int32_t>(fields.integer("priority").value_or(0));
  settings.request_id = fields.text("request_id").value_or("");
  if (settings.request_id.size() > 128) {
    const std::string place = fields.spelling("request_id");
    return bad_field(place, "{} has {} bytes, expected 128 at most", place, settings.request_id.size());
  }
  if (const auto salt = fields.text("cache_salt")) settings.cache_salt = fmix64(hash_text(*salt)) | 1;
  return settings;
}

Result<std::vector<int32_t>> read_token_ids(const Json& array, const std::string& place, int32_t vocabulary) {
  std::vector<int32_t> tokens;
  if (!array.is_array()) return bad_field(place, "{} is {}, expected token ids", place, describe_json(array));
  tokens.reserve(array.size());
  for (const Json& item : array) {
    const std::optional<int64_t> token = item.is_number() ? as_integer(item) : std::nullopt;
    if (!token || *token < 0 || *token >= vocabulary) {
      return bad_field(place, "{} holds {}, expected token ids from 0 to {}", place, item.dump().substr(0, 40),
                       vocabulary - 1);
    }
    tokens.push_back(static_cast<int32_t>(*token));
  }
  return tokens;
}

Status check_model_name(const Fields& fields, const ServedModel& model, bool required) {
  const auto name = fields.text("model");
  if (!name) {
    if (!required) return {};
    return bad_field("model", "model is missing; this server has {}", model.name());
  }
  if (model.answers_to(*name)) return {};
  return Error{
      ErrorCode::kNotFound,
      fmt::format("the model '{}' does not exist here; this server has {}", name->substr(0, 200), model.name()),
      "model"};
}

Status check_metadata(const Fields& fields) {
  const Json* metadata = fields.find("metadata");
  if (metadata == nullptr) return {};
  if (metadata->size() > 16)
    return bad_field("metadata", "metadata has {} pairs, expected 16 at most", metadata->size());
  for (const auto& [key, value] : metadata->items()) {
    if (key.size() > 64)
      return bad_field("metadata", "metadata has a key of {} bytes, expected 64 at most", key.size());
    if (!value.is_string() || value.get_ref<const std::string&>().size() > 512) {
      return bad_field("metadata", "metadata.{} is no string of at most 512 bytes", key);
    }
  }
  return {};
}

}  // namespace vernier
