#pragma once

#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace vernier {

/// Ids to text, id by id. Each piece is whole characters, and text that is certain whatever comes next (TEXT-2); all
/// pieces joined are decode() of all ids. Ids that do not exist are passed over. One thread; the tokenizer outlives it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), stream_(tokenizer.decoder()), skip_special_(skip_special) {}

  /// Appends the text that this id makes certain, often none.
  void push(TokenId id, std::string& out) {
    std::optional<std::string_view> token = tokenizer_.decoded_text(id);
    if (!token || (skip_special_ && tokenizer_.is_skipped(id))) return;
    stream_.push(*token, out);
  }
  std::string push(TokenId id) {
    std::string out;
    push(id, out);
    return out;
  }

  /// Appends what was held back only because the next token might be a part of it: the next one is a marker, which is
  /// no part of the text. Later text goes on as if the marker had left none.
  void settle(std::string& out) { stream_.settle(out); }

  /// Appends what was held back. No push may follow.
  void finish(std::string& out) { stream_.finish(out); }
  std::string finish() {
    std::string out;
    finish(out);
    return out;
  }

 private:
  const Tokenizer& tokenizer_;
  DecoderStream stream_;
  bool skip_special_;
};

}  // namespace vernier
