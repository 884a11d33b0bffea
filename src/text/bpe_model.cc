#include "text/bpe_model.h"

#include "text/merge_queue.h"
#include "text/utf8.h"

namespace vernier {
namespace {

constexpr size_t kFewSymbols = 24;          // up to here a scan for the best pair beats a queue
constexpr char32_t kLowCharacters = 0x180;  // holds the byte alphabet
constexpr uint32_t kNoMerge = 0xFFFFFFFF;
constexpr char32_t kSpaceMarkPoint = 0x2581;
constexpr size_t kMaxCrossings = 1000;  // a vocabulary with more is one of phrases

}  // namespace

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options)
    : TokenModel(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  if (options_.byte_fallback) bytes_ = byte_tokens();
  low_characters_.resize(kLowCharacters);
  for (char32_t c = 0; c < kLowCharacters; ++c) {
    low_characters_[c] = this->vocabulary().find(to_utf8(c)).value_or(-1);
  }
  find_word_borders();
}

/// SentencePiece merges run over whole texts, but where no token holds "x▁" no merge can cross from x to "▁": the text
/// may be cut there and gives the same tokens, many times faster.
void BpeModel::find_word_borders() {
  if (!options_.byte_fallback || !options_.continuing_prefix.empty() || !options_.end_suffix.empty()) return;
  if (!vocabulary().find(kSpaceMark)) return;
  std::vector<CodePointRange> crossed;
  for (size_t id = 0; id < vocabulary().size(); ++id) {
    std::string_view token = vocabulary().text(static_cast<TokenId>(id));
    if (token.size() <= kSpaceMark.size()) continue;
    for (size_t at = token.find(kSpaceMark, 1); at != std::string_view::npos; at = token.find(kSpaceMark, at + 1)) {
      char32_t before = decode_utf8(token, previous_utf8(token, at)).value;
      if (before != kSpaceMarkPoint) crossed.push_back({before, before});
    }
    if (crossed.size() > kMaxCrossings) return;
  }
  not_before_border_ = CodePointBitmap(CodePointSet(crossed));
  has_word_borders_ = true;
}

std::optional<TokenId> BpeModel::character_token(std::string_view character, bool first, bool last) const {
  bool prefixed = !first && !options_.continuing_prefix.empty();
  bool suffixed = last && !options_.end_suffix.empty();
  if (prefixed || suffixed) {
    std::string text = (prefixed ? options_.continuing_prefix : "") + std::string(character);
    return vocabulary().find(suffixed ? text + options_.end_suffix : text);
  }
  DecodedCodePoint c = decode_utf8(character, 0);
  if (c.value >= kLowCharacters) return vocabulary().find(character);
  TokenId id = low_characters_[c.value];
  return id < 0 ? std::nullopt : std::optional(id);
}

/// One symbol for each byte, if the vocabulary has them all.
bool BpeModel::append_bytes(std::string_view character, uint32_t begin, Symbols& out) const {
  for (char c : character) {
    if (bytes_[static_cast<unsigned char>(c)] < 0) return false;
  }
  for (uint32_t i = 0; i < character.size(); ++i) {
    out.push_back({bytes_[static_cast<unsigned char>(character[i])], 0, begin + i, begin + i + 1, 0, 0});
  }
  return true;
}

void BpeModel::characters(const ModelInput& input, ByteRange piece, Symbols& symbols) const {
  std::string_view text = input.text.text;
  std::optional<Symbol> unknown;  // not yet appended; a byte that falls back overtakes it, as in Hugging Face's
  for (size_t at = piece.begin; at < piece.end;) {
    size_t end = at + utf8_size(text[at]);
    std::string_view character = text.substr(at, end - at);
    auto begin32 = static_cast<uint32_t>(at);
    auto end32 = static_cast<uint32_t>(end);
    std::optional<TokenId> id = character_token(character, at == piece.begin, end == piece.end);
    if (id) {
      if (unknown) symbols.push_back(*unknown);
      unknown.reset();
      symbols.push_back({*id, 1, begin32, end32, 0, 0});
    } else if (options_.byte_fallback && append_bytes(character, begin32, symbols)) {
    } else if (options_.unknown) {
      if (unknown && options_.fuse_unknown) {
        unknown->end = end32;
      } else {
        if (unknown) symbols.push_back(*unknown);
        unknown = Symbol{*options_.unknown, 0, begin32, end32, 0, 0};
      }
    }
    at = end;
  }
  if (unknown) symbols.push_back(*unknown);
}

