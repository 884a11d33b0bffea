#include <fmt/format.h>

#include <algorithm>

#include "grammar/dialect_writer.h"
#include "grammar/grammar_compiler.h"
#include "grammar/schema_writer.h"

namespace vernier {
namespace {

bool is_function_name(std::string_view name) {
  auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 128 && std::ranges::all_of(name, allowed);
}

/// Whether the texts of the schema go into XML bare: it is unrestricted text, or text or null.
bool is_free_text(const SchemaJson& schema) {
  if (!schema.is_object()) return false;
  auto only = [](const SchemaJson& type) { return type == "string" || type == "null"; };
  auto has_string = [](const SchemaJson& types) {
    return std::ranges::find(types, SchemaJson("string")) != types.end();
  };
  if (!other_assertion(schema, {"type"}) && schema.contains("type")) {
    const SchemaJson& type = schema["type"];
    return type == "string" || (type.is_array() && std::ranges::all_of(type, only) && has_string(type));
  }
  if (other_assertion(schema, {"anyOf"}) || !schema.contains("anyOf") || !schema["anyOf"].is_array()) return false;
  bool text = false;
  for (const SchemaJson& branch : schema["anyOf"]) {
    const bool null = branch == SchemaJson{{"type", "null"}};
    text = text || (!null && is_free_text(branch));
    if (!null && !is_free_text(branch)) return false;
  }
  return text;
}

/// A list of texts to choose from.
bool is_text_choice(const SchemaJson& schema) {
  return schema.is_object() && schema.contains("enum") && schema["enum"].is_array() && !schema["enum"].empty() &&
         !other_assertion(schema, {"enum", "type"}) &&
         std::ranges::all_of(schema["enum"], [](const SchemaJson& value) { return value.is_string(); });
}

bool may_be_text(const SchemaJson& schema) {
  if (!schema.is_object()) return schema == SchemaJson(true);
  if (!schema.contains("type")) return true;
  const SchemaJson& type = schema["type"];
  return type == "string" || (type.is_array() && std::ranges::find(type, SchemaJson("string")) != type.end());
}

}  // namespace

Result<std::vector<DialectWriter::Function>> DialectWriter::read_functions(const ToolCalls& tools,
                                                                           const GrammarLimits& limits) {
  std::vector<Function> found;
  for (size_t i = 0; i < tools.functions.size(); ++i) {
    const GrammarFunction& function = tools.functions[i];
    auto at_function = [&](const Error& error) {
      Error placed = error;
      const std::string inner = error.where.starts_with("#") ? error.where.substr(1) : "";
      placed.where = fmt::format("#/tools/{}/function/parameters{}", i, inner);
      return placed;
    };
    if (tools.choice == ToolChoice::kNamed && function.name != tools.named) continue;
    if (!is_function_name(function.name)) {
      return schema_error(fmt::format("/tools/{}/function/name", i),
                          "'{}' is no function name: letters, digits, _ - . ", function.name.substr(0, 100));
    }
    const bool strict = function.strict || tools.choice != ToolChoice::kAuto;
    Function entry{function.name, {}, {}};
    if (dialect_ == OutputDialect::kQwen3Coder) {
      Result<std::string> parameters = xml_parameters(function, limits, strict);
      if (!parameters.ok()) return at_function(parameters.error());
      entry.parameters = *parameters;
    } else if (function.parameters.empty()) {
      entry.arguments = writer_.rule(fmt::format("\"{{\" {} \"}}\"", writer_.space()));
    } else if (!strict) {
      entry.arguments = writer_.any_object();
    } else {
      Result<SchemaDocument> document = SchemaDocument::parse(function.parameters, limits.nesting);
      if (!document.ok()) return at_function(document.error());
      Result<std::string> arguments = SchemaWriter(*document, writer_, limits.rules).write(/*object_only=*/true);
      if (!arguments.ok()) return at_function(arguments.error());
      entry.arguments = *arguments;
    }
    found.push_back(std::move(entry));
  }
  if (found.empty()) {
    return tools.choice == ToolChoice::kNamed ? invalid_argument("no function is called '{}'", tools.named)
                                              : invalid_argument("tool calls need at least one function");
  }
  return found;
}

/// <parameter=key>, the value, </parameter>: texts bare, all else as JSON.
Result<std::string> DialectWriter::xml_parameters(const GrammarFunction& function, const GrammarLimits& limits,
                                                  bool strict) {
  const std::string close = "\"\\n</parameter>\\n\"";
  if (function.parameters.empty()) return std::string("\"\"");
  const std::string bare = writer_.text_up_to("</parameter>");
  if (!strict) {
    return writer_.rule(fmt::format("(\"<parameter=\" [A-Za-z0-9_.-]{{1,128}} \">\\n\" {} \"\\n\")*", bare));
  }
  TRY_BIND(SchemaDocument document, SchemaDocument::parse(function.parameters, limits.nesting));
  const SchemaJson& schema = document.root();
  if (!schema.is_object() || other_assertion(schema, {"type", "properties", "required", "additionalProperties"}) ||
      (schema.contains("type") && schema["type"] != "object")) {
    return schema_error("", "for this model the parameters are an object with properties, nothing around it");
  }
  SchemaWriter writer(document, writer_, limits.rules);
  TRY_STATUS(writer.write(/*object_only=*/true));
  const SchemaJson properties = schema.value("properties", SchemaJson::object());
  const SchemaJson required = schema.value("required", SchemaJson::array());
  std::string text;
  for (const auto& [key, value] : properties.items()) {
    const std::string at = pointer_to("/properties", key);
    if (value == SchemaJson(false)) continue;
    if (!is_function_name(key)) return schema_error(at, "a parameter of this model is named by letters, digits, _ - .");
    std::string body;
    if (is_free_text(value)) {
      body = bare + " \"\\n\"";
    } else if (is_text_choice(value)) {
      std::vector<std::string> choices;
      for (const SchemaJson& choice : value["enum"]) choices.push_back(gbnf_literal(choice.get<std::string>()));
      body = any_of(choices) + " " + close;
    } else if (may_be_text(value)) {
      return schema_error(at, "for this model a text is free, or one of an enum; write \"type\" for other values");
    } else {
      TRY_BIND(std::string rule, writer.write_part(at));
      body = rule + " " + close;
    }
    const bool needed = std::ranges::find(required, SchemaJson(key)) != required.end();
    text += fmt::format("(\"<parameter={}>\\n\" {}){} ", key, body, needed ? "" : "?");
  }
  return text.empty() ? std::string("\"\"") : writer_.rule(text);
}

std::string DialectWriter::named_object(const Function& function, std::string_view arguments_key) {
  const std::string s = writer_.space();
  return fmt::format("\"{{\" {0} \"\\\"name\\\"\" {0} \":\" {0} {1} {0} \",\" {0} {2} {0} \":\" {0} {3} {0} \"}}\"", s,
                     gbnf_literal("\"" + function.name + "\""), gbnf_literal("\"" + std::string(arguments_key) + "\""),
                     function.arguments);
}

std::string DialectWriter::llama_calls(const std::vector<Function>& functions, bool parallel) {
  std::vector<std::string> objects;
  for (const Function& function : functions) objects.push_back(named_object(function, "parameters"));
  const std::string call = any_of(objects);
  return parallel ? fmt::format("{0} (\"; \" {0})*", call) : call;
}

std::string DialectWriter::json_call_list(const std::vector<Function>& functions, bool parallel) {
  std::vector<std::string> objects;
  for (const Function& function : functions) objects.push_back(named_object(function, "arguments"));
  const std::string s = writer_.space();
  const std::string call = any_of(objects);
  return parallel ? fmt::format("\"[\" {0} {1} ({0} \",\" {0} {1})* {0} \"]\"", s, call)
                  : fmt::format("\"[\" {0} {1} {0} \"]\"", s, call);
}

std::string DialectWriter::calls_after_begin(const std::vector<Function>& functions, bool parallel) {
  std::vector<std::string> calls;
  switch (dialect_) {
    case OutputDialect::kQwen3Coder:
      for (const Function& f : functions) {
        calls.push_back(fmt::format("\"\\n<function={}>\\n\" {} \"</function>\\n\" {}", f.name, f.parameters,
                                    marker("</tool_call>")));
      }
      return any_of(calls);
    case OutputDialect::kDeepSeekV3: {
      for (const Function& f : functions) {
        calls.push_back(fmt::format("{} \"function\" {} {} {} \"\\n```\" {}", marker("<｜tool▁call▁begin｜>"),
                                    marker("<｜tool▁sep｜>"), gbnf_literal(f.name + "\n```json\n"), f.arguments,
                                    marker("<｜tool▁call▁end｜>")));
      }
      const std::string call = any_of(calls);
      return fmt::format("{} {} {}", call, parallel ? fmt::format("(\"\\n\"? {})*", call) : "",
                         marker("<｜tool▁calls▁end｜>"));
    }
    case OutputDialect::kMistral: {
      const std::string list = json_call_list(functions, parallel);
      if (!vocabulary_.find_marker("[ARGS]")) return list;
      // The later spelling: a name, its marker, the arguments; the begin marker again before each further call.
      for (const Function& f : functions) {
        calls.push_back(fmt::format("{} {} {}", gbnf_literal(f.name), marker("[ARGS]"), f.arguments));
      }
      const std::string call = any_of(calls);
      return fmt::format("{} | {}{}", list, call,
                         parallel ? fmt::format(" ({} {})*", marker("[TOOL_CALLS]"), call) : "");
    }
    default:
      for (const Function& f : functions) {
        calls.push_back(fmt::format("\"\\n\"? {} \"\\n\"? {}", named_object(f, "arguments"), marker("</tool_call>")));
      }
      return any_of(calls);
  }
}

}  // namespace vernier
