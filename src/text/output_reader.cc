#include "text/output_reader.h"

#include <algorithm>

namespace vernier {

Result<OutputReader> OutputReader::make(const Tokenizer& tokenizer, const OutputReaderOptions& options) {
  TRY_BIND(StopMatcher stops, StopMatcher::make(options.stops, options.include_stop));
  return OutputReader(tokenizer, options, std::move(stops));
}

OutputReader::OutputReader(const Tokenizer& tokenizer, const OutputReaderOptions& options, StopMatcher stops)
    : detokenizer_(tokenizer, options.skip_special),
      fresh_stops_(stops),
      stops_(std::move(stops)),
      min_tokens_(static_cast<size_t>(std::max(options.min_tokens, 0))),
      has_stops_(!options.stops.empty()) {
  OutputParserOptions parser = options.parser;
  for (std::string_view marker : output_markers(options.format)) {
    const std::vector<AddedToken>& added = tokenizer.added_tokens();
    auto token = std::find_if(added.begin(), added.end(), [&](const AddedToken& t) { return t.text == marker; });
    if (token == added.end()) {
      parser.text_markers.emplace_back(marker);
    } else {
      markers_.emplace_back(token->id, std::string(marker));
    }
  }
  parser_ = OutputParser::make(options.format, std::move(parser));
}

bool OutputReader::push(TokenId id, std::vector<OutputDelta>& out) {
  if (is_over_) return true;
  ++pushed_;
  bool was_reasoning = parser_->in_reasoning();
  auto marker = std::find_if(markers_.begin(), markers_.end(), [&](const auto& m) { return m.first == id; });
  text_.clear();
  if (marker == markers_.end()) {
    detokenizer_.push(id, text_);
  } else {
    detokenizer_.settle(text_);
  }
  if (!text_.empty()) parser_->push_text(text_, parsed_);
  if (marker != markers_.end()) parser_->push_marker(marker->second, parsed_);
  if (was_reasoning || parser_->in_reasoning()) ++reasoning_tokens_;
  is_over_ = take(out) || parser_->is_complete();
  return is_over_;
}

/// Passes the parser's deltas on, content through the stops. True once a stop is complete.
bool OutputReader::take(std::vector<OutputDelta>& out) {
  std::vector<OutputDelta> parsed = std::exchange(parsed_, {});
  for (OutputDelta& delta : parsed) {
    if (!has_stops_ || pushed_ < min_tokens_) {
      out.push_back(std::move(delta));
      continue;
    }
    std::string text;
    bool content = delta.kind == OutputDelta::Kind::kContent;
    if (content) {
      stops_.push(delta.text, text);
    } else {
      // A stop string does not reach across reasoning or a call.
      if (!stops_.finish(text)) stops_ = fresh_stops_;
    }
    if (!text.empty()) out.push_back({OutputDelta::Kind::kContent, 0, std::move(text)});
    if (!content && !stops_.stopped()) out.push_back(std::move(delta));
    if (!stops_.stopped()) continue;
    found_stop_ = stops_.found();
    return true;
  }
  return false;
}

void OutputReader::finish(OutputEnd end, std::vector<OutputDelta>& out) {
  end_ = found_stop_.empty() ? end : OutputEnd::kStop;
  if (is_over_) return;
  text_.clear();
  detokenizer_.finish(text_);
  if (!text_.empty()) parser_->push_text(text_, parsed_);
  parser_->finish(end, parsed_);
  if (take(out)) {
    end_ = OutputEnd::kStop;
    return;
  }
  std::string rest;
  if (stops_.finish(rest)) {
    found_stop_ = stops_.found();
    end_ = OutputEnd::kStop;
  }
  if (!rest.empty()) out.push_back({OutputDelta::Kind::kContent, 0, std::move(rest)});
}

}  // namespace vernier
