#pragma once

#include <memory>
#include <vector>

#include "text/marked_text.h"
#include "text/vocabulary.h"

namespace vernier {

/// The text of a piece and which ids a caller's text must not become (TEXT-6). Views; lives for one call.
struct ModelInput {
  const MarkedText& text;
  const std::vector<bool>& barred;  // [vocabulary]

  /// Whether `id` must not be made of the bytes [begin, end).
  bool is_barred(TokenId id, size_t begin, size_t end) const {
    return !text.marks.empty() && static_cast<size_t>(id) < barred.size() && barred[static_cast<size_t>(id)] &&
           text.is_marked(begin, end);
  }
};

/// Turns pieces of text into ids. Immutable; any thread.
class TokenModel {
 public:
  explicit TokenModel(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  virtual void tokenize(const ModelInput& input, ByteRange piece, std::vector<TokenId>& out) const = 0;
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 protected:
  /// The ids of "<0x00>" to "<0xFF>", -1 where there is none.
  std::vector<TokenId> byte_tokens() const;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
};

}  // namespace vernier
