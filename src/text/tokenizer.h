#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/gguf_vocabulary.h"
#include "text/marked_text.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"

namespace vernier {

struct EncodeOptions {
  bool add_special = false;   ///< put the special tokens of the post-processor around the text
  bool parse_special = true;  ///< match special tokens in the text; others that were added match in any case
  /// Bytes that came from a caller, in order and not overlapping: no added token matches in or across them (TEXT-6).
  std::span<const ByteRange> caller_ranges = {};
};

/// A token that a tokenizer is extended by.
struct ExtraToken {
  std::string bytes;
  bool control = false;  ///< matched in text, as added tokens are, and hidden on request; else known to decoding alone
};

/// The parts of a tokenizer, from whichever file.
struct TokenizerParts {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<TokenModel> model;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::vector<AddedToken> added;
  std::vector<TokenTemplate> templates;
  TokenDecoder decoder;
};

/// Text to ids and back, as Hugging Face `tokenizers` does it. Immutable once made; any thread. Refuses files whose
/// steps it does not know, by name.
class Tokenizer {
 public:
  /// The text of a tokenizer.json. The bytes are not needed afterwards.
  static Result<Tokenizer> from_json(std::string_view bytes);
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);
  explicit Tokenizer(TokenizerParts parts);
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  /// This tokenizer with further tokens behind its last, in order. Their bytes need not be whole characters, so it
  /// refuses a tokenizer whose tokens do not stand for bytes (a decoder other than ByteLevel).
  Result<Tokenizer> extended(std::span<const ExtraToken> tokens) const;

  /// Text that is not valid UTF-8 is taken with U+FFFD for each maximal bad part. Refuses text above 1 GiB.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The text of the ids together; ids that do not exist are passed over.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes that an id stands for; nothing for one that does not exist. They need not be whole characters.
  std::optional<std::string> token_bytes(TokenId id) const;
  /// The token as the vocabulary spells it; nothing for an id that does not exist.
  std::optional<std::string_view> token_text(TokenId id) const;
  /// The token as the decoder takes it: an added token that is matched in normalised text is normalised here too.
  std::optional<std::string_view> decoded_text(TokenId id) const;
  std::optional<TokenId> find_token(std::string_view text) const;
  bool is_special(TokenId id) const;
  /// Whether decoding with skip_special leaves the id out: its decoded text is that of a special token. As in Hugging
  /// Face's, one that normalising changes is not.
  bool is_skipped(TokenId id) const;
  const std::vector<AddedToken>& added_tokens() const { return added_.all(); }
  /// One more than the highest id.
  size_t vocabulary_size() const { return size_; }
  const TokenDecoder& decoder() const { return parts_->decoder; }

 private:
  Tokenizer(std::shared_ptr<const TokenizerParts> parts, std::vector<AddedToken> added, std::vector<std::string> extra);
  Status encode_normalised(SplitText stretch, std::vector<TokenId>& out) const;

  std::shared_ptr<const TokenizerParts> parts_;
  AddedTokens added_;
  std::vector<std::string> extra_;  // as the decoder takes them; they stand behind the vocabulary and the added tokens
  size_t extra_begin_ = 0;          // id of the first
  std::vector<bool> barred_;        // ids that a caller's text must not become, even by merging
  std::vector<std::string_view> special_texts_;  // sorted
  size_t size_ = 0;
};

}  // namespace vernier
