#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output_parser.h"
#include "text/utf8.h"

namespace vernier::testing_output {

/// What a parser is fed: text, or a marker that is a token of its own.
struct Event {
  bool marker = false;
  std::string text;
};
using Events = std::vector<Event>;

inline std::vector<std::string_view> token_markers(OutputFormat format) {
  std::vector<std::string_view> markers = output_markers(format);
  if (format == OutputFormat::kHermes) markers.clear();  // its markers come as text
  return markers;
}

/// A text cut at the markers of a format.
inline Events events_of(OutputFormat format, std::string_view text) {
  Events events;
  std::vector<std::string_view> markers = token_markers(format);
  std::string plain;
  auto flush = [&] {
    if (!plain.empty()) events.push_back({false, std::exchange(plain, {})});
  };
  while (!text.empty()) {
    auto found = std::find_if(markers.begin(), markers.end(), [&](std::string_view m) { return text.starts_with(m); });
    if (found == markers.end()) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    flush();
    events.push_back({true, std::string(*found)});
    text.remove_prefix(found->size());
  }
  flush();
  return events;
}

/// The same with the text cut after so many characters of it, markers not counted.
inline Events cut_events(const Events& whole, const std::vector<size_t>& cuts) {
  Events events;
  size_t seen = 0;
  for (const Event& event : whole) {
    if (event.marker) {
      events.push_back(event);
      continue;
    }
    std::string piece;
    for (size_t i = 0; i < event.text.size(); ++i) {
      bool boundary = !is_utf8_continuation(event.text[i]);
      bool cuts_here = std::find(cuts.begin(), cuts.end(), seen) != cuts.end();
      if (boundary && cuts_here && !piece.empty()) events.push_back({false, std::exchange(piece, {})});
      if (boundary) ++seen;
      piece += event.text[i];
    }
    if (!piece.empty()) events.push_back({false, piece});
  }
  return events;
}

inline size_t characters_of(const Events& events) {
  size_t count = 0;
  for (const Event& event : events) {
    if (event.marker) continue;
    count += static_cast<size_t>(
        std::count_if(event.text.begin(), event.text.end(), [](char c) { return !is_utf8_continuation(c); }));
  }
  return count;
}

inline Events one_character_each(const Events& whole) {
  std::vector<size_t> cuts(characters_of(whole));
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i] = i;
  return cut_events(whole, cuts);
}

struct Parsed {
  OutputAnswer answer;
  std::vector<OutputDelta> deltas;
  bool has_calls = false;
};

inline OutputParserOptions options_for(OutputFormat format, std::vector<OutputTool> tools) {
  OutputParserOptions options;
  options.tools = std::move(tools);
  if (format == OutputFormat::kHermes) options.text_markers = {"<tool_call>", "</tool_call>"};
  return options;
}

inline Parsed parse(OutputFormat format, const OutputParserOptions& options, const Events& events,
                    OutputEnd end = OutputEnd::kStop) {
  auto parser = OutputParser::make(format, options);
  Parsed parsed;
  std::vector<OutputDelta> step;
  auto take = [&] {
    for (OutputDelta& delta : step) {
      fold_answer(delta, parsed.answer);
      parsed.deltas.push_back(std::move(delta));
    }
    step.clear();
  };
  for (const Event& event : events) {
    if (event.marker) {
      parser->push_marker(event.text, step);
    } else {
      parser->push_text(event.text, step);
    }
    take();
  }
  parser->finish(end, step);
  take();
  parsed.has_calls = parser->has_calls();
  return parsed;
}

}  // namespace vernier::testing_output
