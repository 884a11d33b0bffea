#include <cmath>

#include "text/bpe_model.h"
#include "text/charsmap.h"
#include "text/split_rules.h"
#include "text/tokenizer.h"
#include "text/unigram_model.h"
#include "text/utf8.h"

namespace vernier {
namespace {

int32_t type_of(const GgufVocabulary& gguf, size_t id) {
  return gguf.token_types.empty() ? GgufVocabulary::kNormal : gguf.token_types[id];
}

Status check(const GgufVocabulary& gguf) {
  size_t count = gguf.tokens.size();
  if (count == 0) return corrupt("tokenizer.ggml.tokens is missing or empty");
  if (count > Vocabulary::kMaxTokens)
    return corrupt("a vocabulary of {} tokens; at most {}", count, Vocabulary::kMaxTokens);
  if (!gguf.token_types.empty() && gguf.token_types.size() != count) {
    return corrupt("tokenizer.ggml.token_type has {} entries for {} tokens", gguf.token_types.size(), count);
  }
  if (!gguf.scores.empty() && gguf.scores.size() != count) {
    return corrupt("tokenizer.ggml.scores has {} entries for {} tokens", gguf.scores.size(), count);
  }
  for (size_t id = 0; id < gguf.scores.size(); ++id) {
    if (!std::isfinite(gguf.scores[id])) return corrupt("the score of token {} is not a number", id);
  }
  for (size_t id = 0; id < count; ++id) {
    if (!is_valid_utf8(gguf.tokens[id])) return corrupt("the token {} is not valid UTF-8", id);
  }
  for (const auto& id : {gguf.bos, gguf.eos, gguf.unknown, gguf.separator, gguf.classify}) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return corrupt("a special token has the id {}; the vocabulary has {} tokens", *id, count);
    }
  }
  return {};
}

/// Runs of spaces among SentencePiece tokens are stored as spaces; the text that they stand for spells them "▁".
std::shared_ptr<const Vocabulary> sentencepiece_vocabulary(const GgufVocabulary& gguf) {
  auto is_run = [](std::string_view token) {
    return !token.empty() && token.find_first_not_of(' ') == std::string_view::npos;
  };
  struct Keep {
    std::shared_ptr<const void> file;
    std::string spelled;
  };
  auto keep = std::make_shared<Keep>();
  keep->file = gguf.keep;
  size_t spaces = 0;
  for (std::string_view token : gguf.tokens) spaces += is_run(token) ? token.size() : 0;
  keep->spelled.reserve(spaces * kSpaceMark.size());  // views into it must not move
  std::vector<std::string_view> texts = gguf.tokens;
  for (std::string_view& text : texts) {
    if (!is_run(text)) continue;
    size_t begin = keep->spelled.size();
    for (size_t i = 0; i < text.size(); ++i) keep->spelled.append(kSpaceMark);
    text = std::string_view(keep->spelled).substr(begin);
  }
  return std::make_shared<const Vocabulary>(std::move(texts), keep);
}

/// Control, unknown and user-defined tokens are cut out of raw text.
void add_tokens(const GgufVocabulary& gguf, TokenizerParts& parts) {
  for (size_t id = 0; id < gguf.tokens.size(); ++id) {
    int32_t type = type_of(gguf, id);
    bool special = type == GgufVocabulary::kControl || type == GgufVocabulary::kUnknown;
    if (!special && type != GgufVocabulary::kUserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.text = parts.vocabulary->text(token.id);
    token.special = special;
    if (!token.text.empty()) parts.added.push_back(std::move(token));
  }
}

void add_template(const GgufVocabulary& gguf, bool bos, bool eos, TokenizerParts& parts) {
  TokenTemplate form;
  if (gguf.add_bos.value_or(bos) && gguf.bos) form.push_back(static_cast<TokenId>(*gguf.bos));
  form.push_back(std::nullopt);
  if (gguf.add_eos.value_or(eos) && gguf.eos) form.push_back(static_cast<TokenId>(*gguf.eos));
  parts.templates.push_back(std::move(form));
}

Result<MergeTable> read_merges(const GgufVocabulary& gguf, const Vocabulary& vocabulary) {
  MergeListReader reader(vocabulary, gguf.merges.size(), 0);
  for (std::string_view merge : gguf.merges) {
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) return corrupt("the merge '{}' is not two tokens", merge);
    reader.add(merge.substr(0, space), merge.substr(space + 1));
  }
  return std::move(reader).build();
}

Status read_byte_level(const GgufVocabulary& gguf, TokenizerParts& parts) {
  TRY_BIND(SplitRule rule, find_split_rule(gguf.pre));
  if (gguf.merges.empty()) return corrupt("tokenizer.ggml.merges is missing or empty");
  parts.vocabulary = std::make_shared<const Vocabulary>(gguf.tokens, gguf.keep);
  TRY_BIND(MergeTable merges, read_merges(gguf, *parts.vocabulary));
  BpeOptions options;
  options.ignore_merges = rule.ignore_merges;
  parts.model = std::make_unique<BpeModel>(parts.vocabulary, std::move(merges), std::move(options));
  parts.pre_tokenizers = std::move(rule.steps);
  parts.normalizers = std::move(rule.normalizers);
  parts.decoder.push_back({.kind = DecoderKind::kByteLevel, .pattern = {}, .content = {}});
  add_template(gguf, rule.add_bos, false, parts);
  return {};
}

