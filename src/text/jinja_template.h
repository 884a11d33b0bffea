#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/civil_time.h"
#include "text/jinja_value.h"

namespace vernier {

namespace jinja {
struct Program;
}

/// A text and the bytes of it that came from a caller, not from the template.
struct Rendered {
  std::string text;
  std::vector<ByteRange> caller_ranges;
};

/// The `where` of an Error whose message is the template's own, given to raise_exception().
inline constexpr std::string_view kRaisedByTemplate = "raise_exception";

/// A Jinja template as transformers sets Jinja up: sandboxed and immutable, trim_blocks, lstrip_blocks, loop controls,
/// the generation tag, its own tojson, raise_exception and strftime_now. Immutable and safe to share between threads.
/// Refuses what reaches outside of the template (include, import, extends) where it is executed, and ends with a
/// message when it takes too many steps, too much memory or too deep a recursion.
class JinjaTemplate {
 public:
  struct Variable {
    std::string_view name;
    const nlohmann::ordered_json* value;
    bool from_caller;  ///< its texts are marked
  };

  static Result<JinjaTemplate> parse(std::string_view source);
  /// Later variables of the same name win.
  Result<Rendered> render(const std::vector<Variable>& variables, const CivilTime& now,
                          const jinja::Limits& limits = {}) const;
  /// Every variable an object's field, none or all of them from a caller.
  Result<Rendered> render(const nlohmann::ordered_json& context, bool from_caller, const CivilTime& now,
                          const jinja::Limits& limits = {}) const;

 private:
  explicit JinjaTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace vernier
