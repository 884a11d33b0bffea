#include "grammar/pattern.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace vernier {
namespace {

constexpr size_t kMostRepeats = 100000;
constexpr size_t kMostNesting = 60;
constexpr size_t kMostExpanded = 200000;  // characters that nested counts may ask for together

const CharSet& digits() {
  static const CharSet set = CharSet::of({{'0', '9'}});
  return set;
}
const CharSet& word_chars() {
  static const CharSet set = CharSet::of({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return set;
}
const CharSet& spaces() {  // WhiteSpace and LineTerminator of ECMA-262
  static const CharSet set = CharSet::of({{0x09, 0x0D},
                                          {0x20, 0x20},
                                          {0xA0, 0xA0},
                                          {0x1680, 0x1680},
                                          {0x2000, 0x200A},
                                          {0x2028, 0x2029},
                                          {0x202F, 0x202F},
                                          {0x205F, 0x205F},
                                          {0x3000, 0x3000},
                                          {0xFEFF, 0xFEFF}});
  return set;
}
const CharSet& line_ends() {
  static const CharSet set = CharSet::of({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
  return set;
}

PatternNode chars_node(CharSet set) {
  PatternNode node;
  node.kind = PatternNode::Kind::kChars;
  node.chars = std::move(set);
  return node;
}

PatternNode repeat_node(PatternNode child, size_t least, size_t most) {
  PatternNode node;
  node.kind = PatternNode::Kind::kRepeat;
  node.children.push_back(std::move(child));
  node.least = least;
  node.most = most;
  return node;
}

class PatternParser {
 public:
  PatternParser(std::string_view text, PatternUse use) : text_(text), use_(use) {}

  Result<PatternNode> parse() {
    PatternNode root;
    root.kind = PatternNode::Kind::kChoice;
    do {
      TRY_BIND(PatternNode branch, top_branch());
      root.children.push_back(std::move(branch));
    } while (take('|'));
    if (at_ < text_.size()) return refuse("has a ')' without its '('");
    return root;
  }

 private:
  bool more() const { return at_ < text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(char c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Error refuse(std::string_view what) const {
    return invalid_argument("the regular expression '{}' {} (at byte {})", text_.substr(0, 200), what, at_);
  }

  /// A branch of the outermost choice: the one place where anchors stand.
  Result<PatternNode> top_branch() {
    const bool starts = take('^');
    TRY_BIND(PatternNode branch, sequence(0));
    const bool ends = take('$');
    if (more() && peek() != '|' && peek() != ')')
      return refuse("has '$' before its end; only the last place is supported");
    if (use_ == PatternUse::kWhole) return branch;
    PatternNode anything = repeat_node(chars_node(CharSet::all()), 0, kUnbounded);
    if (!starts) branch.children.insert(branch.children.begin(), anything);
    if (!ends) branch.children.push_back(anything);
    return branch;
  }

  Result<PatternNode> choice(size_t depth) {
    if (depth > kMostNesting) return refuse("is nested too deeply");
    PatternNode node;
    node.kind = PatternNode::Kind::kChoice;
    do {
      TRY_BIND(PatternNode branch, sequence(depth));
      if (peek() == '$' && more()) return refuse("has '$' inside a group; only the end of the whole is supported");
      node.children.push_back(std::move(branch));
    } while (take('|'));
    return node;
  }

  Result<PatternNode> sequence(size_t depth) {
    PatternNode node;
    while (more() && peek() != '|' && peek() != ')' && peek() != '$') {
      TRY_BIND(PatternNode item, atom(depth));
      TRY_BIND(item, quantified(std::move(item)));
      node.children.push_back(std::move(item));
    }
    return node;
  }

  Result<PatternNode> quantified(PatternNode item) {
    size_t least = 1;
    size_t most = 1;
    if (take('*')) {
      least = 0, most = kUnbounded;
    } else if (take('+')) {
      most = kUnbounded;
    } else if (take('?')) {
      least = 0;
    } else if (peek() == '{') {
      TRY_STATUS(counts(least, most));
    } else {
      return item;
    }
    take('?');  // lazy: the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') return refuse("has two quantifiers in a row");
    PatternNode node = repeat_node(std::move(item), least, most);
    const PatternLength length = length_of(node);
    if (std::max(length.least, length.most == kUnbounded ? 0 : length.most) > kMostExpanded) {
      return refuse("asks for too many characters; counts that multiply to 200000 are supported");
    }
    return node;
  }

  Status counts(size_t& least, size_t& most) {
    ++at_;
    auto number = [&]() -> std::optional<size_t> {
      size_t value = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc()) return std::nullopt;
      at_ = static_cast<size_t>(end - text_.data());
      return value;
    };
    std::optional<size_t> first = number();
    if (!first) return refuse("has a '{' that opens no count; write \\{ for the character");
    least = most = *first;
    if (take(',')) most = peek() == '}' ? kUnbounded : number().value_or(kMostRepeats + 1);
    if (!take('}')) return refuse("has a count without its '}'");
    if (least > kMostRepeats || (most != kUnbounded && most > kMostRepeats)) {
      return refuse("has a count above 100000");
    }
    if (least > most) return refuse("has a count that runs backwards");
    return {};
  }

  Result<PatternNode> atom(size_t depth) {
    switch (peek()) {
      case '(':
        ++at_;
        return group(depth);
      case '[':
        ++at_;
        return char_class();
      case '.':
        ++at_;
        return chars_node(line_ends().complement());
      case '\\': {
        TRY_BIND(CharSet set, escape(false));
        return chars_node(std::move(set));
      }
      case '^':
        return refuse("has '^' inside; only the first place is supported");
      case '*':
      case '+':
      case '?':
      case '{':
        return refuse("has a quantifier with nothing before it");
      case ']':
      case '}':
        return refuse("has a bracket that closes nothing; write it with a \\ before it");
      default: {
        TRY_BIND(char32_t c, character());
        return chars_node(CharSet::of({{c, c}}));
      }
    }
  }

  Result<PatternNode> group(size_t depth) {
    if (take('?')) {
      if (peek() == '<' && peek(1) != '=' && peek(1) != '!') {
        size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return refuse("has a group name without its end");
        at_ = end + 1;
      } else if (!take(':')) {
        return refuse("has a look-around or a group option; groups ( ), (?: ) and (?<name> ) are supported");
      }
    }
    TRY_BIND(PatternNode inside, choice(depth + 1));
    if (!take(')')) return refuse("has a '(' without its ')'");
    return inside;
  }

  Result<PatternNode> char_class() {
    const bool negated = take('^');
    CharSet set;
    while (more() && peek() != ']') {
      TRY_BIND(CharSet item, class_item());
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        TRY_BIND(CharSet end, class_item());
        auto single = [](const CharSet& s) {
          return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
        };
        if (!single(item) || !single(end)) return refuse("has a range from or to a class");
        CharRange range{item.ranges()[0].first, end.ranges()[0].first};
        if (range.first > range.last) return refuse("has a range that runs backwards");
        item = CharSet::of({range});
      }
      set = set | item;
    }
    if (!take(']')) return refuse("has a '[' without its ']'");
    if (negated) set = set.complement();
    if (set.empty()) return refuse("has a class that no character is in");
    return chars_node(std::move(set));
  }

  Result<CharSet> class_item() {
    if (peek() == '\\') return escape(true);
    TRY_BIND(char32_t c, character());
    return CharSet::of({{c, c}});
  }

  Result<CharSet> escape(bool in_class) {
    ++at_;
    if (!more()) return refuse("ends in the middle of an escape");
    auto just = [](char32_t c) { return CharSet::of({{c, c}}); };
    const char kind = text_[at_];
    switch (kind) {
      case 'd':
        return ++at_, digits();
      case 'D':
        return ++at_, digits().complement();
      case 'w':
        return ++at_, word_chars();
      case 'W':
        return ++at_, word_chars().complement();
      case 's':
        return ++at_, spaces();
      case 'S':
        return ++at_, spaces().complement();
      case 'n':
        return ++at_, just('\n');
      case 'r':
        return ++at_, just('\r');
      case 't':
        return ++at_, just('\t');
      case 'f':
        return ++at_, just('\f');
      case 'v':
        return ++at_, just('\v');
      case 'x':
        return ++at_, code_point(2);
      case 'u':
        return ++at_, unicode_escape();
      case 'b':
        if (in_class) return ++at_, just('\b');
        return refuse("has a word border; it is not supported");
      default:
        break;
    }
    if ((kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') || (kind >= '0' && kind <= '9')) {
      return refuse(
          "has an escape that is not supported; \\d \\D \\w \\W \\s \\S \\n \\r \\t \\f \\v \\xHH \\uHHHH and escaped "
          "punctuation are");
    }
    TRY_BIND(char32_t c, character());
    return just(c);
  }

  Result<CharSet> unicode_escape() {
    if (take('{')) {
      size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end == at_ || end - at_ > 6) return refuse("has a broken \\u{...}");
      TRY_BIND(CharSet set, code_point(end - at_));
      ++at_;
      return set;
    }
    uint32_t high = 0;
    if (peek() == 'd' || peek() == 'D')
      std::from_chars(text_.data() + at_, text_.data() + std::min(at_ + 4, text_.size()), high, 16);
    if (high >= 0xD800 && high < 0xDC00 && peek(4) == '\\' && peek(5) == 'u') {
      uint32_t low = 0;
      std::from_chars(text_.data() + at_ + 6, text_.data() + std::min(at_ + 10, text_.size()), low, 16);
      if (low >= 0xDC00 && low < 0xE000) {
        at_ += 10;
        char32_t c = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return CharSet::of({{c, c}});
      }
    }
    return code_point(4);
  }

  Result<CharSet> code_point(size_t digits) {
    if (at_ + digits > text_.size()) return refuse("ends in the middle of an escape");
    uint32_t c = 0;
    const char* end = text_.data() + at_ + digits;
    auto parsed = std::from_chars(text_.data() + at_, end, c, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) return refuse("has an escape without its hexadecimal digits");
    CharSet set = CharSet::of({{c, c}});
    if (set.empty()) return refuse("names a code point that no text holds");
    at_ += digits;
    return set;
  }

  /// The next character of the pattern; refuses what is not UTF-8.
  Result<char32_t> character() {
    const auto lead = static_cast<uint8_t>(text_[at_]);
    const size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    char32_t c = bytes == 1 ? lead : lead & (0xFF >> (bytes + 1));
    if (lead == 0 || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || at_ + bytes > text_.size()) {
      return refuse("is not UTF-8, or holds a NUL");
    }
    for (size_t i = 1; i < bytes; ++i) {
      const auto next = static_cast<uint8_t>(text_[at_ + i]);
      if ((next & 0xC0) != 0x80) return refuse("is not UTF-8");
      c = (c << 6) | (next & 0x3F);
    }
    if (CharSet::of({{c, c}}).empty()) return refuse("is not UTF-8");
    at_ += bytes;
    return c;
  }

  std::string_view text_;
  PatternUse use_;
  size_t at_ = 0;
};

}  // namespace

size_t multiply_counts(size_t a, size_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnbounded || b == kUnbounded || a > kUnbounded / b) return kUnbounded;
  return a * b;
}

size_t add_counts(size_t a, size_t b) {
  return a == kUnbounded || b == kUnbounded || a > kUnbounded - b ? kUnbounded : a + b;
}

Result<PatternNode> parse_pattern(std::string_view text, PatternUse use) {
  return PatternParser(text, use).parse();
}

PatternLength length_of(const PatternNode& node) {
  PatternLength length;
  switch (node.kind) {
    case PatternNode::Kind::kChars:
      return {1, 1};
    case PatternNode::Kind::kSequence:
      for (const PatternNode& child : node.children) {
        PatternLength part = length_of(child);
        length = {add_counts(length.least, part.least), add_counts(length.most, part.most)};
      }
      return length;
    case PatternNode::Kind::kChoice:
      length.least = kUnbounded;
      for (const PatternNode& child : node.children) {
        PatternLength part = length_of(child);
        length = {std::min(length.least, part.least), std::max(length.most, part.most)};
      }
      return length;
    case PatternNode::Kind::kRepeat: {
      PatternLength part = length_of(node.children[0]);
      return {multiply_counts(part.least, node.least), multiply_counts(part.most, node.most)};
    }
  }
  return length;
}

}  // namespace vernier
