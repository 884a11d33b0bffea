#include "grammar/gbnf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vernier {
namespace {

constexpr int kMostDigits = 18;
// Characters that a count looks ahead: nearly all tokens are shorter, and those that are not are tried one by one.
constexpr size_t kAhead = 16;

/// A code point as it stands inside [...].
std::string class_char(char32_t c) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
    return std::string(1, static_cast<char>(c));
  return c > 0xFFFF ? fmt::format("\\U{:08x}", static_cast<uint32_t>(c))
                    : fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
}

std::string class_of(const CharSet& set) {
  std::string text = "[";
  for (CharRange range : set.ranges()) {
    text += class_char(range.first);
    if (range.last > range.first) text += "-" + class_char(range.last);
  }
  return text + "]";
}

/// What stands in a JSON string as it is.
const CharSet& bare_in_json() {
  static const CharSet set = CharSet::of({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}});
  return set;
}

const CharSet& controls() {
  static const CharSet set = CharSet::of({{0x00, 0x1F}});
  return set;
}

/// The escapes of the characters that a JSON string cannot hold bare, and only of these: a character has one spelling.
std::string json_escapes(const CharSet& set) {
  constexpr std::pair<char32_t, char> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                  {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  std::string letters;
  for (auto [c, letter] : kShort) {
    if (set.contains(c)) letters += class_char(static_cast<unsigned char>(letter));
  }
  std::string text;
  if (!letters.empty()) text = "\"\\\\\" [" + letters + "]";
  auto add = [&](std::string_view alternative) { text += (text.empty() ? "" : " | ") + std::string(alternative); };
  if (set.contains_all(controls())) {
    add("\"\\\\u00\" [01] [0-9a-f]");
  } else {
    for (char32_t c = 0; c < 0x20; ++c) {
      bool has_letter = std::ranges::any_of(kShort, [&](auto pair) { return pair.first == c; });
      if (set.contains(c) && !has_letter) add(fmt::format("\"\\\\u{:04x}\"", static_cast<uint32_t>(c)));
    }
  }
  return text;
}

/// A run so long that its characters are counted, not written out.
bool is_counted(const PatternNode& node) {
  return node.kind == PatternNode::Kind::kRepeat && node.children[0].kind == PatternNode::Kind::kChars &&
         std::max(node.least, node.most == kUnbounded ? 0 : node.most) > kAhead;
}

/// Holds a counted run that must know what follows the node.
bool counts_to_end(const PatternNode& node) {
  if (node.kind == PatternNode::Kind::kSequence) return std::ranges::any_of(node.children, counts_to_end);
  if (node.kind == PatternNode::Kind::kChoice && node.children.size() == 1) return counts_to_end(node.children[0]);
  return is_counted(node);
}

}  // namespace

