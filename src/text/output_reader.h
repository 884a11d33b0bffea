#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/output_parser.h"
#include "text/stop_matcher.h"

namespace vernier {

struct OutputReaderOptions {
  OutputFormat format = OutputFormat::kPlain;
  OutputParserOptions parser;
  std::vector<std::string> stops;
  bool include_stop = false;
  int32_t min_tokens = 0;    ///< a stop string that is complete with fewer tokens is text like any other
  bool skip_special = true;  ///< control tokens that are no marker leave no text
};

/// Ids of one choice to deltas: detokenises, tells markers from text, parses, and matches stop strings in the content
/// (reasoning and arguments are no place for them). Markers are seen as tokens first and only the final text is cut, so
/// a held-back stop never tears one apart. One thread; the tokenizer outlives it.
class OutputReader {
 public:
  static Result<OutputReader> make(const Tokenizer& tokenizer, const OutputReaderOptions& options);

  /// Appends what this id makes certain. The end token may be pushed or left out. True once the answer is over: a stop
  /// string, or a whole call where only one is allowed. Nothing may be pushed after that.
  bool push(TokenId id, std::vector<OutputDelta>& out);
  /// Appends what was held back. Call it once, whatever ended the answer; after a stop string `end` is not regarded.
  void finish(OutputEnd end, std::vector<OutputDelta>& out);

  /// The stop string that was found, or empty.
  const std::string& found_stop() const { return found_stop_; }
  /// Ids pushed while the model was reasoning, the markers around it included.
  size_t reasoning_tokens() const { return reasoning_tokens_; }
  /// After finish(): the finish reason is tool_calls. Never after kLimit, where it is length.
  bool finishes_with_calls() const { return parser_->has_calls() && end_ == OutputEnd::kStop; }

 private:
  OutputReader(const Tokenizer& tokenizer, const OutputReaderOptions& options, StopMatcher stops);
  bool take(std::vector<OutputDelta>& out);

  Detokenizer detokenizer_;
  std::unique_ptr<OutputParser> parser_;
  std::vector<std::pair<TokenId, std::string>> markers_;
  StopMatcher fresh_stops_;
  StopMatcher stops_;
  std::vector<OutputDelta> parsed_;
  std::string text_;
  std::string found_stop_;
  size_t reasoning_tokens_ = 0;
  size_t pushed_ = 0;
  size_t min_tokens_ = 0;
  bool has_stops_ = false;
  bool is_over_ = false;
  OutputEnd end_ = OutputEnd::kStop;
};

}  // namespace vernier
