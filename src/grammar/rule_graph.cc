#include "grammar/rule_graph.h"

#include <algorithm>

namespace vernier {

RuleGraph::RuleId RuleGraph::add() {
  alternatives_.emplace_back();
  units_.emplace_back();
  return alternatives_.size() - 1;
}

void RuleGraph::add_alternative(RuleId rule, std::vector<RuleId> needs) {
  alternatives_[rule].push_back(std::move(needs));
}

std::vector<RuleGraph::RuleId> RuleGraph::endless() const {
  // Work backwards from the rules that need nothing; each need is looked at once.
  struct Alternative {
    RuleId rule;
    size_t waits;
  };
  std::vector<Alternative> alternatives;
  std::vector<std::vector<size_t>> waiting(size());  // alternatives that wait for a rule
  std::vector<bool> finite(size(), false);
  std::vector<RuleId> ready;
  auto mark = [&](RuleId rule) {
    if (!finite[rule]) ready.push_back(rule);
    finite[rule] = true;
  };
  for (RuleId rule = 0; rule < size(); ++rule) {
    for (const std::vector<RuleId>& needs : alternatives_[rule]) {
      for (RuleId need : needs) waiting[need].push_back(alternatives.size());
      alternatives.push_back({rule, needs.size()});
      if (needs.empty()) mark(rule);
    }
  }
  while (!ready.empty()) {
    RuleId rule = ready.back();
    ready.pop_back();
    for (size_t alternative : waiting[rule]) {
      if (--alternatives[alternative].waits == 0) mark(alternatives[alternative].rule);
    }
  }
  std::vector<RuleId> found;
  for (RuleId rule = 0; rule < size(); ++rule) {
    if (!finite[rule]) found.push_back(rule);
  }
  return found;
}

std::vector<RuleGraph::RuleId> RuleGraph::circular() const {
  // Takes away, again and again, the rules that lead nowhere; what stays leads to a circle.
  std::vector<size_t> leads(size(), 0);
  std::vector<std::vector<RuleId>> back(size());
  for (RuleId rule = 0; rule < size(); ++rule) {
    leads[rule] = units_[rule].size();
    for (RuleId other : units_[rule]) back[other].push_back(rule);
  }
  std::vector<RuleId> ready;
  for (RuleId rule = 0; rule < size(); ++rule) {
    if (leads[rule] == 0) ready.push_back(rule);
  }
  while (!ready.empty()) {
    RuleId rule = ready.back();
    ready.pop_back();
    for (RuleId other : back[rule]) {
      if (--leads[other] == 0) ready.push_back(other);
    }
  }
  std::vector<RuleId> found;
  for (RuleId rule = 0; rule < size(); ++rule) {
    if (leads[rule] > 0) found.push_back(rule);
  }
  return found;
}

}  // namespace vernier
