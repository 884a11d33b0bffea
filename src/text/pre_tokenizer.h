#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "text/marked_text.h"
#include "text/regex.h"

namespace vernier {

/// A stretch of text between added tokens and the pieces it has been cut into so far, none of them empty.
struct SplitText {
  MarkedText text;
  std::vector<ByteRange> pieces;
  bool at_start = false;  ///< the stretch is the beginning of the whole input
};

/// One step that cuts the pieces further or rewrites them. Immutable; any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& text) const = 0;
};
using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

enum class SplitBehaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kAlways, kFirst, kNever };

/// What a split looks for: a regular expression, or each character of a set.
using SplitPattern = std::variant<Regex, CodePointBitmap>;

std::unique_ptr<PreTokenizer> make_split(SplitPattern pattern, SplitBehaviour behaviour, bool invert = false);
std::unique_ptr<PreTokenizer> make_digits(bool individual);
std::unique_ptr<PreTokenizer> make_punctuation(SplitBehaviour behaviour);
std::unique_ptr<PreTokenizer> make_whitespace_split();
/// Words and runs of other characters, without the white space between them.
std::unique_ptr<PreTokenizer> make_whitespace();
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex);
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);

/// GPT-2's rule, which the byte-level step has built in.
extern const std::string_view kGpt2Pattern;

}  // namespace vernier
