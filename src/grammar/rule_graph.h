#pragma once

#include <cstddef>
#include <vector>

namespace vernier {

/// What each rule of a grammar needs: finds rules that no finite text satisfies, and rules that mean themselves.
class RuleGraph {
 public:
  using RuleId = size_t;

  RuleId add();
  size_t size() const { return alternatives_.size(); }
  /// One way to satisfy the rule: all of `needs`. A rule without an alternative cannot be satisfied.
  void add_alternative(RuleId rule, std::vector<RuleId> needs);
  /// The rule may be just the other one, with nothing around it.
  void add_unit(RuleId rule, RuleId other) { units_[rule].push_back(other); }

  /// The rules that have no finite text, in order.
  std::vector<RuleId> endless() const;
  /// The rules that lead back to themselves with nothing around them, in order.
  std::vector<RuleId> circular() const;

 private:
  std::vector<std::vector<std::vector<RuleId>>> alternatives_;
  std::vector<std::vector<RuleId>> units_;
};

}  // namespace vernier
