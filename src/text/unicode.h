#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/code_point_set.h"

/// Facts about code points: classes of Unicode 16.0, normal forms of 9.0, as Hugging Face mixes them. The tables are
/// made by tools/make_unicode_tables.py. Everything here is constant; any thread may ask.
namespace vernier::unicode {

/// The set that \p{name} stands for: a general category, its first letter, a script, Any, Alnum-like POSIX names, in
/// any case and with spaces, _ and - ignored. Nothing for a name that is not known.
std::optional<CodePointSet> property(std::string_view name);

CodePointSet white_space();
CodePointSet word();           ///< \w of a split rule
CodePointSet word_of_added();  ///< what counts as a word character beside an added token with single_word
CodePointSet numeric();        ///< the step Digits
CodePointSet punctuation();    ///< the step Punctuation
CodePointSet accents();        ///< what StripAccents drops
CodePointSet bert_accents();   ///< what BertNormalizer's strip_accents drops
CodePointSet bert_dropped();   ///< what its clean_text drops; of the rest, white space becomes a space
CodePointSet category(std::string_view prefix);  ///< "L", "Lu", ...

/// Groups of characters that match each other when case is ignored.
const std::vector<std::span<const char32_t>>& case_orbits();

int combining_class(char32_t code_point);
/// Full canonical decomposition, or nothing where the character stays (Hangul syllables are not in the table).
std::span<const char32_t> canonical(char32_t code_point);
/// NFKC of the character alone, or nothing where it stays.
std::span<const char32_t> compatibility(char32_t code_point);
/// Lower case, or nothing where the character stays.
std::span<const char32_t> lower(char32_t code_point);
/// The character that two compose to, or 0.
char32_t compose(char32_t first, char32_t second);
/// Second characters of compositions.
CodePointSet composition_seconds();
/// Characters that some table of a normal form changes: those with a decomposition.
CodePointSet canonical_sources();
CodePointSet compatibility_sources();
CodePointSet combining();

/// Grapheme break classes (UAX 29).
enum class Break : uint8_t {
  kOther,
  kCr,
  kLf,
  kControl,
  kExtend,
  kZwj,
  kRegionalIndicator,
  kPrepend,
  kSpacingMark,
  kL,
  kV,
  kT,
  kLv,
  kLvt,
  kPicture
};
enum class Conjunct : uint8_t { kNone, kLinker, kConsonant, kExtend };
Break grapheme_break(char32_t code_point);
Conjunct conjunct(char32_t code_point);

}  // namespace vernier::unicode
