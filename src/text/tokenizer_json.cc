#include <algorithm>

#include "text/bpe_model.h"
#include "text/json_value.h"
#include "text/tokenizer.h"
#include "text/tokenizer_steps.h"
#include "text/unigram_model.h"
#include "text/utf8.h"
#include "text/wordpiece_model.h"

namespace vernier {
namespace {

using json::element;

/// Texts of tokens, one after another in one allocation, and where each id's lies.
class VocabularyBuilder {
 public:
  Status add(std::string_view text, int64_t id) {
    if (id < 0 || id >= static_cast<int64_t>(Vocabulary::kMaxTokens)) {
      return corrupt("the id {} of a token; expected 0 to {}", id, Vocabulary::kMaxTokens - 1);
    }
    if (!is_valid_utf8(text)) return corrupt("the token {} is not valid UTF-8", id);
    places_.push_back({static_cast<TokenId>(id), arena_.size(), text.size()});
    arena_.append(text);
    return {};
  }
  void reserve(size_t tokens) {
    places_.reserve(tokens);
    arena_.reserve(tokens * 8);
  }

  Result<std::shared_ptr<const Vocabulary>> build() && {
    auto arena = std::make_shared<const std::string>(std::move(arena_));
    TokenId last = -1;
    for (const Place& place : places_) last = std::max(last, place.id);
    // Gaps are allowed; a small file must not ask for a huge table.
    if (static_cast<size_t>(last + 1) > 8 * places_.size() + (size_t{1} << 20)) {
      return corrupt("the highest id is {} in a vocabulary of {} tokens", last, places_.size());
    }
    std::vector<std::string_view> texts(static_cast<size_t>(last + 1));
    for (const Place& place : places_) {
      texts[static_cast<size_t>(place.id)] = std::string_view(arena->data() + place.offset, place.size);
    }
    return std::make_shared<const Vocabulary>(std::move(texts), arena);
  }

 private:
  struct Place {
    TokenId id;
    size_t offset;
    size_t size;
  };
  std::string arena_;
  std::vector<Place> places_;
};

Result<std::shared_ptr<const Vocabulary>> read_vocabulary(element model) {
  std::optional<element> vocab = json::member(model, "vocab");
  json::object entries;
  if (!vocab || vocab->get(entries) != simdjson::SUCCESS) return corrupt("'vocab' is missing or is not an object");
  VocabularyBuilder builder;
  builder.reserve(entries.size());
  for (auto entry : entries) {
    int64_t id = -1;
    if (entry.value.get(id) != simdjson::SUCCESS) return corrupt("the id of the token '{}' is not a number", entry.key);
    TRY_STATUS(builder.add(entry.key, id));
  }
  return std::move(builder).build();
}

/// "left right", or ["left", "right"].
Result<std::pair<std::string_view, std::string_view>> read_merge(element value) {
  std::string_view left, right;
  if (value.get(left) == simdjson::SUCCESS) {
    size_t space = left.find(' ');
    if (space == std::string_view::npos) return corrupt("the merge '{}' is not two tokens", left);
    return std::pair(left.substr(0, space), left.substr(space + 1));
  }
  json::array pair;
  if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
      pair.at(1).get(right) != simdjson::SUCCESS) {
    return corrupt("a merge is neither text nor a pair of texts");
  }
  return std::pair(left, right);
}

Result<MergeTable> read_merges(element model, const Vocabulary& vocabulary, size_t prefix_size) {
  TRY_BIND(json::array list, json::list(model, "merges"));
  // An array of 2^24 items or more says its size as 2^24 - 1; the table grows all the same.
  MergeListReader reader(vocabulary, list.size(), prefix_size);
  for (element item : list) {
    TRY_BIND(auto pair, read_merge(item));
    reader.add(pair.first, pair.second);
  }
  return std::move(reader).build();
}

Result<std::optional<TokenId>> read_unknown(element model, const Vocabulary& vocabulary) {
  if (!json::member(model, "unk_token")) return std::optional<TokenId>();
  TRY_BIND(std::string_view text, json::text(model, "unk_token"));
  std::optional<TokenId> id = vocabulary.find(text);
  if (!id) return corrupt("the unknown token '{}' is not in the vocabulary", text);
  return id;
}

Status read_bpe(element model, TokenizerParts& parts) {
  TRY_BIND(parts.vocabulary, read_vocabulary(model));
  BpeOptions options;
  TRY_BIND(options.unknown, read_unknown(model, *parts.vocabulary));
  TRY_BIND(options.fuse_unknown, json::flag(model, "fuse_unk", false));
  TRY_BIND(options.byte_fallback, json::flag(model, "byte_fallback", false));
  TRY_BIND(options.ignore_merges, json::flag(model, "ignore_merges", false));
  TRY_BIND(options.continuing_prefix, json::text_or(model, "continuing_subword_prefix", ""));
  TRY_BIND(options.end_suffix, json::text_or(model, "end_of_word_suffix", ""));
  TRY_BIND(MergeTable merges, read_merges(model, *parts.vocabulary, options.continuing_prefix.size()));
  parts.model = std::make_unique<BpeModel>(parts.vocabulary, std::move(merges), std::move(options));
  return {};
}

Status read_unigram(element model, TokenizerParts& parts) {
  TRY_BIND(json::array list, json::list(model, "vocab"));
  VocabularyBuilder builder;
  builder.reserve(list.size());
  std::vector<double> scores;
  for (element item : list) {
    json::array pair;
    std::string_view text;
    double score = 0;
    if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(text) != simdjson::SUCCESS ||
        pair.at(1).get(score) != simdjson::SUCCESS) {
      return corrupt("token {} of the vocabulary is not a text and a score", scores.size());
    }
    TRY_STATUS(builder.add(text, static_cast<int64_t>(scores.size())));
    scores.push_back(score);
  }
  TRY_BIND(parts.vocabulary, std::move(builder).build());
  UnigramModel::Options options;
  TRY_BIND(int64_t unknown, json::integer(model, "unk_id", -1));
  if (unknown < 0 || unknown >= static_cast<int64_t>(scores.size())) {
    return unsupported("a unigram model without an unknown token (unk_id {})", unknown);
  }
  options.unknown = static_cast<TokenId>(unknown);
  TRY_BIND(options.byte_fallback, json::flag(model, "byte_fallback", false));
  parts.model = std::make_unique<UnigramModel>(parts.vocabulary, std::move(scores), options);
  return {};
}

