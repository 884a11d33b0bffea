#include "grammar/gbnf_rules.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "grammar/rule_graph.h"

namespace vernier {
namespace {

/// Reads rules into a graph of what each needs. Groups become rules without a name.
class GbnfRules {
 public:
  explicit GbnfRules(std::string_view text) : text_(text) {}

  /// False where the text is no GBNF.
  bool read() {
    skip_space();
    while (more()) {
      const std::string_view name = identifier();
      if (name.empty() || !take("::=")) return false;
      const Id id = rule_of(name);
      defined_[id] = true;
      if (!choice(id, 0)) return false;
    }
    for (Id id = 0; id < names_.size(); ++id) {
      if (!names_[id].empty() && !defined_[id]) graph_.add_alternative(id, {});  // the library says that it is missing
    }
    return true;
  }

  /// The name of the first rule without a finite text that an answer may enter; empty where there is none.
  std::string_view endless() const {
    const std::vector<bool> entered = reached();
    for (Id id : graph_.endless()) {
      if (entered[id] && !names_[id].empty()) return names_[id];
    }
    return {};
  }

 private:
  using Id = RuleGraph::RuleId;
  using Needs = std::vector<Id>;

  std::vector<bool> reached() const {
    std::vector<bool> entered(names_.size(), false);
    std::vector<Id> ready;
    auto enter = [&](Id id) {
      if (!entered[id]) ready.push_back(id);
      entered[id] = true;
    };
    if (const auto root = by_name_.find("root"); root != by_name_.end()) enter(root->second);
    while (!ready.empty()) {
      const Id id = ready.back();
      ready.pop_back();
      for (const Id other : names_in_[id]) enter(other);
    }
    return entered;
  }

  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  }

  void skip_space() {
    while (more()) {
      const char c = peek();
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    skip_space();
    return true;
  }

  std::string_view identifier() {
    const size_t begin = at_;
    while (in_name(peek())) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    skip_space();
    return name;
  }

  Id add(std::string_view name) {
    names_.emplace_back(name);
    defined_.push_back(false);
    names_in_.emplace_back();
    return graph_.add();
  }

  Id rule_of(std::string_view name) {
    auto [found, fresh] = by_name_.try_emplace(name, graph_.size());
    if (fresh) add(name);
    return found->second;
  }

  bool choice(Id id, int depth) {
    if (depth > kMostNesting) return false;
    do {
      Needs needs;
      if (!sequence(id, needs, depth)) return false;
      graph_.add_alternative(id, std::move(needs));
    } while (take("|"));
    return true;
  }

  bool sequence(Id id, Needs& needs, int depth) {
    while (more() && peek() != '|' && peek() != ')') {
      Needs element;
      if (peek() == '"' || peek() == '[') {
        if (!skip_text(peek() == '"' ? '"' : ']')) return false;
      } else if (take("(")) {
        const Id group = add({});
        if (!choice(group, depth + 1) || !take(")")) return false;
        element.push_back(group);
      } else {
        const size_t begin = at_;
        const std::string_view name = identifier();
        if (name.empty()) return false;
        if (text_.substr(at_).starts_with("::=")) {
          at_ = begin;  // the next rule
          return true;
        }
        element.push_back(rule_of(name));
      }
      names_in_[id].insert(names_in_[id].end(), element.begin(), element.end());
      bool needed = true;
      if (!quantifier(needed)) return false;
      if (needed) needs.insert(needs.end(), element.begin(), element.end());
    }
    return true;
  }

  bool skip_text(char close) {
    for (++at_; more() && peek() != close; ++at_) at_ += peek() == '\\' ? 1 : 0;
    at_ = std::min(at_, text_.size());  // an escape at the end
    return take(std::string_view(&close, 1));
  }

  /// `needed`: whether at least one must stand there.
  bool quantifier(bool& needed) {
    if (take("?") || take("*")) {
      needed = false;
    } else if (take("{")) {
      const std::string_view least = identifier();
      needed = least.find_first_not_of('0') != std::string_view::npos;
      at_ = text_.find('}', at_);
      if (at_ == std::string_view::npos) {
        at_ = text_.size();
        return false;
      }
      return take("}");
    } else {
      take("+");
    }
    return true;
  }

  static constexpr int kMostNesting = 100;

  std::string_view text_;
  size_t at_ = 0;
  RuleGraph graph_;
  std::vector<std::string_view> names_;  // by id; empty for a group
  std::vector<bool> defined_;
  std::vector<Needs> names_in_;  // by id: the rules that stand in it, also those that may be left out
  std::unordered_map<std::string_view, Id> by_name_;
};

}  // namespace

Status check_finite_rules(std::string_view gbnf) {
  GbnfRules rules(gbnf);
  if (!rules.read()) return {};
  const std::string_view name = rules.endless();
  if (name.empty()) return {};
  return invalid_argument("the rule '{}' of the grammar allows no finite text: it leads back to itself in every way",
                          name.substr(0, 200));
}

}  // namespace vernier
