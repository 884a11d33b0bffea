#include "text/regex.h"

#include <map>

#include "text/utf8.h"

namespace vernier {

namespace {
constexpr size_t kMaxProgram = 4000;
constexpr size_t kMaxNodes = 200000;  // visits of nodes, of those that emit nothing too
constexpr size_t kMaxSets = 2000;
}  // namespace

/// Turns a parsed expression into a program.
class RegexCompiler {
 public:
  explicit RegexCompiler(Regex& regex) : regex_(regex) {}

  Status compile(const RegexNode& node) {
    TRY_STATUS(emit(node));
    add({.op = RegexOp::kMatch});
    return {};
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(regex_.program_.size()); }
  uint32_t add(RegexInstruction instruction) {
    regex_.program_.push_back(instruction);
    return here() - 1;
  }
  RegexInstruction& at(uint32_t pc) { return regex_.program_[pc]; }

  Result<uint16_t> set(const CodePointSet& set) {
    for (size_t i = 0; i < known_.size(); ++i) {
      if (std::equal(known_[i].ranges().begin(), known_[i].ranges().end(), set.ranges().begin(), set.ranges().end())) {
        return static_cast<uint16_t>(i);
      }
    }
    if (known_.size() >= kMaxSets)
      return unsupported("a regular expression with more than {} different characters", kMaxSets);
    known_.push_back(set);
    regex_.sets_.emplace_back(set);
    return static_cast<uint16_t>(known_.size() - 1);
  }

  static bool can_be_empty(const RegexNode& node) {
    switch (node.kind) {
      case RegexNodeKind::kSet:
        return false;
      case RegexNodeKind::kSequence:
        for (const RegexNode& child : node.children) {
          if (!can_be_empty(child)) return false;
        }
        return true;
      case RegexNodeKind::kChoice:
        for (const RegexNode& child : node.children) {
          if (can_be_empty(child)) return true;
        }
        return false;
      case RegexNodeKind::kRepeat:
        return node.least == 0 || can_be_empty(node.children[0]);
      case RegexNodeKind::kAtomic:
        return can_be_empty(node.children[0]);
      default:
        return true;
    }
  }

  /// Characters that every match takes; nothing where that varies.
  static std::optional<uint32_t> width(const RegexNode& node) {
    switch (node.kind) {
      case RegexNodeKind::kSet:
        return 1;
      case RegexNodeKind::kSequence: {
        uint32_t sum = 0;
        for (const RegexNode& child : node.children) {
          std::optional<uint32_t> part = width(child);
          if (!part) return std::nullopt;
          sum += *part;
        }
        return sum;
      }
      case RegexNodeKind::kChoice: {
        std::optional<uint32_t> common = width(node.children[0]);
        for (const RegexNode& child : node.children) {
          if (width(child) != common) return std::nullopt;
        }
        return common;
      }
      case RegexNodeKind::kRepeat: {
        std::optional<uint32_t> part = width(node.children[0]);
        if (!part || node.least != node.most) return std::nullopt;
        return *part * node.least;
      }
      case RegexNodeKind::kAtomic:
        return width(node.children[0]);
      default:
        return 0;
    }
  }

  Status emit(const RegexNode& node) {
    if (regex_.program_.size() > kMaxProgram || ++visits_ > kMaxNodes)
      return unsupported("a regular expression that is too long when counts are written out");
    switch (node.kind) {
      case RegexNodeKind::kEmpty:
        return {};
      case RegexNodeKind::kSet: {
        TRY_BIND(uint16_t index, set(node.set));
        add({.op = RegexOp::kCharacter, .set = index});
        return {};
      }
      case RegexNodeKind::kSequence:
        for (const RegexNode& child : node.children) TRY_STATUS(emit(child));
        return {};
      case RegexNodeKind::kChoice:
        return emit_choice(node);
      case RegexNodeKind::kRepeat:
        return emit_repeat(node);
      case RegexNodeKind::kAtomic:
        return emit_body({.op = RegexOp::kAtomic}, node.children[0]);
      case RegexNodeKind::kLook:
        return emit_look(node);
      default:
        add({.op = RegexOp::kAssert, .assertion = node.kind});
        return {};
    }
  }

  Status emit_body(RegexInstruction instruction, const RegexNode& body) {
    uint32_t start = add(instruction);
    ++bodies_;
    TRY_STATUS(emit(body));
    --bodies_;
    add({.op = RegexOp::kMatch});
    at(start).target = here();
    return {};
  }

