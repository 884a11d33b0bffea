#include "text/unigram_model.h"

#include <algorithm>

#include "text/utf8.h"

namespace vernier {

UnigramModel::UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, Options options)
    : TokenModel(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  double lowest = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = lowest - 10.0;
  if (options_.byte_fallback) bytes_ = byte_tokens();
  const Vocabulary& tokens = this->vocabulary();
  for (size_t id = 0; id < tokens.size(); ++id) {
    auto token = static_cast<TokenId>(id);
    // Of two tokens with one text only the one that is found counts.
    if (!tokens.text(token).empty() && tokens.find(tokens.text(token)) == token) sorted_.push_back(token);
  }
  std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) { return tokens.text(a) < tokens.text(b); });
  size_t at = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    first_byte_[byte] = static_cast<uint32_t>(at);
    while (at < sorted_.size() && static_cast<unsigned char>(tokens.text(sorted_[at])[0]) == byte) ++at;
  }
  first_byte_[256] = static_cast<uint32_t>(sorted_.size());
}

template <class Found>
void UnigramModel::each_prefix(std::string_view text, Found found) const {
  auto byte = static_cast<unsigned char>(text[0]);
  auto begin = sorted_.begin() + first_byte_[byte];
  auto end = sorted_.begin() + first_byte_[byte + 1];
  for (size_t depth = 1; begin != end; ++depth) {
    // All of [begin, end) start with the first `depth` bytes; a token of just those comes first.
    if (vocabulary().text(*begin).size() == depth) {
      found(*begin, depth);
      ++begin;
    }
    if (depth == text.size()) return;
    auto wanted = static_cast<unsigned char>(text[depth]);
    auto byte_at = [&](TokenId id) { return static_cast<unsigned char>(vocabulary().text(id)[depth]); };
    begin = std::lower_bound(begin, end, wanted, [&](TokenId id, unsigned char b) { return byte_at(id) < b; });
    end = std::upper_bound(begin, end, wanted, [&](unsigned char b, TokenId id) { return b < byte_at(id); });
  }
}

std::vector<UnigramModel::Step> UnigramModel::best_path(const ModelInput& input, ByteRange piece) const {
  std::string_view text = std::string_view(input.text.text).substr(piece.begin, piece.end - piece.begin);
  std::vector<Step> steps(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    size_t character = utf8_size(text[at]);
    bool covered = false;
    auto offer = [&](TokenId id, size_t size, double score) {
      Step& target = steps[at + size];
      double candidate = score + steps[at].score;
      if (target.from < 0 || candidate > target.score) target = {candidate, id, static_cast<int64_t>(at)};
    };
    each_prefix(text.substr(at), [&](TokenId id, size_t size) {
      if (input.is_barred(id, piece.begin + at, piece.begin + at + size)) return;
      offer(id, size, scores_[static_cast<size_t>(id)]);
      covered = covered || size == character;
    });
    if (!covered) offer(options_.unknown, character, unknown_score_);
    at += character;
  }
  return steps;
}

/// A part of the best path: a token, or its bytes, or the unknown token.
void UnigramModel::append(const ModelInput& input, ByteRange part, std::vector<TokenId>& out) const {
  std::string_view text = std::string_view(input.text.text).substr(part.begin, part.end - part.begin);
  std::optional<TokenId> id = vocabulary().find(text);
  if (id && !input.is_barred(*id, part.begin, part.end)) {
    out.push_back(*id);
    return;
  }
  bool spelled = options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
                   return bytes_[static_cast<unsigned char>(c)] >= 0;
                 });
  if (!spelled) {
    out.push_back(options_.unknown);
    return;
  }
  for (char c : text) out.push_back(bytes_[static_cast<unsigned char>(c)]);
}

void UnigramModel::tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const {
  std::vector<Step> steps = best_path(input, piece);
  std::vector<ByteRange> parts;  // last first
  bool fusing = false;
  for (size_t end = piece.end - piece.begin; end > 0;) {
    const Step& step = steps[end];
    auto begin = static_cast<size_t>(step.from);
    bool unknown = step.id == options_.unknown;
    if (unknown && fusing) {
      parts.back().begin = piece.begin + begin;
    } else {
      parts.push_back({piece.begin + begin, piece.begin + end});
    }
    fusing = unknown;
    end = begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) append(input, *part, out);
}

}  // namespace vernier
