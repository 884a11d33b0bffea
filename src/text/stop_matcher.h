#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Finds stop strings in text that comes in pieces, however it is cut. The stop that is complete first wins; of two
/// that end at the same byte, the longer. Holds back the longest end of the text that a stop string starts with, and no
/// more (TEXT-3). One thread.
class StopMatcher {
 public:
  /// Refuses an empty stop string and one that is not valid UTF-8. With `include_stop` the stop itself is given out
  /// too.
  static Result<StopMatcher> make(const std::vector<std::string>& stops, bool include_stop = false);

  /// Appends to `out` what of the text is certain. True once a stop is complete; nothing may be pushed after that.
  bool push(std::string_view text, std::string& out);
  /// Appends what was held back: the text ended without a stop.
  void finish(std::string& out);

  bool stopped() const { return stopped_; }
  /// The stop string that was found, empty before.
  const std::string& found() const { return found_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // [text] longest proper prefix of text[0 .. i] that is also its suffix
    size_t matched = 0;          // bytes of `text` that the input ends with
  };

  std::vector<Pattern> patterns_;  // longest first
  bool include_stop_ = false;
  bool stopped_ = false;
  std::string found_;
  std::string held_;
};

}  // namespace vernier
