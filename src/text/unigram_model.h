#pragma once

#include <array>

#include "text/token_model.h"

namespace vernier {

/// SentencePiece's unigram model: the cut of a piece with the highest sum of scores. A character that no token covers
/// alone costs ten less than the lowest score; runs of unknown characters become one unknown token, or their bytes.
class UnigramModel : public TokenModel {
 public:
  struct Options {
    TokenId unknown = 0;
    bool byte_fallback = false;
  };
  /// scores[id] for each token of the vocabulary.
  UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, Options options);
  void tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const override;

 private:
  struct Step {
    double score = 0;
    TokenId id = 0;
    int64_t from = -1;  // where the best path's last token starts; -1: nothing ends here
  };

  /// Calls `found(id, size_bytes)` for each token that `text` starts with, shortest first.
  template <class Found>
  void each_prefix(std::string_view text, Found found) const;
  std::vector<Step> best_path(const ModelInput& input, ByteRange piece) const;
  void append(const ModelInput& input, ByteRange part, std::vector<TokenId>& out) const;

  std::vector<double> scores_;
  Options options_;
  double unknown_score_;
  std::vector<TokenId> bytes_;
  std::vector<TokenId> sorted_;           // tokens in order of their bytes
  std::array<uint32_t, 257> first_byte_;  // sorted_[first_byte_[b] .. first_byte_[b + 1]) start with b
};

}  // namespace vernier