std::optional<Merge> BpeModel::find_merge(const ModelInput& input, const Symbol& left, const Symbol& right) const {
  std::string_view text;
  if (merges_.by_text()) {
    if (!left.is_text || !right.is_text) return std::nullopt;
    text = std::string_view(input.text.text).substr(left.begin, right.end - left.begin);
  }
  std::optional<Merge> merge = merges_.find(left.id, right.id, text);
  if (merge && input.is_barred(merge->id, left.begin, right.end)) return std::nullopt;
  return merge;
}

void BpeModel::tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    std::string_view whole = std::string_view(input.text.text).substr(piece.begin, piece.end - piece.begin);
    std::optional<TokenId> id = vocabulary().find(whole);
    if (id && !input.is_barred(*id, piece.begin, piece.end)) {
      out.push_back(*id);
      return;
    }
  }
  std::string_view text = std::string_view(input.text.text).substr(0, piece.end);
  size_t begin = piece.begin;
  size_t at = has_word_borders_ ? text.find(kSpaceMark, begin + 1) : std::string_view::npos;
  while (at != std::string_view::npos) {
    char32_t before = decode_utf8(text, previous_utf8(text, at)).value;
    if (before != kSpaceMarkPoint && !not_before_border_.contains(before)) {
      tokenize_part(input, {begin, at}, out);
      begin = at;
    }
    at = text.find(kSpaceMark, at + kSpaceMark.size());
  }
  tokenize_part(input, {begin, piece.end}, out);
}

void BpeModel::tokenize_part(const ModelInput& input, ByteRange part, std::vector<TokenId>& out) const {
  // Kept between calls: most parts are words, and an allocation costs more than their merges.
  static thread_local Symbols symbols;
  characters(input, part, symbols);
  if (symbols.size() <= kFewSymbols) {
    merge_few(input, symbols);
  } else {
    merge_many(input, symbols);
  }
  for (size_t i = 0; i < symbols.size(); ++i) out.push_back(symbols[i].id);
  symbols.clear();
}

void BpeModel::merge_few(const ModelInput& input, Symbols& symbols) const {
  Merge merges[kFewSymbols];
  size_t count = symbols.size();
  auto look = [&](size_t i) {
    merges[i] = find_merge(input, symbols[i], symbols[i + 1]).value_or(Merge{kNoMerge, 0, 0});
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      bool before =
          merges[i].rank != merges[best].rank ? merges[i].rank < merges[best].rank : merges[i].tie < merges[best].tie;
      if (before) best = i;
    }
    if (merges[best].rank == kNoMerge) break;
    symbols[best] = {merges[best].id, 1, symbols[best].begin, symbols[best + 1].end, 0, 0};
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best + 1 < count) look(best);
    if (best > 0) look(best - 1);
  }
  symbols.truncate(count);
}

void BpeModel::merge_many(const ModelInput& input, Symbols& symbols) const {
  MergeQueue queue(merges_.by_text());
  auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    auto merge = find_merge(input, symbols[static_cast<size_t>(left)], symbols[static_cast<size_t>(right)]);
    if (merge) queue.push({merge->rank, merge->tie, static_cast<uint32_t>(left)});
  };
  auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  while (auto found = queue.pop()) {
    auto at = static_cast<int32_t>(found->symbol);
    Symbol& left = symbols[found->symbol];
    if (left.id < 0 || left.next < 0) continue;  // merged into its left neighbour, or last
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    // The pair here may have changed since it was queued.
    std::optional<Merge> merge = find_merge(input, left, right);
    if (!merge || merge->rank != found->rank || merge->tie != found->tie) continue;
    left.id = merge->id;
    left.is_text = 1;
    left.end = right.end;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = at;
    offer(left.previous, at);
    offer(at, left.next);
  }
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].id >= 0) symbols[kept++] = symbols[i];
  }
  symbols.truncate(kept);
}

}  // namespace vernier
