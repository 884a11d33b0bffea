#pragma once

#include "text/token_model.h"

namespace vernier {

/// BERT's greedy model: the longest token that a word starts with, then the longest that goes on with the prefix.
class WordPieceModel : public TokenModel {
 public:
  struct Options {
    TokenId unknown = 0;
    std::string continuing_prefix = "##";
    size_t max_characters = 100;  ///< a longer word is unknown
  };
  WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, Options options);
  void tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const override;

 private:
  Options options_;
};

}  // namespace vernier
