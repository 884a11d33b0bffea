#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/module_pattern.h"
#include "checkpoint/weight_scheme.h"

namespace vernier {

/// Which layers of a checkpoint are quantised and how, as one source of its configuration has it. Plain data; empty for
/// checkpoints that are not quantised, or whose tensors say it themselves (GGUF).
struct QuantPlan {
  struct Rule {
    std::string name;  ///< "group_0"; empty where there is one rule for all
    WeightScheme scheme;
  };

  std::string origin;  ///< "quantization_config"; empty: no quantisation
  std::vector<Rule> rules;
  std::unordered_map<std::string, size_t> listed;          ///< modules by name without wrappers -> rule
  std::vector<std::pair<ModulePattern, size_t>> patterns;  ///< then the first of these
  std::optional<size_t> every_linear;                      ///< then every layer that is not excluded
  std::vector<ModulePattern> excluded;                     ///< before all of them
  std::string excluded_key;                                ///< "modules_to_not_convert"
  bool patterns_are_own = false;                           ///< known of the dialect, not entries of the configuration
  bool parts_may_differ = false;                           ///< parts of a fused weight are decided one by one
  bool only_if_stored = false;                             ///< every module without scales was left as it was
  std::optional<std::string> cache;  ///< "fp8", "nvfp4": what its cache scales were made for; "": 16 bits, said so

  bool empty() const { return origin.empty(); }
  /// A module's name has no ".weight" at its end.
  WeightDecision decide(std::string_view module) const;
};

/// What two sources say of the same layers: an error that names the first layer about which they disagree.
Status check_agreement(const QuantPlan& a, const QuantPlan& b, const std::vector<std::string>& modules);
/// Entries of the exclusion list, and targets of rules, that no module of the checkpoint is called by.
std::vector<std::string> unmatched_entries(const QuantPlan& plan, const std::vector<std::string>& modules);

}  // namespace vernier
