#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/marked_text.h"

namespace vernier {

/// SentencePiece's compiled table of replacements: a double array of prefixes and a pool of texts, both taken from the
/// file as they are. Every step through it is checked. Immutable; any thread.
class Charsmap {
 public:
  /// `bytes`: the size of the double array (u32, little endian), the array, the pool.
  static Result<Charsmap> parse(std::string_view bytes);
  void apply(MarkedText& text) const;

 private:
  /// The text for the shortest prefix of `chunk` that the table knows.
  std::optional<std::string_view> replacement(std::string_view chunk) const;

  std::vector<uint32_t> units_;
  std::string pool_;
};

/// The end of the grapheme cluster that starts at `at` in valid UTF-8 (UAX 29, extended).
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace vernier
