#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"

namespace vernier {

inline constexpr size_t kUnbounded = static_cast<size_t>(-1);
/// Of counts: kUnbounded where one is, or the result is too large.
size_t add_counts(size_t a, size_t b);
size_t multiply_counts(size_t a, size_t b);

/// A regular expression as a tree.
struct PatternNode {
  enum class Kind : uint8_t { kChars, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;  // without children: the empty text
  CharSet chars = {};
  std::vector<PatternNode> children = {};
  size_t least = 1;  // of kRepeat
  size_t most = 1;   // kUnbounded: without end
};

enum class PatternUse : uint8_t {
  kWhole,   ///< the pattern matches the whole text
  kSearch,  ///< it matches somewhere in the text, as `pattern` in a JSON schema
};

/// Reads an ECMA-262 regular expression (with the u flag's meaning of a character). What a grammar cannot say
/// (look-around, back references, word borders, anchors inside) is refused with its offset, never passed over.
Result<PatternNode> parse_pattern(std::string_view text, PatternUse use);

struct PatternLength {
  size_t least = 0;
  size_t most = 0;  ///< kUnbounded: without end
};
/// In characters.
PatternLength length_of(const PatternNode& node);

}  // namespace vernier
