#include "tune/tactic_use.h"

#include <algorithm>
#include <cctype>

namespace vernier {
namespace {

constexpr std::string_view kPinArrow = "=>";

bool is_number_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool has_fact(const Problem& problem, std::string_view name, std::string_view value) {
  return std::ranges::any_of(problem.facts, [&](const Problem::Fact& fact) {
    return fact.value == value && (name.empty() || fact.name == name);
  });
}

bool word_finds(const Problem& problem, std::string_view word) {
  if (problem.op == word || has_fact(problem, "", word)) return true;
  if (const size_t equals = word.find('='); equals != std::string_view::npos) {
    return equals > 0 && has_fact(problem, word.substr(0, equals), word.substr(equals + 1));
  }
  const size_t by = word.find('x');
  if (by == std::string_view::npos) return false;
  const std::string_view rows = word.substr(0, by), cols = word.substr(by + 1);
  return is_number_word(rows) && is_number_word(cols) && has_fact(problem, "rows", rows) &&
         has_fact(problem, "cols", cols);
}

}  // namespace

std::vector<std::string> cut_problem_words(std::string_view typed) {
  std::vector<std::string> words;
  for (size_t at = 0; at < typed.size();) {
    const size_t end = std::min(typed.find_first_of(" \t,()[]", at), typed.size());
    if (end > at) words.emplace_back(typed.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool matches_problem(const Problem& problem, std::span<const std::string> words) {
  return std::ranges::all_of(words, [&](const std::string& word) { return word_finds(problem, word); });
}

Result<TacticPin> TacticPin::parse(std::string_view text) {
  const size_t arrow = text.find(kPinArrow);
  TacticPin pin;
  pin.text = text;
  if (arrow != std::string_view::npos) {
    pin.words = cut_problem_words(text.substr(0, arrow));
    for (std::string& word : cut_problem_words(text.substr(arrow + kPinArrow.size()))) {
      const size_t equals = word.find('=');
      if (pin.kernel.empty()) {
        pin.kernel = std::move(word);
      } else if (equals != std::string::npos && equals > 0) {
        pin.parameters.push_back({word.substr(0, equals), word.substr(equals + 1)});
      } else {
        return invalid_argument("pin '{}': '{}' is no parameter; expected name=value", text, word);
      }
    }
  }
  if (pin.words.empty() || pin.kernel.empty()) {
    return invalid_argument("pin '{}': expected PROBLEM => KERNEL, as in 'linear[3072x576] batch=1 => int8_tile_avx2'",
                            text);
  }
  return pin;
}

bool TacticUse::skips(std::string_view op) const {
  return std::ranges::find(skip, op) != skip.end();
}

const TacticPin* TacticUse::pin_of(const Problem& problem) const {
  const auto found =
      std::ranges::find_if(pins, [&](const TacticPin& pin) { return matches_problem(problem, pin.words); });
  return found == pins.end() ? nullptr : &*found;
}

}  // namespace vernier