std::string gbnf_literal(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string gbnf_chars(const CharSet& set, TextContext context) {
  if (context == TextContext::kPlain) return class_of(set);
  const CharSet bare = set & bare_in_json();
  std::string escapes = json_escapes(set);
  if (bare.empty()) return "(" + escapes + ")";
  return escapes.empty() ? class_of(bare) : "(" + class_of(bare) + " | " + escapes + ")";
}

std::string gbnf_repeat(std::string_view element, size_t least, size_t most) {
  if (least == 1 && most == 1) return std::string(element);
  if (most == 0) return "\"\"";
  std::string text(element);
  if (least == 0 && most == 1) return text + "?";
  if (most == kUnbounded && least <= 1) return text + (least == 0 ? "*" : "+");
  return most == kUnbounded ? fmt::format("{}{{{},}}", element, least)
                            : fmt::format("{}{{{},{}}}", element, least, most);
}

std::string GbnfWriter::reserve() {
  return fmt::format("v_{}", rules_++);
}

void GbnfWriter::define(const std::string& name, std::string_view body) {
  text_ += fmt::format("{} ::= {}\n", name, body);
}

std::string GbnfWriter::rule(std::string_view body) {
  auto [found, fresh] = by_body_.try_emplace(std::string(body));
  if (fresh) {
    found->second = reserve();
    define(found->second, body);
  }
  return found->second;
}

std::string GbnfWriter::token(int32_t id) {
  if (std::ranges::find(named_, id) == named_.end()) named_.push_back(id);
  return fmt::format("Token({})", id);
}

std::string GbnfWriter::text_up_to(std::string_view marker) {
  const std::vector<char32_t> wanted = code_points(marker);
  std::vector<std::string> states;  // by how much of the marker has been read
  for (size_t k = 0; k < wanted.size(); ++k) states.push_back(reserve());
  const std::set<char32_t> alphabet(wanted.begin(), wanted.end());
  for (size_t k = 0; k < wanted.size(); ++k) {
    CharSet others = CharSet::all();
    std::string body;
    for (char32_t c : alphabet) {
      std::vector<char32_t> read(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(k));
      read.push_back(c);
      while (!std::equal(read.begin(), read.end(), wanted.begin())) read.erase(read.begin());
      if (read.empty()) continue;
      const CharSet one = CharSet::of({{c, c}});
      others = others & one.complement();
      body += class_of(one) + (read.size() == wanted.size() ? "" : " " + states[read.size()]) + " | ";
    }
    define(states[k], body + class_of(others) + " " + states[0]);
  }
  return states[0];
}

std::string GbnfWriter::space() {
  return rule("[ ]?");
}

std::string GbnfWriter::rest_of_string() {
  if (rest_of_string_.empty()) {
    rest_of_string_ = reserve();
    define(rest_of_string_,
           fmt::format(R"("\"" | {0} {1} | "\\" ["\\/bfnrt] {1} | "\\u" [0-9A-Ca-cE-Fe-f] [0-9A-Fa-f] [0-9A-Fa-f] )"
                       R"([0-9A-Fa-f] {1} | "\\u" [Dd] [0-7] [0-9A-Fa-f] [0-9A-Fa-f] {1})",
                       class_of(bare_in_json()), rest_of_string_));
  }
  return rest_of_string_;
}

std::string GbnfWriter::string_of_length(size_t least, size_t most) {
  if (least == 0 && most == kUnbounded) return rule("\"\\\"\" " + rest_of_string());
  const std::string element = class_of(bare_in_json()) +
                              R"( | "\\" ["\\/bfnrt] | "\\u" [0-9A-Ca-cE-Fe-f] [0-9A-Fa-f] [0-9A-Fa-f] [0-9A-Fa-f] )"
                              R"(| "\\u" [Dd] [0-7] [0-9A-Fa-f] [0-9A-Fa-f])";
  if (most != kUnbounded) return rule("\"\\\"\" " + counted(element, least, most, "\"\\\"\""));
  return rule("\"\\\"\" " + counted(element, least, least, rest_of_string()));
}

std::string GbnfWriter::chain(const std::string& one, size_t least, size_t most, const std::string& after) {
  std::string rest = after;
  for (size_t read = most; read-- > 0;) {
    rest = rule(fmt::format("{}{} {}", read >= least ? after + " | " : "", one, rest));
  }
  return rest;
}

std::string GbnfWriter::run(const std::string& one) {
  auto [found, fresh] = runs_.try_emplace(one);
  if (fresh) {
    std::string ahead;
    for (size_t i = 0; i < kAhead; ++i) ahead += " " + one;
    found->second = fmt::format("v_run_{}", rules_++);
    define(found->second, fmt::format("{} (={})", one, ahead));
  }
  return found->second;
}

/// What a token of at most `kAhead` characters may do within a run is known beforehand, as long as that many may
/// follow; so the last of a run are a rule each, and those before are counted. A run that ends before them is the other
/// way. No rule stands between these and the classes of `element`: the library joins a rule that names no other.
std::string GbnfWriter::counted(std::string_view element, size_t least, size_t most, std::string_view rest) {
  if (most == kUnbounded) return counted(element, least, least, fmt::format("{}* {}", element, rest));
  const std::string after = rule(rest.empty() ? "\"\"" : rest);
  const std::string one = rule(element);
  if (most <= kAhead) return chain(one, least, most, after);
  const size_t turn = most - kAhead;
  std::string text =
      fmt::format("{}{{{},{}}} {}", run(one), turn, turn, chain(one, least > turn ? least - turn : 0, kAhead, after));
  if (least < turn) text += fmt::format(" | {}{{{},{}}} {}", run(one), least, turn - 1, after);
  return rule(text);
}

