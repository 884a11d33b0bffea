#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"
#include "grammar/gbnf_writer.h"
#include "grammar/pattern.h"

namespace vernier {

/// A set of texts as a deterministic automaton: for what one pattern cannot say, such as two patterns at once, a
/// pattern of bounded length, or the keys that no property has. Every state leads to an accepting one. Bounded in size;
/// what would be larger is an error.
class TextAutomaton {
 public:
  static Result<TextAutomaton> of(const PatternNode& pattern);
  /// Any text of that many characters.
  static Result<TextAutomaton> of_length(size_t least, size_t most);
  static Result<TextAutomaton> of_words(const std::vector<std::string>& words);

  Result<TextAutomaton> both(const TextAutomaton& other) const { return product(other, true); }
  Result<TextAutomaton> without(const TextAutomaton& other) const { return product(other, false); }
  bool matches(std::string_view text) const;
  /// No text at all.
  bool empty() const { return states_.empty(); }

  size_t states() const { return states_.size(); }

  /// The rule of what stands in a JSON string after its first quote, the last quote included. Not for an empty set.
  std::string write_rest_of_string(GbnfWriter& writer) const;
  /// The rule of the texts as they are.
  std::string write_plain(GbnfWriter& writer) const;

 private:
  struct Edge {
    CharSet chars;
    size_t to;
  };
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
  };

  std::string write(GbnfWriter& writer, TextContext context, std::string_view end) const;
  Result<TextAutomaton> product(const TextAutomaton& other, bool in_other) const;
  /// Takes away the states that lead nowhere; the first state stays first.
  void trim();

  std::vector<State> states_;  // the first is where texts begin
};

/// The automaton of a pattern that repeats more than characters, where it is small. Its groups would be rules of their
/// own, and each token that goes past the end of one would be tried whenever a mask is filled.
std::optional<TextAutomaton> small_automaton(const PatternNode& pattern);

}  // namespace vernier
