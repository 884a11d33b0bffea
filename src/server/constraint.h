#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "server/tool_settings.h"

namespace vernier {

struct ServedModel;
class CompiledGrammar;

/// What an answer must look like, and which field said so.
struct Constraint {
  GrammarSpec spec;
  std::string field;
};

/// Of response_format, structured_outputs, regex, grammar, json_schema; nothing where the answer is free. Two that say
/// different things are refused.
Result<std::optional<Constraint>> read_constraint(const Fields& fields);

/// The same of `text.format` of the Responses API.
Result<std::optional<Constraint>> read_text_format(const Json& format, const std::string& place);

/// With what the tools ask for: forced calls and strict arguments. Forced calls leave no text for a format to rule.
std::optional<Constraint> with_tools(std::optional<Constraint> constraint, const ToolSettings& tools);

/// May take seconds; ends once `wanted`, where it is given, says no. A scripted model writes what its script says: its
/// grammar is checked and not used.
Result<std::shared_ptr<const CompiledGrammar>> compile_constraint(const ServedModel& model, Constraint constraint,
                                                                  bool prompt_opens_reasoning,
                                                                  const std::function<bool()>& wanted = {});

}  // namespace vernier
