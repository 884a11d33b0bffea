#pragma once

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// One entry of a list of modules, as quantisation tools write them: a name, a part of one, a wildcard or a regular
/// expression.
///
/// - "lm_head", "self_attn.o_proj", "model.layers.3": whole components in a row, anywhere in the name; so a module
///   takes all below it with it. "gate" is not "gate_proj".
/// - "model.layers.0*", "*mlp.gate": `*` and `?` match dots, too.
/// - "re:.*layers\.1\..*": matches from the start of the name, not to its end.
///
/// Wrappers in front ("model.language_model.") may differ on either side, and the name of a fused weight (qkv_proj,
/// gate_up_proj) stands for its parts. Hostile expressions cost bounded time. Immutable.
class ModulePattern {
 public:
  /// Refuses an empty entry and an expression that cannot be read.
  static Result<ModulePattern> make(const std::string& text);

  bool matches(std::string_view module) const;
  const std::string& text() const { return text_; }

 private:
  bool matches_one(std::string_view module) const;
  bool matches_glob(std::string_view module) const;

  std::string text_;
  std::vector<std::string> parts_;  // without wrappers in front
  std::string core_;                // the same, joined
  bool had_wrappers_ = false;
  bool is_glob_ = false;
  std::shared_ptr<const std::regex> expression_;
};

/// A module's name without the wrappers in front: "layers.0.mlp" of "model.language_model.layers.0.mlp". The name
/// itself where nothing else is left.
std::string_view without_wrappers(std::string_view module);
/// "x.qkv_proj" for "x.q_proj"; nothing for parts that no one fuses.
std::optional<std::string> fused_name(std::string_view module);

}  // namespace vernier
