#pragma once

#include <string>
#include <vector>

#include "grammar/grammar_spec.h"
#include "server/request_fields.h"
#include "text/output_parser.h"

namespace vernier {

/// What a request says of tools, in chat's words.
struct ToolSettings {
  Json prompt_tools = Json::array();  ///< as templates take them; empty: the prompt shows none
  std::vector<OutputTool> callable;   ///< those that may be called; empty: text that looks like a call stays text
  std::vector<bool> strict;           ///< [callable] the schema of the arguments is enforced
  ToolChoice choice = ToolChoice::kAuto;
  std::string named;  ///< under kNamed
  bool parallel = true;
  bool legacy = false;  ///< asked for by `functions`: answered by `function_call`

  bool forced() const { return choice != ToolChoice::kAuto; }
};

/// Of `tools`, `tool_choice`, `parallel_tool_calls`, and of `functions`, `function_call`.
Result<ToolSettings> read_tools(const Fields& fields);

/// Tools of the Responses API, which have no "function" around them, in chat's form.
Result<Json> chat_form_of_tools(const Json& tools);
Json chat_form_of_choice(const Json& choice);

/// A system text that shows tools and how to call them, for a template that knows of none.
std::string describe_tools(const Json& tools);

}  // namespace vernier
