#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/output_format.h"
#include "text/tokenizer.h"

namespace vernier {

/// One step of a script: a token, or an error of the device.
struct ScriptStep {
  TokenId token = -1;
  std::string failure;  // not empty: this step fails
};

struct ScriptReply {
  std::string match;              // empty: matches everything
  std::vector<ScriptStep> steps;  // without the end token
  std::chrono::milliseconds delay{0};
  std::string prompt_tail;
};

/// A script file before its tokenizer is known.
struct ScriptFile {
  struct Piece {
    std::string bytes;
    bool is_text = false;  // written as a string: may name a control token
    std::string failure;
  };
  struct Reply {
    std::string match;
    std::vector<Piece> pieces;
    std::chrono::milliseconds delay{0};
    std::string prompt_tail;
  };
  std::string tokenizer;  // name of the model whose tokenizer and context length are used
  OutputFormat format = OutputFormat::kPlain;
  std::vector<Reply> replies;

  /// Refuses unknown keys, by JSON pointer.
  static Result<ScriptFile> parse(std::string_view json);
};

/// What a scripted model generates: the tokenizer of a model, extended by the control tokens of the format and by every
/// piece of the script, and the replies in its ids. Immutable; any thread.
class ScriptedModel {
 public:
  /// Needs a tokenizer that ends in a byte-level decoder, as pieces may be parts of characters.
  static Result<ScriptedModel> make(const ScriptFile& file, const Tokenizer& base);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  OutputFormat format() const { return format_; }
  /// The first reply whose `match` occurs in the text: the last message, or the prompt of a completion.
  const ScriptReply* find_reply(std::string_view text) const;
  /// The token after the last step of a reply.
  TokenId end_token() const { return stop_tokens_.back(); }
  /// The tokens that end a turn.
  const std::vector<TokenId>& stop_tokens() const { return stop_tokens_; }

 private:
  ScriptedModel(Tokenizer tokenizer, OutputFormat format) : tokenizer_(std::move(tokenizer)), format_(format) {}

  Tokenizer tokenizer_;
  OutputFormat format_;
  std::vector<TokenId> stop_tokens_;
  std::vector<ScriptReply> replies_;
};

}  // namespace vernier
