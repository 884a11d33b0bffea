#include "text/wordpiece_model.h"

#include <algorithm>

#include "text/utf8.h"

namespace vernier {

WordPieceModel::WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, Options options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)) {}

void WordPieceModel::tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const {
  std::string_view word = std::string_view(input.text.text).substr(piece.begin, piece.end - piece.begin);
  auto characters =
      static_cast<size_t>(std::count_if(word.begin(), word.end(), [](char c) { return !is_utf8_continuation(c); }));
  size_t first = out.size();
  bool unknown = characters > options_.max_characters;
  for (size_t at = 0; at < word.size() && !unknown;) {
    size_t end = word.size();
    std::optional<TokenId> id;
    for (; end > at; end = previous_utf8(word, end)) {
      std::string_view part = word.substr(at, end - at);
      id = vocabulary().find(at == 0 ? std::string(part) : options_.continuing_prefix + std::string(part));
      if (id && input.is_barred(*id, piece.begin + at, piece.begin + end)) id.reset();
      if (id) break;
    }
    unknown = !id;
    if (id) out.push_back(*id);
    at = end;
  }
  if (!unknown) return;
  out.resize(first);
  out.push_back(options_.unknown);
}

}  // namespace vernier
