#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"
#include "grammar/pattern.h"

namespace vernier {

/// Where a text stands: as it is, or between the quotes of a JSON string, whose escapes then count as one character.
enum class TextContext : uint8_t { kPlain, kJsonString };

/// Writes rules in GBNF. Keeps the marker tokens that the rules name.
class GbnfWriter {
 public:
  explicit GbnfWriter(size_t most_rules) : most_rules_(most_rules) {}

  /// Rules that a caller wrote.
  void add_text(std::string_view rules) { text_ += std::string(rules) + "\n"; }
  /// A name for a rule that is written later.
  std::string reserve();
  void define(const std::string& name, std::string_view body);
  /// A rule with this body, or the one that was made of the same body before.
  std::string rule(std::string_view body);
  /// A single token, by id.
  std::string token(int32_t id);
  size_t rules() const { return rules_; }
  const std::vector<int32_t>& named() const { return named_; }

  /// Any text up to the first `marker`, with it, in whole characters: no marker token is in it.
  std::string text_up_to(std::string_view marker);

  /// JSON's space between tokens: one or none, so that an answer spends its tokens on what it says.
  std::string space();
  /// Any JSON value, or any of one type. Numbers have at most 18 digits before and after the point.
  std::string any_value();
  std::string any_object();
  std::string any_array();
  std::string any_number();
  /// Items between brackets, with commas; none is allowed.
  std::string list(std::string_view open, std::string_view item, std::string_view close);
  /// A string of so many characters.
  std::string string_of_length(size_t least, size_t most);
  /// `least` to `most` times one character's `element`, then `rest`. Whatever the counts, a handful of states.
  std::string counted(std::string_view element, size_t least, size_t most, std::string_view rest);
  /// The pattern, then `rest`, as a parenthesised expression.
  std::string pattern(const PatternNode& node, TextContext context, std::string_view rest = "");
  /// What follows a character of a string, with its closing quote. The library knows at once what a rule allows up to
  /// its end and tries each token that goes past it, so a string is one rule to its end, not one for each character.
  std::string rest_of_string();

  /// The rules, a caller's first so that lines are counted as in its text, with `body` as the last, `v_root`; an error
  /// where they are more than allowed.
  Result<std::string> finish(std::string_view body) const;

 private:
  /// A rule for each character that is left; the last of them knows `after`, the rule of what follows.
  std::string chain(const std::string& one, size_t least, size_t most, const std::string& after);
  /// The parts of a sequence, then `rest`.
  std::string sequence(const PatternNode& node, TextContext context, std::string_view rest);
  /// The rule of one character of many that are only counted; `one` is the rule of the character.
  std::string run(const std::string& one);

  size_t most_rules_;
  size_t rules_ = 0;
  std::string text_;
  std::unordered_map<std::string, std::string> by_body_;
  std::unordered_map<std::string, std::string> runs_;  // by the rule of their character
  std::string any_value_;
  std::string rest_of_string_;
  std::vector<int32_t> named_;
};

/// A quoted literal. `text` is UTF-8 without NUL.
std::string gbnf_literal(std::string_view text);
/// An expression for one character of the set; never empty where the set is not.
std::string gbnf_chars(const CharSet& set, TextContext context);
/// {least,most} with its element before it.
std::string gbnf_repeat(std::string_view element, size_t least, size_t most);

}  // namespace vernier
