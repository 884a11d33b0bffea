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
  std::stable_sort(matcher.patterns_.begin(), matcher.patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.text.size() > b.text.size(); });
  return matcher;
}

bool StopMatcher::push(std::string_view text, std::string& out) {
  for (char c : text) {
    if (stopped_) return true;
    held_.push_back(c);
    for (Pattern& pattern : patterns_) {
      size_t& matched = pattern.matched;
      while (matched > 0 && pattern.text[matched] != c) matched = pattern.border[matched - 1];
      if (pattern.text[matched] == c) ++matched;
      if (matched < pattern.text.size() || stopped_) continue;
      stopped_ = true;
      found_ = pattern.text;
    }
    if (stopped_) {
      out.append(held_, 0, held_.size() - (include_stop_ ? 0 : found_.size()));
      held_.clear();
      return true;
    }
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.matched);
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return stopped_;
}

void StopMatcher::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace vernier
