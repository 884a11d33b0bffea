#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Finds stop strings in text that comes in pieces, however it is cut. The match that begins first in the text wins; of
/// two that begin together, the shorter. A stop that is complete therefore waits while one that began before it may
/// still become complete. Holds back the longest end of the text that may belong to a stop, and no more (TEXT-3). One
/// thread.
class StopMatcher {
 public:
  /// Refuses an empty stop string and one that is not valid UTF-8. With `include_stop` the stop itself is given out
  /// too.
  static Result<StopMatcher> make(const std::vector<std::string>& stops, bool include_stop = false);

  /// Appends to `out` what of the text is certain. True once it is certain which stop wins; nothing may be pushed after
  /// that.
  bool push(std::string_view text, std::string& out);
  /// The text has ended: appends what was held back, up to a stop that was complete and waited. True if there is one.
  bool finish(std::string& out);

  bool stopped() const { return stopped_; }
  /// The stop string that won, empty before.
  const std::string& found() const { return found_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // [text] longest proper prefix of text[0 .. i] that is also its suffix
    size_t matched = 0;          // bytes of `text` that the input ends with
  };

  void note_complete(const Pattern& pattern);
  size_t earliest_begin() const;
  bool stop(std::string& out);

  std::vector<Pattern> patterns_;
  bool include_stop_ = false;
  bool stopped_ = false;
  std::string found_;       // of the best match so far; empty without one
  size_t found_begin_ = 0;  // its place in held_
  std::string held_;
};

}  // namespace vernier