std::string GbnfWriter::pattern(const PatternNode& node, TextContext context, std::string_view rest) {
  auto then_rest = [&](std::string text) { return rest.empty() ? text : fmt::format("{} {}", text, rest); };
  switch (node.kind) {
    case PatternNode::Kind::kChars:
      return then_rest(gbnf_chars(node.chars, context));
    case PatternNode::Kind::kRepeat: {
      const PatternNode& child = node.children[0];
      if (is_counted(node)) {
        return counted(gbnf_chars(child.chars, context), node.least, node.most, rest);
      }
      return then_rest("(" + gbnf_repeat(pattern(child, context), node.least, node.most) + ")");
    }
    case PatternNode::Kind::kChoice: {
      if (node.children.size() == 1) return pattern(node.children[0], context, rest);
      std::string text;
      for (const PatternNode& child : node.children) text += (text.empty() ? "" : " | ") + pattern(child, context);
      return then_rest("(" + text + ")");
    }
    case PatternNode::Kind::kSequence:
      break;
  }
  const std::string text = sequence(node, context, rest);
  return text.empty() ? "\"\"" : "(" + text + ")";
}

/// Each part is written once: what follows a counted run becomes a rule there, and only that is known from the end.
std::string GbnfWriter::sequence(const PatternNode& node, TextContext context, std::string_view rest) {
  std::vector<std::string> parts;  // from the last on
  if (!rest.empty()) parts.emplace_back(rest);
  auto take_parts = [&] {
    std::string text;
    for (size_t i = parts.size(); i-- > 0;) text += (text.empty() ? "" : " ") + parts[i];
    parts.clear();
    return text;
  };
  for (size_t i = node.children.size(); i-- > 0;) {
    const PatternNode& child = node.children[i];
    parts.push_back(counts_to_end(child) ? pattern(child, context, take_parts()) : pattern(child, context));
  }
  return take_parts();
}

std::string GbnfWriter::any_number() {
  return rule(fmt::format(R"("-"? ("0" | [1-9] [0-9]{{0,{0}}}) ("." [0-9]{{1,{1}}})? ([eE] [+-]? [0-9]{{1,2}})?)",
                          kMostDigits - 1, kMostDigits));
}

std::string GbnfWriter::any_value() {
  if (any_value_.empty()) {
    any_value_ = reserve();
    const std::string text = string_of_length(0, kUnbounded);
    define(any_value_, fmt::format(R"({} | {} | {} | {} | "true" | "false" | "null")", any_object(), any_array(), text,
                                   any_number()));
  }
  return any_value_;
}

std::string GbnfWriter::list(std::string_view open, std::string_view item, std::string_view close) {
  const std::string s = space();
  return rule(fmt::format("{} {} ({} ({} \",\" {} {})* {})? {}", gbnf_literal(open), s, item, s, s, item, s,
                          gbnf_literal(close)));
}

std::string GbnfWriter::any_object() {
  const std::string s = space();
  const std::string value = any_value();
  return list("{", rule(fmt::format("{} {} \":\" {} {}", string_of_length(0, kUnbounded), s, s, value)), "}");
}

std::string GbnfWriter::any_array() {
  return list("[", any_value(), "]");
}

Result<std::string> GbnfWriter::finish(std::string_view body) const {
  if (rules_ > most_rules_) {
    return invalid_argument("the grammar has {} rules, at most {} are taken; simplify it", rules_, most_rules_);
  }
  return fmt::format("{}v_root ::= {}\n", text_, body);
}

}  // namespace vernier
