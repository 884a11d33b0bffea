#include "grammar/text_automaton.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace vernier {
namespace {

constexpr size_t kMostStates = 1000;
constexpr size_t kMostSteps = 50000;  // pairs of edges that are compared, and members of sets of states

Error too_large() {
  return invalid_argument(
      "together these restrictions of a text take more than {} states; shorten the pattern or its counts", kMostStates);
}

/// States with several ways for one character, and ways that read none.
class OpenAutomaton {
 public:
  struct Edge {
    CharSet chars;
    size_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<size_t> free;
  };

  size_t add() {
    states_.emplace_back();
    return states_.size() - 1;
  }
  bool full() const { return states_.size() > 4 * kMostStates; }
  const State& at(size_t state) const { return states_[state]; }

  /// Adds what the node matches from `from` on; returns where it ends.
  size_t add_node(const PatternNode& node, size_t from) {
    if (full()) return from;
    const size_t end = add();
    switch (node.kind) {
      case PatternNode::Kind::kChars:
        states_[from].edges.push_back({node.chars, end});
        break;
      case PatternNode::Kind::kSequence: {
        size_t at = from;
        for (const PatternNode& child : node.children) at = add_node(child, at);
        states_[at].free.push_back(end);
        break;
      }
      case PatternNode::Kind::kChoice:
        for (const PatternNode& child : node.children) {
          const size_t last = add_node(child, from);
          states_[last].free.push_back(end);
        }
        break;
      case PatternNode::Kind::kRepeat:
        add_repeat(node, from, end);
        break;
    }
    return end;
  }

  std::set<size_t> closure(std::set<size_t> states) const {
    std::vector<size_t> waiting(states.begin(), states.end());
    while (!waiting.empty()) {
      const size_t state = waiting.back();
      waiting.pop_back();
      for (size_t next : states_[state].free) {
        if (states.insert(next).second) waiting.push_back(next);
      }
    }
    return states;
  }

 private:
  void add_repeat(const PatternNode& node, size_t from, size_t end) {
    // The body begins in a state of its own: what comes before must not be entered again.
    auto again = [&](size_t at) {
      const size_t begin = add();
      states_[at].free.push_back(begin);
      return begin;
    };
    size_t at = again(from);
    for (size_t i = 0; i < node.least && !full(); ++i) at = again(add_node(node.children[0], at));
    states_[at].free.push_back(end);
    if (node.most == kUnbounded) {
      const size_t last = add_node(node.children[0], at);
      states_[last].free.push_back(at);
      return;
    }
    for (size_t i = node.least; i < node.most && !full(); ++i) {
      at = again(add_node(node.children[0], at));
      states_[at].free.push_back(end);
    }
  }

  std::vector<State> states_;
};

struct Part {
  CharSet chars;
  std::set<size_t> to;
};

/// Cuts the edges of some states into parts that share no character.
bool cut(const OpenAutomaton& open, const std::set<size_t>& states, std::vector<Part>& parts, size_t& steps) {
  for (size_t state : states) {
    for (const OpenAutomaton::Edge& edge : open.at(state).edges) {
      CharSet left = edge.chars;
      const size_t count = parts.size();
      for (size_t i = 0; i < count && !left.empty(); ++i) {
        if (++steps > kMostSteps) return false;
        CharSet shared = parts[i].chars & left;
        if (shared.empty()) continue;
        CharSet others = parts[i].chars & left.complement();
        left = left & parts[i].chars.complement();
        if (!others.empty()) parts.push_back({std::move(others), parts[i].to});
        parts[i].chars = std::move(shared);
        parts[i].to.insert(edge.to);
      }
      if (!left.empty()) parts.push_back({std::move(left), {edge.to}});
    }
  }
  return true;
}

}  // namespace

Result<TextAutomaton> TextAutomaton::of(const PatternNode& pattern) {
  OpenAutomaton open;
  const size_t first = open.add();
  const size_t last = open.add_node(pattern, first);
  if (open.full()) return too_large();
  TextAutomaton made;
  std::map<std::set<size_t>, size_t> known;
  std::vector<std::set<size_t>> waiting;
  size_t steps = 0;
  auto state_of = [&](const std::set<size_t>& states) {
    auto [found, fresh] = known.try_emplace(open.closure(states), made.states_.size());
    if (fresh) {
      made.states_.push_back({{}, found->first.contains(last)});
      waiting.push_back(found->first);
      steps += found->first.size();
    }
    return found->second;
  };
  state_of({first});
  for (size_t i = 0; i < waiting.size(); ++i) {
    std::vector<Part> parts;
    if (!cut(open, std::set<size_t>(waiting[i]), parts, steps)) return too_large();
    std::map<size_t, CharSet> edges;  // one for each target
    for (const Part& part : parts) {
      CharSet& chars = edges[state_of(part.to)];
      chars = chars | part.chars;
    }
    for (auto& [to, chars] : edges) made.states_[i].edges.push_back({std::move(chars), to});
    if (made.states_.size() > kMostStates) return too_large();
  }
  made.trim();
  return made;
}

Result<TextAutomaton> TextAutomaton::of_length(size_t least, size_t most) {
  const size_t counted = most == kUnbounded ? least : most;
  if (counted >= kMostStates) return too_large();
  TextAutomaton made;
  for (size_t i = 0; i <= counted; ++i) {
    made.states_.push_back({{}, i >= least});
    if (i < counted) made.states_[i].edges.push_back({CharSet::all(), i + 1});
  }
  if (most == kUnbounded) made.states_.back().edges.push_back({CharSet::all(), counted});
  return made;
}

