#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/code_point_set.h"

namespace vernier {

enum class RegexNodeKind {
  kEmpty,
  kSet,        ///< one character of `set`
  kSequence,   ///< the children in turn
  kChoice,     ///< the first child that lets the rest match
  kRepeat,     ///< the only child, least to most times
  kAtomic,     ///< the only child, without going back into it
  kLook,       ///< the only child matches here (ahead) or ends here (behind), or must not
  kLineStart,  ///< at the start or after a line feed
  kLineEnd,
  kTextStart,
  kTextEnd,
  kTextEndOrLastLineFeed,
  kWordBorder,
  kNotWordBorder,
};

enum class RegexGreed { kGreedy, kLazy, kPossessive };

/// A parsed regular expression. Depth is bounded by the parser, so that recursion over it is safe.
struct RegexNode {
  static constexpr uint32_t kUnbounded = 0xFFFFFFFF;

  RegexNodeKind kind = RegexNodeKind::kEmpty;
  CodePointSet set;
  std::vector<RegexNode> children;
  uint32_t least = 0;
  uint32_t most = 0;
  RegexGreed greed = RegexGreed::kGreedy;
  bool behind = false;
  bool negative = false;
};

/// Parses the syntax that Hugging Face tokenizers use in split rules: Oniguruma's, as for Ruby. Refuses what a splitter
/// cannot run in linear time (back references) and what it does not know, and says where.
Result<RegexNode> parse_regex(std::string_view pattern);

}  // namespace vernier
