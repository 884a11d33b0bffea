#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <string>

namespace vernier::unicode {
namespace {

struct NamedRanges {
  std::string_view name;
  std::span<const CodePointRange> ranges;
};
struct Mapping {
  char32_t from;
  uint32_t offset : 24;  // in kMappingPool
  uint32_t length : 8;
};
struct Composition {
  char32_t first, second, composed;
};

#include "text/unicode_tables.inc"

constexpr std::array<std::string_view, 30> kCategories = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                                          "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                                          "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

/// A table of runs holds start << 8 | value, sorted by start, and begins at 0.
uint32_t run_value(std::span<const uint32_t> runs, char32_t code_point) {
  auto after = std::upper_bound(runs.begin(), runs.end(), code_point << 8 | 0xFF);
  return *std::prev(after) & 0xFF;
}

std::span<const char32_t> mapped(std::span<const Mapping> table, char32_t code_point) {
  auto found = std::lower_bound(table.begin(), table.end(), code_point,
                                [](const Mapping& entry, char32_t c) { return entry.from < c; });
  if (found == table.end() || found->from != code_point) return {};
  return std::span(kMappingPool).subspan(found->offset, found->length);
}

CodePointSet sources(std::span<const Mapping> table) {
  std::vector<CodePointRange> ranges;
  for (const Mapping& entry : table) ranges.push_back({entry.from, entry.from});
  return CodePointSet(ranges);
}

/// The name in lower case without the characters that property names may be spelt with.
std::string loose(std::string_view name) {
  std::string out;
  for (char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return out;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kLongNames = {
    std::pair{"letter", "L"}, {"mark", "M"},      {"number", "N"}, {"punctuation", "P"},
    {"symbol", "S"},          {"separator", "Z"}, {"other", "C"},  {"decimalnumber", "Nd"}};

std::optional<CodePointSet> posix(const std::string& name) {
  auto ascii = [](char32_t first, char32_t last) { return CodePointSet::of(first, last); };
  if (name == "any") return CodePointSet().complement();
  if (name == "ascii") return ascii(0, 0x7F);
  if (name == "space" || name == "whitespace") return white_space();
  if (name == "word") return word();
  if (name == "digit") return category("Nd");
  if (name == "xdigit") return ascii('0', '9').united(ascii('A', 'F')).united(ascii('a', 'f'));
  if (name == "alpha" || name == "alphabetic")
    return word().intersected(category("N").united(category("Pc")).complement());
  if (name == "alnum") return word().intersected(category("Pc").complement());
  if (name == "upper" || name == "uppercase") return category("Lu");
  if (name == "lower" || name == "lowercase") return category("Ll");
  if (name == "punct") return punctuation();
  if (name == "cntrl") return category("Cc");
  if (name == "blank") return category("Zs").united(CodePointSet::of('\t'));
  return std::nullopt;
}

}  // namespace

CodePointSet category(std::string_view prefix) {
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i < std::size(kCategoryRuns); ++i) {
    if (!kCategories[kCategoryRuns[i] & 0xFF].starts_with(prefix)) continue;
    char32_t end = i + 1 < std::size(kCategoryRuns) ? kCategoryRuns[i + 1] >> 8 : CodePointSet::kLast + 1;
    ranges.push_back({static_cast<char32_t>(kCategoryRuns[i] >> 8), static_cast<char32_t>(end - 1)});
  }
  return CodePointSet(ranges);
}

std::optional<CodePointSet> property(std::string_view name) {
  std::string wanted = loose(name);
  for (auto [long_name, short_name] : kLongNames) {
    if (wanted == long_name) wanted = loose(short_name);
  }
  if (wanted == "lc" || wanted == "l&") {
    return category("Lu").united(category("Ll")).united(category("Lt"));
  }
  for (std::string_view known : kCategories) {
    if (wanted == loose(known)) return category(known);
    if (wanted == loose(known.substr(0, 1))) return category(known.substr(0, 1));
  }
  for (const NamedRanges& script : kScripts) {
    if (wanted == loose(script.name)) return CodePointSet(script.ranges);
  }
  return posix(wanted);
}

CodePointSet white_space() {
  return CodePointSet(kWhiteSpace);
}
CodePointSet word() {
  return CodePointSet(kWord);
}
CodePointSet word_of_added() {
  return CodePointSet(kSingleWord);
}
CodePointSet numeric() {
  return CodePointSet(kNumeric);
}
CodePointSet punctuation() {
  return CodePointSet(kPunctuation);
}

CodePointSet accents() {
  return CodePointSet(kAccents);
}
CodePointSet bert_accents() {
  return CodePointSet(kBertAccents);
}
CodePointSet bert_dropped() {
  return CodePointSet(kBertDropped);
}

const std::vector<std::span<const char32_t>>& case_orbits() {
  static const std::vector<std::span<const char32_t>> orbits = [] {
    std::vector<std::span<const char32_t>> result;
    size_t start = 0;
    for (size_t i = 0; i < std::size(kCaseOrbits); ++i) {
      if (kCaseOrbits[i] != 0) continue;
      result.push_back(std::span(kCaseOrbits).subspan(start, i - start));
      start = i + 1;
    }
    return result;
  }();
  return orbits;
}

int combining_class(char32_t code_point) {
  return code_point < 0x300 ? 0 : static_cast<int>(run_value(kCombiningRuns, code_point));
}
std::span<const char32_t> canonical(char32_t code_point) {
  return code_point < 0xC0 ? std::span<const char32_t>() : mapped(kCanonical, code_point);
}
std::span<const char32_t> compatibility(char32_t code_point) {
  return code_point < 0xA0 ? std::span<const char32_t>() : mapped(kCompatibility, code_point);
}
std::span<const char32_t> lower(char32_t code_point) {
  return mapped(kLower, code_point);
}

char32_t compose(char32_t first, char32_t second) {
  auto found = std::lower_bound(std::begin(kCompositions), std::end(kCompositions), std::pair(first, second),
                                [](const Composition& entry, const std::pair<char32_t, char32_t>& wanted) {
                                  return std::pair(entry.first, entry.second) < wanted;
                                });
  bool same = found != std::end(kCompositions) && found->first == first && found->second == second;
  return same ? found->composed : 0;
}

CodePointSet composition_seconds() {
  std::vector<CodePointRange> ranges;
  for (const Composition& entry : kCompositions) ranges.push_back({entry.second, entry.second});
  return CodePointSet(ranges);
}
CodePointSet canonical_sources() {
  return sources(kCanonical);
}
CodePointSet compatibility_sources() {
  return sources(kCompatibility);
}

CodePointSet combining() {
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i + 1 < std::size(kCombiningRuns); ++i) {
    if ((kCombiningRuns[i] & 0xFF) == 0) continue;
    ranges.push_back(
        {static_cast<char32_t>(kCombiningRuns[i] >> 8), static_cast<char32_t>((kCombiningRuns[i + 1] >> 8) - 1)});
  }
  return CodePointSet(ranges);
}

Break grapheme_break(char32_t code_point) {
  return static_cast<Break>(run_value(kBreakRuns, code_point));
}
Conjunct conjunct(char32_t code_point) {
  return static_cast<Conjunct>(run_value(kConjunctRuns, code_point));
}

}  // namespace vernier::unicode
