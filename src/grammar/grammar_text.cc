#include "grammar/grammar_text.h"

#include <algorithm>
#include <charconv>

#include "grammar/dialect_writer.h"
#include "grammar/gbnf_rules.h"
#include "grammar/grammar_compiler.h"
#include "grammar/pattern_counts.h"
#include "grammar/schema_writer.h"

namespace vernier {
namespace {

bool is_utf8_without_nul(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead == 0 || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + bytes > text.size()) return false;
    char32_t c = bytes == 1 ? lead : lead & (0xFF >> (bytes + 1));
    for (size_t k = 1; k < bytes; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      c = (c << 6) | (next & 0x3F);
    }
    const bool overlong = (bytes == 3 && c < 0x800) || (bytes == 4 && c < 0x10000);
    if (overlong || CharSet::of({{c, c}}).empty()) return false;
    i += bytes;
  }
  return true;
}

Status check_texts(const GrammarSpec& spec, const GrammarLimits& limits) {
  size_t bytes = spec.text.size();
  bool valid = is_utf8_without_nul(spec.text);
  auto look = [&](std::string_view text) {
    bytes += text.size();
    valid = valid && is_utf8_without_nul(text);
  };
  for (const std::string& choice : spec.choices) look(choice);
  for (const GrammarFunction& function : spec.tools.functions) {
    look(function.name);
    look(function.parameters);
  }
  if (bytes > limits.text_bytes) {
    return invalid_argument("the grammar has {} bytes, at most {} are taken", bytes, limits.text_bytes);
  }
  if (!valid) return invalid_argument("the grammar is not UTF-8, or holds a NUL");
  return {};
}

/// The library reads an escape that names no character as U+FFFD. `at`: behind the backslash.
Status check_escape(std::string_view text, size_t at) {
  const char kind = at < text.size() ? text[at] : '\0';
  const size_t most = kind == 'u' ? 4 : kind == 'U' || kind == 'x' ? 8 : 0;
  const std::string_view rest = text.substr(std::min(at + 1, text.size()), most);
  const size_t digits = std::min(rest.find_first_not_of("0123456789abcdefABCDEF"), rest.size());
  uint32_t c = 0;
  std::from_chars(rest.data(), rest.data() + digits, c, 16);
  if (digits == 0 || (c <= 0x10FFFF && !CharSet::of({{c, c}}).empty())) return {};
  return invalid_argument(
      "the escape '\\{}' names no character; those above U+FFFF are written with \\U and eight digits",
      text.substr(at, digits + 1));
}

/// XGrammar reads more than GBNF: macros that name tokens, rule options, look-ahead. They could pass over what a marker
/// token means, so a caller's grammar has none; nor rules named as those of GbnfWriter are.
Status check_gbnf(std::string_view text) {
  constexpr std::string_view kOwnPrefix = "v_";
  size_t depth = 0;
  char before = '\n';  // the last character that is no space
  std::string word;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '"' || c == '[') {
      const char close = c == '"' ? '"' : ']';
      for (++i; i < text.size() && text[i] != close; ++i) {
        if (text[i] == '\\') TRY_STATUS(check_escape(text, ++i));
      }
      before = close;
      word.clear();
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    if (c == '(' && ++depth > 100) return invalid_argument("the grammar nests deeper than 100 groups");
    if (c == ')' && depth > 0) --depth;
    if (c == '(' &&
        std::ranges::any_of(std::initializer_list<std::string_view>{"TagDispatch", "Token", "ExcludeToken",
                                                                    "TokenTagDispatch", "Regex", "Substring"},
                            [&](std::string_view macro) { return word == macro; })) {
      return invalid_argument("'{}(' is no GBNF; the macros of XGrammar are not taken from a request", word);
    }
    if (c == '=' && before == '(') return invalid_argument("look-ahead '(=' is no GBNF");
    if (c == ':' && before == ']') return invalid_argument("options of a rule, name[...] ::=, are no GBNF");
    const bool in_word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    const bool joined = i > 0 && text[i - 1] == before;
    if (!in_word || !joined) word.clear();
    if (in_word) word += c;
    if (word == kOwnPrefix) {
      return invalid_argument("a rule's name may not begin with '{}': the rules that are added to yours do",
                              kOwnPrefix);
    }
    before = c;
  }
  return {};
}

Result<std::string> write_body(const GrammarSpec& spec, GbnfWriter& writer, const GrammarLimits& limits) {
  switch (spec.kind) {
    case GrammarSpec::Kind::kJsonObject:
      return writer.any_object();
    case GrammarSpec::Kind::kJsonSchema: {
      TRY_BIND(SchemaDocument document, SchemaDocument::parse(spec.text, limits.nesting));
      return SchemaWriter(document, writer, limits.rules).write();
    }
    case GrammarSpec::Kind::kRegex: {
      TRY_BIND(PatternNode pattern, parse_pattern(spec.text, PatternUse::kWhole));
      pattern = join_counts(std::move(pattern));
      if (std::optional<TextAutomaton> small = small_automaton(pattern)) return small->write_plain(writer);
      return writer.pattern(pattern, TextContext::kPlain);
    }
    case GrammarSpec::Kind::kEbnf:
      TRY_STATUS(check_gbnf(spec.text));
      TRY_STATUS(check_finite_rules(spec.text));
      writer.add_text(spec.text);
      return std::string("root");
    case GrammarSpec::Kind::kChoice: {
      if (spec.choices.empty()) return invalid_argument("a choice needs at least one text");
      std::string text;
      for (const std::string& choice : spec.choices) text += (text.empty() ? "" : " | ") + gbnf_literal(choice);
      return "(" + text + ")";
    }
    case GrammarSpec::Kind::kToolCalls:
      break;
  }
  return invalid_argument("no grammar of this kind");
}

}  // namespace

Result<OutputDialect> parse_output_dialect(std::string_view name) {
  constexpr std::string_view kNames[] = {"plain",  "hermes",      "qwen3",   "qwen3_coder",
                                         "llama3", "deepseek_v3", "mistral", "harmony"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<OutputDialect>(i);
  }
  return invalid_argument(
      "no output format '{}'; known: plain, hermes, qwen3, qwen3_coder, llama3, deepseek_v3, mistral, harmony", name);
}

Result<GrammarText> write_grammar(const GrammarSpec& spec, const GrammarVocabulary& vocabulary,
                                  const GrammarLimits& limits) {
  TRY_STATUS(check_texts(spec, limits));
  GbnfWriter writer(limits.rules);
  DialectWriter dialect(spec.dialect, vocabulary, writer);
  std::string root;
  if (spec.kind == GrammarSpec::Kind::kToolCalls) {
    TRY_BIND(root, dialect.tool_calls(spec.tools, spec.reasoning, limits));
  } else {
    TRY_BIND(std::string body, write_body(spec, writer, limits));
    root = dialect.answer(body, spec.reasoning);
  }
  TRY_BIND(std::string text, writer.finish(root));
  return GrammarText{std::move(text), writer.named()};
}

}  // namespace vernier