  Status emit_look(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    if (!node.behind) {
      return emit_body({.op = RegexOp::kLook, .negative = node.negative, .behind_characters = kNotBehind}, body);
    }
    if (body.kind == RegexNodeKind::kChoice && !width(body)) return emit_look_behind_choice(node);
    std::optional<uint32_t> characters = width(body);
    if (!characters) return unsupported("a look-behind whose length varies");
    return emit_body({.op = RegexOp::kLook, .negative = node.negative, .behind_characters = *characters}, body);
  }

  /// (?<=a|bc) is (?<=a)|(?<=bc); (?<!a|bc) is (?<!a)(?<!bc).
  Status emit_look_behind_choice(const RegexNode& node) {
    RegexNode parts;
    parts.kind = node.negative ? RegexNodeKind::kSequence : RegexNodeKind::kChoice;
    for (const RegexNode& child : node.children[0].children) {
      if (!width(child)) return unsupported("a look-behind whose length varies");
      RegexNode look = node;
      look.children = {child};
      parts.children.push_back(std::move(look));
    }
    return emit(parts);
  }

  Status emit_choice(const RegexNode& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i < node.children.size(); ++i) {
      bool last = i + 1 == node.children.size();
      uint32_t split = last ? 0 : add({.op = RegexOp::kSplit});
      TRY_STATUS(emit(node.children[i]));
      if (last) break;
      jumps.push_back(add({.op = RegexOp::kJump}));
      at(split).target = here();
    }
    for (uint32_t jump : jumps) at(jump).target = here();
    return {};
  }

  Status emit_repeat(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    if (node.greed == RegexGreed::kPossessive && body.kind != RegexNodeKind::kSet) {
      RegexNode greedy = node;
      greedy.greed = RegexGreed::kGreedy;
      return emit_body({.op = RegexOp::kAtomic}, greedy);
    }
    for (uint32_t i = 0; i < node.least; ++i) TRY_STATUS(emit(body));
    bool lazy = node.greed == RegexGreed::kLazy;
    if (node.most == RegexNode::kUnbounded) return emit_loop(body, lazy, node.greed == RegexGreed::kPossessive);
    if (node.greed == RegexGreed::kPossessive) {
      RegexNode rest = node;
      rest.most -= rest.least;
      rest.least = 0;
      rest.greed = RegexGreed::kGreedy;
      return rest.most == 0 ? Status() : emit_body({.op = RegexOp::kAtomic}, rest);
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = node.least; i < node.most; ++i) {
      splits.push_back(add({.op = lazy ? RegexOp::kSplitLazy : RegexOp::kSplit}));
      TRY_STATUS(emit(body));
    }
    for (uint32_t split : splits) at(split).target = here();
    return {};
  }

  Status emit_loop(const RegexNode& body, bool lazy, bool possessive) {
    if (body.kind == RegexNodeKind::kSet && !lazy) {
      TRY_BIND(uint16_t index, set(body.set));
      add({.op = possessive ? RegexOp::kPossessiveRun : RegexOp::kRun, .set = index});
      return {};
    }
    if (can_be_empty(body)) {
      // What such a loop does depends on how it was reached, so that nothing about it could be remembered (TEXT-4).
      if (bodies_ > 0) return unsupported("a repeat of what may be empty, inside a look or an atomic group");
      regex_.must_remember_ = true;
    }
    uint32_t split = add({.op = lazy ? RegexOp::kSplitLazy : RegexOp::kSplit});
    TRY_STATUS(emit(body));
    add({.op = RegexOp::kJump, .target = split});
    at(split).target = here();
    return {};
  }

  Regex& regex_;
  std::vector<CodePointSet> known_;
  size_t visits_ = 0;
  int bodies_ = 0;  // of looks and atomic groups that are being emitted
};

Result<Regex> Regex::compile(std::string_view pattern) {
  TRY_BIND(RegexNode node, parse_regex(pattern));
  Regex regex;
  Status compiled = RegexCompiler(regex).compile(node);
  if (!compiled.ok()) {
    return unsupported("regular expression '{}': {}", pattern, compiled.error().message);
  }
  regex.text_ = pattern;
  return regex;
}

Regex Regex::literal(std::string_view text) {
  Regex regex;
  regex.text_ = text;
  regex.is_literal_ = true;
  return regex;
}

}  // namespace vernier
