#include "text/tokenizer_steps.h"

#include <algorithm>

#include "text/charsmap.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier::tokenizer_json {
namespace {

using json::element;

template <class Read>
Status each_of(element value, std::string_view key, int depth, Read read) {
  if (depth >= kMaxDepth) return corrupt("'{}' nested more than {} deep", key, kMaxDepth);
  TRY_BIND(json::array list, json::list(value, key));
  for (element item : list) TRY_STATUS(read(item));
  return {};
}

/// {"String": text} or {"Regex": pattern}.
Result<Regex> read_pattern(element value) {
  std::optional<element> pattern = json::member(value, "pattern");
  if (!pattern) return corrupt("'pattern' is missing");
  if (json::member(*pattern, "String")) {
    TRY_BIND(std::string_view text, json::text(*pattern, "String"));
    return Regex::literal(text);
  }
  TRY_BIND(std::string_view text, json::text(*pattern, "Regex"));
  return Regex::compile(text);
}

Result<SplitBehaviour> read_behaviour(std::string_view name) {
  if (name == "Removed") return SplitBehaviour::kRemoved;
  if (name == "Isolated") return SplitBehaviour::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehaviour::kMergedWithNext;
  if (name == "Contiguous") return SplitBehaviour::kContiguous;
  return unsupported("the split behaviour '{}' is not known", name);
}

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};

Result<MetaspaceOptions> read_metaspace(element value) {
  TRY_BIND(std::string_view replacement, json::text_or(value, "replacement", "▁"));
  TRY_BIND(bool add_prefix_space, json::flag(value, "add_prefix_space", true));
  TRY_BIND(std::string_view scheme, json::text_or(value, "prepend_scheme", add_prefix_space ? "always" : "never"));
  TRY_BIND(bool split, json::flag(value, "split", true));
  MetaspaceOptions options{std::string(replacement), PrependScheme::kAlways, split};
  if (replacement.empty()) return corrupt("'replacement' is empty");
  if (scheme == "first") {
    options.scheme = PrependScheme::kFirst;
  } else if (scheme == "never") {
    options.scheme = PrependScheme::kNever;
  } else if (scheme != "always") {
    return unsupported("the prepend scheme '{}' is not known", scheme);
  }
  return options;
}

Result<std::string> read_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return corrupt("'precompiled_charsmap' is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return out;
}

Result<std::unique_ptr<Normalizer>> read_bert_normalizer(element value) {
  BertNormalizerOptions options;
  TRY_BIND(options.clean_text, json::flag(value, "clean_text", true));
  TRY_BIND(options.space_out_han, json::flag(value, "handle_chinese_chars", true));
  TRY_BIND(options.lowercase, json::flag(value, "lowercase", true));
  TRY_BIND(options.strip_accents, json::flag(value, "strip_accents", options.lowercase));
  return make_bert_normalizer(options);
}

