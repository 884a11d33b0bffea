#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {

void AddedTokens::Tree::insert(std::string_view text, int32_t value) {
  if (text.empty()) return;
  starts_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (char c : text) {
    auto next = static_cast<uint32_t>(nodes_.size());
    uint32_t child = children_.insert(uint64_t{node} << 8 | static_cast<unsigned char>(c), next);
    if (child == next) nodes_.push_back(-1);
    node = child;
  }
  if (nodes_[node] < 0) nodes_[node] = value;
}

std::optional<AddedTokens::Tree::Found> AddedTokens::Tree::longest(std::string_view text, size_t at,
                                                                   size_t limit) const {
  std::optional<Found> found;
  uint32_t node = 0;
  while (at < limit) {
    const uint32_t* child = children_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[at]));
    if (child == nullptr) break;
    node = *child;
    ++at;
    if (nodes_[node] >= 0) found = Found{nodes_[node], at};
  }
  return found;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizers& normalizers)
    : tokens_(std::move(tokens)),
      by_id_(tokens_.size() * 2),
      word_(unicode::word_of_added()),
      space_(unicode::white_space()) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    auto index = static_cast<uint32_t>(i);
    by_id_.insert(static_cast<uint64_t>(tokens_[i].id), index) = index;
  }
  for (bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      token.decoded = token.text;
      if (!token.normalized) {
        raw_.insert(token.text, static_cast<int32_t>(i));
        continue;
      }
      MarkedText text{token.text, {}};
      apply_all(normalizers, text);
      normalised_.insert(text.text, static_cast<int32_t>(i));
      token.decoded = std::move(text.text);
    }
  }
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const uint32_t* index = by_id_.find(static_cast<uint64_t>(static_cast<uint32_t>(id)));
  return index == nullptr ? nullptr : &tokens_[*index];
}

bool AddedTokens::accepts(const AddedToken& token, std::string_view text, ByteRange range, bool parse_special) const {
  if (token.special && !parse_special) return false;
  if (!token.single_word) return true;
  bool word_before = range.begin > 0 && word_.contains(decode_utf8(text, previous_utf8(text, range.begin)).value);
  bool word_after = range.end < text.size() && word_.contains(decode_utf8(text, range.end).value);
  return !word_before && !word_after;
}

std::vector<AddedTokens::Match> AddedTokens::cut(const MarkedText& marked, bool normalized, bool parse_special) const {
  const Tree& tree = normalized ? normalised_ : raw_;
  std::string_view text = marked.text;
  std::vector<Match> matches;
  size_t done = 0;   // up to here all is in a match or in the text before one
  size_t limit = 0;  // the next byte of a caller at or after `at`
  for (size_t at = 0; at < text.size() && !tree.empty();) {
    if (!tree.may_start(text[at])) {
      ++at;
      continue;
    }
    if (limit <= at) {
      limit = at;
      while (limit < text.size() && (marked.marks.empty() || marked.marks[limit] == 0)) ++limit;
    }
    auto found = tree.longest(text, at, limit);
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found->value)];
    ByteRange range{at, found->end};
    at = found->end;  // a match that is not accepted is passed over as a whole
    if (!accepts(token, text, range, parse_special)) continue;
    while (token.lstrip && range.begin > done) {
      size_t before = previous_utf8(text, range.begin);
      if (!space_.contains(decode_utf8(text, before).value)) break;
      range.begin = before;
    }
    while (token.rstrip && range.end < text.size()) {
      DecodedCodePoint c = decode_utf8(text, range.end);
      if (!space_.contains(c.value)) break;
      range.end += c.size_bytes;
    }
    if (range.begin > done) matches.push_back({std::nullopt, {done, range.begin}});
    matches.push_back({token.id, range});
    done = range.end;
  }
  if (done < text.size()) matches.push_back({std::nullopt, {done, text.size()}});
  return matches;
}

}  // namespace vernier