Status read_wordpiece(element model, TokenizerParts& parts) {
  TRY_BIND(parts.vocabulary, read_vocabulary(model));
  WordPieceModel::Options options;
  TRY_BIND(std::optional<TokenId> unknown, read_unknown(model, *parts.vocabulary));
  if (!unknown) return unsupported("a WordPiece model without an unknown token");
  options.unknown = *unknown;
  TRY_BIND(options.continuing_prefix, json::text_or(model, "continuing_subword_prefix", "##"));
  TRY_BIND(int64_t limit, json::integer(model, "max_input_chars_per_word", 100));
  options.max_characters = static_cast<size_t>(std::clamp<int64_t>(limit, 0, 1000));
  parts.model = std::make_unique<WordPieceModel>(parts.vocabulary, std::move(options));
  return {};
}

Status read_model(element root, TokenizerParts& parts) {
  std::optional<element> model = json::member(root, "model");
  if (!model) return corrupt("'model' is missing");
  bool pairs = json::member(*model, "merges").has_value();
  TRY_BIND(std::string_view type, json::text_or(*model, "type", pairs ? "BPE" : ""));
  if (type == "BPE") return read_bpe(*model, parts);
  if (type == "Unigram") return read_unigram(*model, parts);
  if (type == "WordPiece") return read_wordpiece(*model, parts);
  return unsupported("the model type '{}' is not known; BPE, Unigram and WordPiece are", type);
}

/// A token that the model has keeps the model's id, whatever the file says.
Status read_added(element root, TokenizerParts& parts) {
  if (!json::member(root, "added_tokens")) return {};
  TRY_BIND(json::array list, json::list(root, "added_tokens"));
  for (element item : list) {
    AddedToken token;
    TRY_BIND(token.text, json::text(item, "content"));
    TRY_BIND(int64_t id, json::integer(item, "id", -1));
    if (id < 0 || id >= static_cast<int64_t>(Vocabulary::kMaxTokens)) {
      return corrupt("the id {} of the added token '{}' is out of range", id, token.text);
    }
    token.id = parts.vocabulary->find(token.text).value_or(static_cast<TokenId>(id));
    TRY_BIND(token.special, json::flag(item, "special", false));
    TRY_BIND(token.lstrip, json::flag(item, "lstrip", false));
    TRY_BIND(token.rstrip, json::flag(item, "rstrip", false));
    TRY_BIND(token.single_word, json::flag(item, "single_word", false));
    TRY_BIND(token.normalized, json::flag(item, "normalized", !token.special));
    if (!token.text.empty()) parts.added.push_back(std::move(token));
  }
  return {};
}

Status read_parts(element root, TokenizerParts& parts) {
  if (!root.is_object()) return corrupt("expected an object");
  // "truncation" and "padding" say how long batches are to be: they change no text's own ids, and what is longer than a
  // model takes is refused with both numbers by who serves it.
  TRY_STATUS(read_model(root, parts));
  if (auto value = json::member(root, "normalizer")) {
    TRY_STATUS(tokenizer_json::read_normalizer(*value, parts.normalizers));
  }
  if (auto value = json::member(root, "pre_tokenizer")) {
    TRY_STATUS(tokenizer_json::read_pre_tokenizer(*value, parts.pre_tokenizers));
  }
  if (auto value = json::member(root, "post_processor")) {
    TRY_STATUS(tokenizer_json::read_post_processor(*value, parts.templates));
  }
  if (auto value = json::member(root, "decoder")) {
    TRY_STATUS(tokenizer_json::read_decoder(*value, parts.decoder));
  } else {
    parts.decoder.push_back({.kind = DecoderKind::kSpace, .pattern = {}, .content = {}});
  }
  return read_added(root, parts);
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(std::string_view bytes) {
  simdjson::padded_string padded(bytes);
  simdjson::dom::parser parser;
  element root;
  if (auto error = parser.parse(padded).get(root); error != simdjson::SUCCESS) {
    return corrupt("tokenizer.json is not valid JSON: {}", simdjson::error_message(error));
  }
  TokenizerParts parts;
  Status read = read_parts(root, parts);
  if (!read.ok()) {
    Error error = read.error();
    error.message = "tokenizer.json: " + error.message;
    return error;
  }
  return Tokenizer(std::move(parts));
}

}  // namespace vernier