Result<std::unique_ptr<Normalizer>> make_normalizer(element value, std::string_view type) {
  if (type == "NFC") return make_normal_form(NormalForm::kNfc);
  if (type == "NFD") return make_normal_form(NormalForm::kNfd);
  if (type == "NFKC") return make_normal_form(NormalForm::kNfkc);
  if (type == "NFKD") return make_normal_form(NormalForm::kNfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "StripAccents") return make_strip_accents();
  if (type == "Nmt") return make_nmt();
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "BertNormalizer") return read_bert_normalizer(value);
  if (type == "Prepend") {
    TRY_BIND(std::string_view text, json::text(value, "prepend"));
    return make_prepend(std::string(text));
  }
  if (type == "Replace") {
    TRY_BIND(Regex pattern, read_pattern(value));
    TRY_BIND(std::string_view content, json::text(value, "content"));
    return make_replace(std::move(pattern), std::string(content));
  }
  if (type == "Strip") {
    TRY_BIND(bool left, json::flag(value, "strip_left", true));
    TRY_BIND(bool right, json::flag(value, "strip_right", true));
    return make_strip(left, right);
  }
  if (type == "Precompiled") {
    TRY_BIND(std::string_view text, json::text(value, "precompiled_charsmap"));
    TRY_BIND(std::string bytes, read_base64(text));
    TRY_BIND(Charsmap map, Charsmap::parse(bytes));
    return make_precompiled(std::move(map));
  }
  return unsupported("the normalizer '{}' is not known", type);
}

Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(element value, std::string_view type) {
  if (type == "WhitespaceSplit") return make_whitespace_split();
  if (type == "Whitespace") return make_whitespace();
  if (type == "ByteLevel") {
    TRY_BIND(bool add_prefix_space, json::flag(value, "add_prefix_space", true));
    TRY_BIND(bool use_regex, json::flag(value, "use_regex", true));
    return make_byte_level(add_prefix_space, use_regex);
  }
  if (type == "Metaspace") {
    TRY_BIND(MetaspaceOptions options, read_metaspace(value));
    return make_metaspace(options.replacement, options.scheme, options.split);
  }
  if (type == "Digits") {
    TRY_BIND(bool individual, json::flag(value, "individual_digits", false));
    return make_digits(individual);
  }
  if (type == "Punctuation") {
    TRY_BIND(std::string_view name, json::text_or(value, "behavior", "Isolated"));
    TRY_BIND(SplitBehaviour behaviour, read_behaviour(name));
    return make_punctuation(behaviour);
  }
  if (type == "CharDelimiterSplit") {
    TRY_BIND(std::string_view delimiter, json::text(value, "delimiter"));
    return make_split(Regex::literal(delimiter), SplitBehaviour::kRemoved);
  }
  if (type == "Split") {
    TRY_BIND(Regex pattern, read_pattern(value));
    TRY_BIND(std::string_view name, json::text(value, "behavior"));
    TRY_BIND(SplitBehaviour behaviour, read_behaviour(name));
    TRY_BIND(bool invert, json::flag(value, "invert", false));
    return make_split(std::move(pattern), behaviour, invert);
  }
  return unsupported("the pre-tokenizer '{}' is not known", type);
}

Result<DecoderStep> make_decoder_step(element value, std::string_view type) {
  DecoderStep step;
  if (type == "ByteLevel") {
    step.kind = DecoderKind::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = DecoderKind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecoderKind::kFuse;
  } else if (type == "Strip") {
    step.kind = DecoderKind::kStrip;
    TRY_BIND(step.content, json::text_or(value, "content", " "));
    TRY_BIND(int64_t left, json::integer(value, "start", 0));
    TRY_BIND(int64_t right, json::integer(value, "stop", 0));
    if (left < 0 || right < 0) return corrupt("'start' or 'stop' is below 0");
    step.left = static_cast<size_t>(left);
    step.right = static_cast<size_t>(right);
  } else if (type == "Replace") {
    step.kind = DecoderKind::kReplace;
    TRY_BIND(step.pattern, read_pattern(value));
    TRY_BIND(step.content, json::text(value, "content"));
  } else if (type == "Metaspace") {
    step.kind = DecoderKind::kMetaspace;
    TRY_BIND(MetaspaceOptions options, read_metaspace(value));
    step.content = options.replacement;
    step.scheme = options.scheme;
  } else if (type == "WordPiece") {
    step.kind = DecoderKind::kWordPiece;
    TRY_BIND(step.content, json::text_or(value, "prefix", "##"));
    TRY_BIND(step.cleanup, json::flag(value, "cleanup", true));
  } else if (type == "BPEDecoder") {
    step.kind = DecoderKind::kBpe;
    TRY_BIND(step.content, json::text_or(value, "suffix", "</w>"));
  } else {
    return unsupported("the decoder '{}' is not known", type);
  }
  return step;
}

