#include "text/jinja_template.h"

#include <exception>

#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_unicode.h"

namespace vernier {
namespace {

Error to_error(const jinja::Failure& failure, int line) {
  if (failure.raised) return {ErrorCode::kInvalidArgument, failure.message, std::string(kRaisedByTemplate)};
  return {ErrorCode::kInvalidArgument, failure.message,
          fmt::format("template, line {}", failure.line ? failure.line : line)};
}

/// Python cannot write a lone surrogate as UTF-8 either.
bool has_surrogate(std::string_view text) {
  for (size_t at = text.find('\xed'); at != std::string_view::npos; at = text.find('\xed', at + 1)) {
    if (at + 1 < text.size() && static_cast<uint8_t>(text[at + 1]) >= 0xa0) return true;
  }
  return false;
}

/// Where the first byte stands that is not UTF-8; npos if there is none.
size_t find_bad_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (jinja::next_code(text, at) >= 0x80 && at == start + 1) return start;
  }
  return std::string_view::npos;
}

}  // namespace

Result<JinjaTemplate> JinjaTemplate::parse(std::string_view source) {
  if (const size_t bad = find_bad_byte(source); bad != std::string_view::npos) {
    return invalid_argument("found byte {} of the template that is not UTF-8, expected UTF-8 text", bad);
  }
  try {
    return JinjaTemplate(jinja::parse_program(source));
  } catch (const jinja::Failure& failure) {
    return to_error(failure, 1);
  } catch (const std::exception& error) {
    return Error{ErrorCode::kOutOfMemory, std::string("cannot parse the template: ") + error.what(), {}};
  }
}

Result<Rendered> JinjaTemplate::render(const std::vector<Variable>& variables, const CivilTime& now,
                                       const jinja::Limits& limits) const {
  const auto lookup = [&](jinja::Interpreter& in, const std::string& name) -> jinja::Value {
    for (auto variable = variables.rbegin(); variable != variables.rend(); ++variable) {
      if (variable->name == name) return jinja::from_json(in.heap(), *variable->value, variable->from_caller);
    }
    return {};
  };
  try {
    jinja::Interpreter interpreter(*program_, limits, now, lookup);
    try {
      Rendered rendered;
      interpreter.run(rendered.text, rendered.caller_ranges);
      if (has_surrogate(rendered.text))
        jinja::fail("the text holds half of a surrogate pair, which is not a character");
      return rendered;
    } catch (const jinja::Failure& failure) {
      return to_error(failure, interpreter.line());
    }
  } catch (const std::exception& error) {
    return Error{ErrorCode::kOutOfMemory, std::string("cannot render the template: ") + error.what(), {}};
  }
}

Result<Rendered> JinjaTemplate::render(const nlohmann::ordered_json& context, bool from_caller, const CivilTime& now,
                                       const jinja::Limits& limits) const {
  if (!context.is_object()) return invalid_argument("found a context that is not a JSON object, expected one");
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, &value, from_caller});
  return render(variables, now, limits);
}

}  // namespace vernier
