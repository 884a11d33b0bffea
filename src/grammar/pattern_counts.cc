#include "grammar/pattern_counts.h"

#include <utility>

namespace vernier {
namespace {

using Kind = PatternNode::Kind;

PatternNode node_of(CountedRun run) {
  PatternNode chars;
  chars.kind = Kind::kChars;
  chars.chars = std::move(run.chars);
  if (run.least == 1 && run.most == 1) return chars;
  PatternNode node;
  node.kind = Kind::kRepeat;
  node.least = run.least;
  node.most = run.most;
  node.children.push_back(std::move(chars));
  return node;
}

/// Whether the lengths of one run, taken `least` to `most` times, leave no gap between them.
bool joins(const CountedRun& run, size_t least, size_t most) {
  if (least == most) return true;
  if (run.most == kUnbounded) return least > 0 || run.least <= 1;
  return multiply_counts(least + 1, run.least) <= multiply_counts(least, run.most) + 1;
}

PatternNode joined_sequence(PatternNode node) {
  PatternNode made;
  std::optional<CountedRun> last;
  auto put = [&](PatternNode child) {
    std::optional<CountedRun> run = counted_run(child);
    if (run && last && run->chars.ranges() == last->chars.ranges()) {
      last->least = add_counts(last->least, run->least);
      last->most = add_counts(last->most, run->most);
      made.children.back() = node_of(*last);
      return;
    }
    last = std::move(run);
    made.children.push_back(std::move(child));
  };
  for (PatternNode& child : node.children) {
    if (child.kind != Kind::kSequence) {
      put(std::move(child));
      continue;
    }
    for (PatternNode& inner : child.children) put(std::move(inner));
  }
  return made.children.size() == 1 ? PatternNode(std::move(made.children[0])) : made;
}

PatternNode joined_choice(PatternNode node) {
  if (node.children.size() == 1) return PatternNode(std::move(node.children[0]));
  CharSet all;
  for (const PatternNode& child : node.children) {
    if (child.kind != Kind::kChars) return node;
    all = all | child.chars;
  }
  return node_of({std::move(all)});
}

}  // namespace

std::optional<CountedRun> counted_run(const PatternNode& node) {
  if (node.kind == Kind::kChars) return CountedRun{node.chars, 1, 1};
  if (node.kind != Kind::kRepeat || node.children[0].kind != Kind::kChars) return std::nullopt;
  return CountedRun{node.children[0].chars, node.least, node.most};
}

PatternNode join_counts(PatternNode node) {
  for (PatternNode& child : node.children) child = join_counts(std::move(child));
  if (node.kind == Kind::kSequence) return joined_sequence(std::move(node));
  if (node.kind == Kind::kChoice) return joined_choice(std::move(node));
  if (node.kind != Kind::kRepeat) return node;
  std::optional<CountedRun> run = counted_run(node.children[0]);
  if (!run || !joins(*run, node.least, node.most)) return node;
  return node_of(
      {std::move(run->chars), multiply_counts(run->least, node.least), multiply_counts(run->most, node.most)});
}

}  // namespace vernier