Result<TextAutomaton> TextAutomaton::of_words(const std::vector<std::string>& words) {
  PatternNode any;
  any.kind = PatternNode::Kind::kChoice;
  for (const std::string& word : words) {
    PatternNode sequence;
    for (char32_t c : code_points(word)) {
      PatternNode one;
      one.kind = PatternNode::Kind::kChars;
      one.chars = CharSet::of({{c, c}});
      sequence.children.push_back(std::move(one));
    }
    any.children.push_back(std::move(sequence));
  }
  return of(any);
}

bool TextAutomaton::matches(std::string_view text) const {
  if (empty()) return false;
  size_t at = 0;
  for (char32_t c : code_points(text)) {
    auto edge = std::ranges::find_if(states_[at].edges, [&](const Edge& e) { return e.chars.contains(c); });
    if (edge == states_[at].edges.end()) return false;
    at = edge->to;
  }
  return states_[at].accepts;
}

Result<TextAutomaton> TextAutomaton::product(const TextAutomaton& other, bool in_other) const {
  constexpr size_t kOutside = static_cast<size_t>(-1);  // no text of `other` begins so
  TextAutomaton made;
  if (empty()) return made;
  std::map<std::pair<size_t, size_t>, size_t> known;
  std::vector<std::pair<size_t, size_t>> waiting;
  auto state_of = [&](size_t mine, size_t theirs) {
    auto [found, fresh] = known.try_emplace({mine, theirs}, made.states_.size());
    if (fresh) {
      const bool accepted = theirs != kOutside && other.states_[theirs].accepts;
      made.states_.push_back({{}, states_[mine].accepts && accepted == in_other});
      waiting.emplace_back(mine, theirs);
    }
    return found->second;
  };
  state_of(0, other.empty() ? kOutside : 0);
  size_t steps = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const auto [mine, theirs] = waiting[i];
    for (const Edge& edge : states_[mine].edges) {
      CharSet left = edge.chars;
      for (size_t k = 0; theirs != kOutside && k < other.states_[theirs].edges.size(); ++k) {
        if (++steps > kMostSteps) return too_large();
        const Edge& theirs_edge = other.states_[theirs].edges[k];
        CharSet shared = left & theirs_edge.chars;
        if (shared.empty()) continue;
        left = left & shared.complement();
        const size_t to = state_of(edge.to, theirs_edge.to);
        made.states_[i].edges.push_back({std::move(shared), to});
      }
      if (left.empty() || in_other) continue;
      const size_t to = state_of(edge.to, kOutside);
      made.states_[i].edges.push_back({std::move(left), to});
    }
    if (made.states_.size() > kMostStates) return too_large();
  }
  made.trim();
  return made;
}

void TextAutomaton::trim() {
  std::vector<std::vector<size_t>> back(states_.size());
  std::vector<bool> useful(states_.size(), false);
  std::vector<size_t> waiting;
  for (size_t i = 0; i < states_.size(); ++i) {
    for (const Edge& edge : states_[i].edges) back[edge.to].push_back(i);
    if (states_[i].accepts) useful[i] = true, waiting.push_back(i);
  }
  while (!waiting.empty()) {
    const size_t state = waiting.back();
    waiting.pop_back();
    for (size_t before : back[state]) {
      if (!useful[before]) useful[before] = true, waiting.push_back(before);
    }
  }
  if (states_.empty() || !useful[0]) {
    states_.clear();
    return;
  }
  std::vector<size_t> renamed(states_.size(), 0);
  std::vector<State> kept;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (useful[i]) renamed[i] = kept.size(), kept.push_back(std::move(states_[i]));
  }
  for (State& state : kept) {
    std::erase_if(state.edges, [&](const Edge& edge) { return !useful[edge.to]; });
    for (Edge& edge : state.edges) edge.to = renamed[edge.to];
  }
  states_ = std::move(kept);
}

std::string TextAutomaton::write(GbnfWriter& writer, TextContext context, std::string_view end) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < states_.size(); ++i) names.push_back(writer.reserve());
  for (size_t i = 0; i < states_.size(); ++i) {
    std::string text(states_[i].accepts ? end : "");
    for (const Edge& edge : states_[i].edges) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " | ", gbnf_chars(edge.chars, context), names[edge.to]);
    }
    writer.define(names[i], text);
  }
  return names[0];
}

std::string TextAutomaton::write_rest_of_string(GbnfWriter& writer) const {
  return write(writer, TextContext::kJsonString, "\"\\\"\"");
}

std::string TextAutomaton::write_plain(GbnfWriter& writer) const {
  return write(writer, TextContext::kPlain, "\"\"");
}

namespace {

bool repeats_groups(const PatternNode& node) {
  if (node.kind == PatternNode::Kind::kRepeat && node.most > 1 && node.children[0].kind != PatternNode::Kind::kChars) {
    return true;
  }
  return std::ranges::any_of(node.children, repeats_groups);
}

}  // namespace

std::optional<TextAutomaton> small_automaton(const PatternNode& pattern) {
  constexpr size_t kMost = 64;  // each may take the library some milliseconds
  if (!repeats_groups(pattern)) return std::nullopt;
  Result<TextAutomaton> made = TextAutomaton::of(pattern);
  if (!made.ok() || made->empty() || made->states() > kMost) return std::nullopt;
  return std::move(*made);
}

}  // namespace vernier
