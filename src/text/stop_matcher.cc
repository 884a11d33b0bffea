#include "text/stop_matcher.h"

#include <algorithm>

#include "text/utf8.h"

namespace vernier {

Result<StopMatcher> StopMatcher::make(const std::vector<std::string>& stops, bool include_stop) {
  StopMatcher matcher;
  matcher.include_stop_ = include_stop;
  for (const std::string& stop : stops) {
    if (stop.empty()) return invalid_argument("an empty stop string; leave it out, or give at least one character");
    if (!is_valid_utf8(stop)) return invalid_argument("a stop string that is not valid UTF-8 can never match");
    Pattern pattern{stop, std::vector<size_t>(stop.size(), 0), 0};
    for (size_t i = 1, length = 0; i < stop.size(); ++i) {
      while (length > 0 && stop[i] != stop[length]) length = pattern.border[length - 1];
      if (stop[i] == stop[length]) ++length;
      pattern.border[i] = length;
    }
    matcher.patterns_.push_back(std::move(pattern));
  }
  return matcher;
}

void StopMatcher::note_complete(const Pattern& pattern) {
  const size_t begin = held_.size() - pattern.text.size();
  if (!found_.empty() && found_begin_ <= begin) return;
  found_ = pattern.text;
  found_begin_ = begin;
}

/// Where in held_ the first stop begins that the text so far may still complete.
size_t StopMatcher::earliest_begin() const {
  size_t longest = 0;
  for (const Pattern& pattern : patterns_) {
    if (pattern.matched < pattern.text.size()) longest = std::max(longest, pattern.matched);
  }
  return held_.size() - longest;
}

bool StopMatcher::push(std::string_view text, std::string& out) {
  if (stopped_) return true;
  for (char c : text) {
    held_.push_back(c);
    for (Pattern& pattern : patterns_) {
      size_t& matched = pattern.matched;
      if (matched == pattern.text.size()) matched = pattern.border[matched - 1];
      while (matched > 0 && pattern.text[matched] != c) matched = pattern.border[matched - 1];
      if (pattern.text[matched] == c) ++matched;
    }
    // Of two stops that end here the longer begins first, whichever comes first in the list.
    for (const Pattern& pattern : patterns_) {
      if (pattern.matched == pattern.text.size()) note_complete(pattern);
    }
    if (!found_.empty() && found_begin_ <= earliest_begin()) return stop(out);
  }
  const size_t certain = found_.empty() ? earliest_begin() : std::min(found_begin_, earliest_begin());
  out.append(held_, 0, certain);
  held_.erase(0, certain);
  found_begin_ -= found_.empty() ? 0 : certain;
  return false;
}

bool StopMatcher::stop(std::string& out) {
  stopped_ = true;
  out.append(held_, 0, found_begin_ + (include_stop_ ? found_.size() : 0));
  held_.clear();
  return true;
}

bool StopMatcher::finish(std::string& out) {
  if (stopped_ || !found_.empty()) return stopped_ || stop(out);
  out += held_;
  held_.clear();
  return false;
}

}  // namespace vernier
