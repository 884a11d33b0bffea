#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/regex.h"

namespace vernier {

enum class DecoderKind {
  kByteLevel,     ///< byte alphabet to bytes, bad UTF-8 replaced over all tokens together
  kByteFallback,  ///< runs of "<0x41>" to bytes
  kFuse,          ///< all tokens become one
  kStrip,         ///< at most so many of one character off either end of each token
  kReplace,
  kMetaspace,
  kWordPiece,
  kBpe,    ///< the suffix of a word's end becomes a space, but for the last token
  kSpace,  ///< a space before each token but the first: what no decoder at all means
};

/// One step of turning tokens into text.
struct DecoderStep {
  DecoderKind kind = DecoderKind::kFuse;
  Regex pattern;                                  // kReplace
  std::string content;                            // the replacement, the character to strip, the prefix or the suffix
  size_t left = 0;                                // kStrip
  size_t right = 0;                               // kStrip
  PrependScheme scheme = PrependScheme::kAlways;  // kMetaspace
  bool cleanup = false;                           // kWordPiece
};
using TokenDecoder = std::vector<DecoderStep>;

/// Runs the steps over a stream of tokens and gives text as soon as it is certain. What it has given, joined, is what
/// the steps make of all tokens together. One thread; refers to the decoder.
class DecoderStream {
 public:
  explicit DecoderStream(const TokenDecoder& decoder);
  void push(std::string_view token, std::string& out);
  /// Gives out what waits for the rest of a character or of a run of bytes: what comes next is no part of it.
  void settle(std::string& out);
  void finish(std::string& out);

 private:
  struct State {
    bool fused = false;     // what comes in are parts of one token
    bool collects = false;  // can only act once it has that token whole
    bool stripping = true;  // kStrip: still at the left end
    size_t stripped = 0;
    size_t index = 0;  // tokens so far
    std::string held;
  };

  void step(size_t i, std::string token, std::string& out);
  void whole_token(size_t i, std::string token, std::string& out);
  void end_step(size_t i, std::string& out);
  void decode_bytes(size_t i, std::string& out, bool at_end);
  void flush_byte_run(size_t i, std::string& out);
  void strip_part(size_t i, std::string_view part, std::string& out);

  const TokenDecoder& decoder_;
  std::vector<State> states_;
};

/// The bytes that one token stands for, before the steps that see the whole text.
std::string decode_token_bytes(const TokenDecoder& decoder, std::string_view token);

}  // namespace vernier