/// One item of a template: {"SpecialToken": {"id"}} or {"Sequence": ...}.
Status read_template_item(element item, element value, TokenTemplate& out) {
  std::optional<element> special = json::member(item, "SpecialToken");
  if (!special) {
    if (!json::member(item, "Sequence")) return corrupt("an item of a template is neither a token nor a sequence");
    out.push_back(std::nullopt);
    return {};
  }
  TRY_BIND(std::string_view name, json::text(*special, "id"));
  std::optional<element> tokens = json::member(value, "special_tokens");
  std::optional<element> entry = tokens ? json::member(*tokens, name) : std::nullopt;
  if (!entry) return corrupt("the template's token '{}' is not in its special_tokens", name);
  TRY_BIND(json::array ids, json::list(*entry, "ids"));
  for (element id : ids) {
    int64_t number = -1;
    if (id.get(number) != simdjson::SUCCESS || number < 0 || number >= static_cast<int64_t>(Vocabulary::kMaxTokens)) {
      return corrupt("an id of the template's token '{}' is out of range", name);
    }
    out.push_back(static_cast<TokenId>(number));
  }
  return {};
}

/// ["text", id], as BERT's and RoBERTa's processors write a token.
Result<TokenId> read_token_pair(element value, std::string_view key) {
  TRY_BIND(json::array pair, json::list(value, key));
  int64_t id = -1;
  if (pair.size() != 2 || pair.at(1).get(id) != simdjson::SUCCESS || id < 0 ||
      id >= static_cast<int64_t>(Vocabulary::kMaxTokens)) {
    return corrupt("'{}' is not a token and its id", key);
  }
  return static_cast<TokenId>(id);
}

}  // namespace

Status read_normalizer(element value, Normalizers& out, int depth) {
  TRY_BIND(std::string_view type, json::text(value, "type"));
  if (type == "Sequence") {
    return each_of(value, "normalizers", depth, [&](element item) { return read_normalizer(item, out, depth + 1); });
  }
  TRY_BIND(auto step, make_normalizer(value, type));
  out.push_back(std::move(step));
  return {};
}

Status read_pre_tokenizer(element value, PreTokenizers& out, int depth) {
  TRY_BIND(std::string_view type, json::text(value, "type"));
  if (type == "Sequence") {
    return each_of(value, "pretokenizers", depth,
                   [&](element item) { return read_pre_tokenizer(item, out, depth + 1); });
  }
  if (type == "BertPreTokenizer") {
    out.push_back(make_whitespace_split());
    out.push_back(make_punctuation(SplitBehaviour::kIsolated));
    return {};
  }
  TRY_BIND(auto step, make_pre_tokenizer(value, type));
  out.push_back(std::move(step));
  return {};
}

Status read_decoder(element value, TokenDecoder& out, int depth) {
  TRY_BIND(std::string_view type, json::text(value, "type"));
  if (type == "Sequence") {
    return each_of(value, "decoders", depth, [&](element item) { return read_decoder(item, out, depth + 1); });
  }
  if (out.size() >= 64) return corrupt("a decoder of more than 64 steps");
  TRY_BIND(DecoderStep step, make_decoder_step(value, type));
  out.push_back(std::move(step));
  return {};
}

Status read_post_processor(element value, std::vector<TokenTemplate>& out, int depth) {
  TRY_BIND(std::string_view type, json::text(value, "type"));
  if (type == "Sequence") {
    return each_of(value, "processors", depth, [&](element item) { return read_post_processor(item, out, depth + 1); });
  }
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") {
    TokenTemplate form;
    TRY_BIND(json::array items, json::list(value, "single"));
    for (element item : items) TRY_STATUS(read_template_item(item, value, form));
    if (std::count(form.begin(), form.end(), std::nullopt) != 1) {
      return unsupported("a template for one text must hold the text once");
    }
    out.push_back(std::move(form));
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    TRY_BIND(TokenId first, read_token_pair(value, "cls"));
    TRY_BIND(TokenId last, read_token_pair(value, "sep"));
    out.push_back({first, std::nullopt, last});
    return {};
  }
  return unsupported("the post-processor '{}' is not known", type);
}

}  // namespace vernier::tokenizer_json