/// SentencePiece's pieces with their scores ("llama"), or with a list of merges ("gemma4").
Status read_sentencepiece(const GgufVocabulary& gguf, TokenizerParts& parts) {
  parts.vocabulary = sentencepiece_vocabulary(gguf);
  BpeOptions options;
  if (gguf.unknown) options.unknown = static_cast<TokenId>(*gguf.unknown);
  options.fuse_unknown = true;
  options.byte_fallback = true;
  if (gguf.model == "gemma4") {
    TRY_BIND(MergeTable merges, read_merges(gguf, *parts.vocabulary));
    parts.model = std::make_unique<BpeModel>(parts.vocabulary, std::move(merges), std::move(options));
  } else {
    if (gguf.scores.empty()) return corrupt("tokenizer.ggml.scores is missing");
    std::vector<bool> ordinary(gguf.tokens.size());
    for (size_t id = 0; id < ordinary.size(); ++id) ordinary[id] = type_of(gguf, id) == GgufVocabulary::kNormal;
    MergeTable merges(*parts.vocabulary, gguf.scores, ordinary);
    parts.model = std::make_unique<BpeModel>(parts.vocabulary, std::move(merges), std::move(options));
  }
  bool prefix = gguf.add_space_prefix.value_or(gguf.model != "gemma4");
  if (prefix) parts.normalizers.push_back(make_prepend(std::string(kSpaceMark)));
  parts.normalizers.push_back(make_replace(Regex::literal(" "), std::string(kSpaceMark)));
  parts.decoder.push_back({.kind = DecoderKind::kReplace, .pattern = Regex::literal(kSpaceMark), .content = " "});
  parts.decoder.push_back({.kind = DecoderKind::kByteFallback, .pattern = {}, .content = {}});
  parts.decoder.push_back({.kind = DecoderKind::kFuse, .pattern = {}, .content = {}});
  if (prefix) parts.decoder.push_back({.kind = DecoderKind::kStrip, .pattern = {}, .content = " ", .left = 1});
  add_template(gguf, true, false, parts);
  return {};
}

Status read_unigram(const GgufVocabulary& gguf, TokenizerParts& parts) {
  if (gguf.scores.empty()) return corrupt("tokenizer.ggml.scores is missing");
  std::vector<std::string_view> texts = gguf.tokens;
  std::vector<double> scores(gguf.scores.begin(), gguf.scores.end());
  UnigramModel::Options options;
  options.unknown = static_cast<TokenId>(gguf.unknown.value_or(2));
  if (static_cast<size_t>(options.unknown) >= texts.size())
    return corrupt("the unknown token is not in the vocabulary");
  for (size_t id = 0; id < texts.size(); ++id) {
    if (type_of(gguf, id) == GgufVocabulary::kUnused) texts[id] = std::string_view();
    options.byte_fallback = options.byte_fallback || type_of(gguf, id) == GgufVocabulary::kByte;
  }
  parts.vocabulary = std::make_shared<const Vocabulary>(std::move(texts), gguf.keep);
  parts.model = std::make_unique<UnigramModel>(parts.vocabulary, std::move(scores), options);
  if (!gguf.precompiled_charsmap.empty()) {
    auto* bytes = reinterpret_cast<const char*>(gguf.precompiled_charsmap.data());
    TRY_BIND(Charsmap map, Charsmap::parse({bytes, gguf.precompiled_charsmap.size()}));
    parts.normalizers.push_back(make_precompiled(std::move(map)));
  }
  PrependScheme scheme = gguf.add_space_prefix.value_or(true) ? PrependScheme::kAlways : PrependScheme::kNever;
  if (gguf.remove_extra_whitespace.value_or(true)) parts.pre_tokenizers.push_back(make_whitespace_split());
  parts.pre_tokenizers.push_back(make_metaspace(std::string(kSpaceMark), scheme, true));
  parts.decoder.push_back(
      {.kind = DecoderKind::kMetaspace, .pattern = {}, .content = std::string(kSpaceMark), .scheme = scheme});
  add_template(gguf, false, true, parts);
  return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& gguf) {
  TRY_STATUS(check(gguf));
  TokenizerParts parts;
  if (gguf.model == "gpt2") {
    TRY_STATUS(read_byte_level(gguf, parts));
  } else if (gguf.model == "llama" || gguf.model == "gemma4") {
    TRY_STATUS(read_sentencepiece(gguf, parts));
  } else if (gguf.model == "t5") {
    TRY_STATUS(read_unigram(gguf, parts));
  } else {
    return unsupported("the vocabulary model '{}' (tokenizer.ggml.model) is not known; gpt2, llama, gemma4 and t5 are",
                       gguf.model);
  }
  add_tokens(gguf, parts);
  return Tokenizer(std::move(parts));
}

}  // namespace vernier
