#include "text/regex_syntax.h"

#include <optional>

#include "text/unicode.h"
#include "text/utf8.h"

namespace vernier {
namespace {

constexpr int kMaxDepth = 60;
constexpr size_t kMaxPattern = 20000;
constexpr uint32_t kMaxRepeat = 1000;

/// As much of a pattern as a message shows.
std::string_view shown_regex(std::string_view pattern) {
  return pattern.size() <= 200 ? pattern : pattern.substr(0, previous_utf8(pattern, 201));
}

RegexNode set_node(CodePointSet set) {
  RegexNode node;
  node.kind = RegexNodeKind::kSet;
  node.set = std::move(set);
  return node;
}

RegexNode wrap(RegexNodeKind kind, RegexNode child) {
  RegexNode node;
  node.kind = kind;
  node.children.push_back(std::move(child));
  return node;
}

struct Flags {
  bool ignore_case = false;
  bool dot_all = false;
  bool extended = false;
};

/// Recursive descent over the pattern; one instance parses one pattern.
class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<RegexNode> parse() {
    TRY_BIND(RegexNode node, alternation(0));
    if (!done()) return error("found ')' without '('");
    return node;
  }

 private:
  bool done() const { return at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t next() {
    DecodedCodePoint c = decode_utf8(pattern_, at_);
    at_ += c.size_bytes;
    return c.value;
  }
  Error error(std::string_view what) const {
    return unsupported("regular expression '{}', byte {}: {}", shown_regex(pattern_), at_, what);
  }

  Result<RegexNode> alternation(int depth) {
    if (depth > kMaxDepth) return error("groups nested too deeply");
    Flags outer = flags_;
    RegexNode choice;
    choice.kind = RegexNodeKind::kChoice;
    do {
      TRY_BIND(RegexNode part, sequence(depth));
      choice.children.push_back(std::move(part));
    } while (take("|"));
    flags_ = outer;
    if (choice.children.size() == 1) return std::move(choice.children.front());
    return choice;
  }

  void skip_extended() {
    while (flags_.extended && !done()) {
      char c = peek();
      if (c == '#') {
        while (!done() && peek() != '\n') ++at_;
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<RegexNode> sequence(int depth) {
    RegexNode node;
    node.kind = RegexNodeKind::kSequence;
    for (skip_extended(); !done() && peek() != '|' && peek() != ')'; skip_extended()) {
      if (take("(?#")) {
        while (!done() && peek() != ')') ++at_;
        if (!take(")")) return error("a comment does not end");
        continue;
      }
      TRY_BIND(RegexNode part, atom(depth));
      skip_extended();
      TRY_STATUS(quantify(part));
      node.children.push_back(std::move(part));
    }
    if (node.children.size() == 1) return std::move(node.children.front());
    return node;
  }

  /// Wraps `node` in each quantifier that follows it. "+" after a count in braces repeats; after ? * + it is
  /// possessive.
  Status quantify(RegexNode& node) {
    for (int count = 0;; ++count) {
      uint32_t least = 0, most = RegexNode::kUnbounded;
      bool braces = false;
      if (take("?")) {
        most = 1;
      } else if (take("+")) {
        least = 1;
      } else if (!take("*")) {
        TRY_BIND(braces, take_braces(least, most));
        if (!braces) return {};
      }
      if (count > kMaxDepth / 4) return error("too many quantifiers in a row");
      RegexNode repeat = wrap(RegexNodeKind::kRepeat, std::move(node));
      repeat.least = least;
      repeat.most = most;
      if (!braces && take("+")) {
        repeat.greed = RegexGreed::kPossessive;
      } else if (!(braces && least == most) && take("?")) {
        repeat.greed = RegexGreed::kLazy;
      }
      node = std::move(repeat);
    }
  }

  std::optional<uint32_t> number() {
    uint32_t value = 0;
    size_t start = at_;
    while (peek() >= '0' && peek() <= '9' && value < 100000)
      value = value * 10 + static_cast<uint32_t>(pattern_[at_++] - '0');
    if (at_ == start) return std::nullopt;
    return value;
  }

  /// {n}, {n,}, {,m} or {n,m}; anything else in braces is literal text.
  Result<bool> take_braces(uint32_t& least, uint32_t& most) {
    size_t start = at_;
    if (!take("{")) return false;
    std::optional<uint32_t> low = number();
    bool comma = take(",");
    std::optional<uint32_t> high = comma ? number() : low;
    if (!take("}") || (!low && !high)) {
      at_ = start;
      return false;
    }
    least = low.value_or(0);
    most = high.value_or(RegexNode::kUnbounded);
    if (least > kMaxRepeat || (most != RegexNode::kUnbounded && most > kMaxRepeat)) return error("a count above 1000");
    if (least > most) return error("a count whose maximum is below its minimum");
    return true;
  }

  Result<RegexNode> atom(int depth) {
    char c = peek();
    if (c == '(') return group(depth);
    if (c == '[') {
      ++at_;
      TRY_BIND(CodePointSet set, bracket(depth));
      return set_node(std::move(set));
    }
    if (c == '\\') return escape();
    if (take(".")) {
      return set_node(flags_.dot_all ? CodePointSet().complement() : CodePointSet::of('\n').complement());
    }
    if (take("^")) return assertion(RegexNodeKind::kLineStart);
    if (take("$")) return assertion(RegexNodeKind::kLineEnd);
    if (c == '*' || c == '+' || c == '?') return error("a quantifier with nothing before it");
    return set_node(literal(next()));
  }

  static RegexNode assertion(RegexNodeKind kind) {
    RegexNode node;
    node.kind = kind;
    return node;
  }

  CodePointSet literal(char32_t c) const {
    CodePointSet set = CodePointSet::of(c);
    return flags_.ignore_case ? set.case_closed() : set;
  }

  Result<RegexNode> group(int depth) {
    Flags outer = flags_;
    ++at_;
    RegexNode look;
    look.kind = RegexNodeKind::kLook;
    bool is_look = false, atomic = false;
    if (take("?")) {
      if (take("=")) {
        is_look = true;
      } else if (take("!")) {
        is_look = look.negative = true;
      } else if (take("<=")) {
        is_look = look.behind = true;
      } else if (take("<!")) {
        is_look = look.behind = look.negative = true;
      } else if (take(">")) {
        atomic = true;
      } else if (take("<")) {
        size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos) return error("the name of a group does not end");
        at_ = end + 1;
      } else if (!take(":")) {
        TRY_BIND(bool scoped, options());
        if (!scoped) {
          // (?i) without a colon holds for all that follows in this group, its alternatives too.
          TRY_BIND(RegexNode rest, alternation(depth + 1));
          flags_ = outer;
          return rest;
        }
      }
    }
    TRY_BIND(RegexNode body, alternation(depth + 1));
    flags_ = outer;
    if (!take(")")) return error("a group does not end");
    if (is_look) {
      look.children.push_back(std::move(body));
      return look;
    }
    return atomic ? wrap(RegexNodeKind::kAtomic, std::move(body)) : std::move(body);
  }

  /// Reads "i-m:" or "i)"; true if the options hold for a group of their own.
  Result<bool> options() {
    for (bool on = true;;) {
      switch (peek()) {
        case 'i':
          flags_.ignore_case = on;
          break;
        case 'm':
          flags_.dot_all = on;
          break;
        case 'x':
          flags_.extended = on;
          break;
        case '-':
          on = false;
          break;
        case ':':
          ++at_;
          return true;
        case ')':
          ++at_;
          return false;
        default:
          return error("an option or kind of group that is not known");
      }
      ++at_;
    }
  }

  Result<RegexNode> escape() {
    switch (peek(1)) {
      case 'b':
        at_ += 2;
        return assertion(RegexNodeKind::kWordBorder);
      case 'B':
        at_ += 2;
        return assertion(RegexNodeKind::kNotWordBorder);
      case 'A':
        at_ += 2;
        return assertion(RegexNodeKind::kTextStart);
      case 'z':
        at_ += 2;
        return assertion(RegexNodeKind::kTextEnd);
      case 'Z':
        at_ += 2;
        return assertion(RegexNodeKind::kTextEndOrLastLineFeed);
      case 'R': {
        at_ += 2;
        RegexNode pair;
        pair.kind = RegexNodeKind::kSequence;
        pair.children = {set_node(CodePointSet::of('\r')), set_node(CodePointSet::of('\n'))};
        RegexNode choice;
        choice.kind = RegexNodeKind::kChoice;
        CodePointSet breaks = CodePointSet::of('\n', '\r').united(CodePointSet::of(0x85));
        choice.children = {std::move(pair), set_node(breaks.united(CodePointSet::of(0x2028, 0x2029)))};
        return wrap(RegexNodeKind::kAtomic, std::move(choice));
      }
      default:
        break;
    }
    TRY_BIND(Escaped escaped, escaped_set());
    return set_node(escaped.single ? literal(*escaped.single) : std::move(escaped.set));
  }

  struct Escaped {
    std::optional<char32_t> single;  // one character, or
    CodePointSet set;                // a class
  };

  /// What a backslash stands for, inside and outside of brackets.
  Result<Escaped> escaped_set() {
    ++at_;
    if (done()) return error("a backslash at the end");
    char32_t c = next();
    auto one = [](char32_t value) { return Escaped{value, {}}; };
    auto cls = [](CodePointSet set, bool negative) {
      return Escaped{std::nullopt, negative ? set.complement() : std::move(set)};
    };
    CodePointSet hex = CodePointSet::of('0', '9').united(CodePointSet::of('a', 'f')).united(CodePointSet::of('A', 'F'));
    switch (c) {
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'a':
        return one('\a');
      case 'e':
        return one(0x1B);
      case '0':
        return one(0);
      case 'd':
      case 'D':
        return cls(unicode::category("Nd"), c == 'D');
      case 's':
      case 'S':
        return cls(unicode::white_space(), c == 'S');
      case 'w':
      case 'W':
        return cls(unicode::word(), c == 'W');
      case 'h':
      case 'H':
        return cls(std::move(hex), c == 'H');
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'x':
        return code_point(take("{") ? 0 : 2);
      case 'u':
        return code_point(4);
      default:
        break;
    }
    if ((c >= '1' && c <= '9') || c == 'k' || c == 'g') return error("back references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return error(fmt::format("\\{} is not known", static_cast<char>(c)));
    }
    return one(c);
  }

  /// Hexadecimal digits: at most `digits`, or up to a closing brace where that is 0.
  Result<Escaped> code_point(int digits) {
    uint32_t value = 0;
    int seen = 0;
    while (seen < (digits == 0 ? 8 : digits)) {
      char c = peek();
      uint32_t digit =
          c >= '0' && c <= '9' ? static_cast<uint32_t>(c - '0') : 10 + static_cast<uint32_t>((c | 0x20) - 'a');
      bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!hex) break;
      value = value * 16 + digit;
      ++at_, ++seen;
    }
    if (seen == 0 || (digits == 4 && seen < 4)) return error("expected hexadecimal digits");
    if (digits == 0 && !take("}")) return error("expected '}'");
    if (value > CodePointSet::kLast || (value >= 0xD800 && value < 0xE000)) return error("no such character");
    return Escaped{static_cast<char32_t>(value), {}};
  }

  Result<Escaped> property(bool negative) {
    std::string_view name;
    if (take("{")) {
      size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) return error("the name of a property does not end");
      name = pattern_.substr(at_, end - at_);
      at_ = end + 1;
    } else {
      return error("expected '{' after \\p");
    }
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    std::optional<CodePointSet> set = unicode::property(name);
    if (!set) return error(fmt::format("the property '{}' is not known", name));
    return Escaped{std::nullopt, negative ? set->complement() : std::move(*set)};
  }

  /// The rest of a bracketed class, nested ones and && included.
  Result<CodePointSet> bracket(int depth) {
    if (depth > kMaxDepth) return error("classes nested too deeply");
    bool negative = take("^");
    CodePointSet set;
    std::optional<CodePointSet> left_of_and;
    for (bool first = true;; first = false) {
      if (done()) return error("a class does not end");
      if (peek() == ']' && !first) break;
      if (take("&&")) {
        left_of_and = left_of_and ? left_of_and->intersected(set) : std::move(set);
        set = CodePointSet();
        continue;
      }
      TRY_BIND(CodePointSet part, bracket_part(depth));
      set = set.united(part);
    }
    ++at_;
    if (left_of_and) set = left_of_and->intersected(set);
    if (flags_.ignore_case) set = set.case_closed();
    return negative ? set.complement() : std::move(set);
  }

  /// One class, character or range inside brackets.
  Result<CodePointSet> bracket_part(int depth) {
    if (take("[:")) {
      bool negative = take("^");
      size_t end = pattern_.find(":]", at_);
      if (end == std::string_view::npos) return error("the name of a class does not end");
      std::optional<CodePointSet> set = unicode::property(pattern_.substr(at_, end - at_));
      if (!set) return error("a POSIX class that is not known");
      at_ = end + 2;
      return negative ? set->complement() : std::move(*set);
    }
    if (take("[")) return bracket(depth + 1);
    TRY_BIND(Escaped low, bracket_character());
    if (!low.single) return std::move(low.set);
    if (peek() != '-' || peek(1) == ']' || at_ + 1 >= pattern_.size()) return CodePointSet::of(*low.single);
    if (peek(1) == '[' || (peek(1) == '&' && peek(2) == '&')) return CodePointSet::of(*low.single);
    size_t dash = at_++;
    TRY_BIND(Escaped high, bracket_character());
    if (!high.single) {  // "a-\d": the dash is a character of its own
      at_ = dash;
      return CodePointSet::of(*low.single);
    }
    if (*high.single < *low.single) return error("a range whose end is below its start");
    return CodePointSet::of(*low.single, *high.single);
  }

  Result<Escaped> bracket_character() {
    if (peek() != '\\') return Escaped{next(), {}};
    if (peek(1) == 'b') {
      at_ += 2;
      return Escaped{'\b', {}};
    }
    return escaped_set();
  }

  std::string_view pattern_;
  size_t at_ = 0;
  Flags flags_;
};

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) return unsupported("a regular expression is not valid UTF-8");
  if (pattern.size() > kMaxPattern)
    return unsupported("a regular expression of {} bytes; at most {} are read", pattern.size(), kMaxPattern);
  return Parser(pattern).parse();
}

}  // namespace vernier
