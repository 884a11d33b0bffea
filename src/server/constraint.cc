#include "server/constraint.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/grammar_compiler.h"
#include "server/served_model.h"

namespace vernier {
namespace {

bool is_schema_name(const Json& name) {
  if (!name.is_string()) return false;
  const auto& text = name.get_ref<const std::string&>();
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, fits);
}

Result<GrammarSpec> schema_spec(const Json& schema, const std::string& place) {
  if (!schema.is_object() && !schema.is_boolean()) {
    return bad_field(place, "{} is {}, expected a JSON schema", place, describe_json(schema));
  }
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kJsonSchema;
  spec.text = schema.dump();
  return spec;
}

/// {"name", "schema", "strict"}. The published form allows a missing schema: any object then.
Result<GrammarSpec> named_schema(const Json& named, const std::string& place) {
  if (!named.is_object()) return bad_field(place, "{} is missing, expected an object", place);
  if (!is_schema_name(named.value("name", Json()))) {
    return bad_field(place + ".name", "{}.name is missing or not 1 to 64 letters, digits, _ or -", place);
  }
  const Json strict = named.value("strict", Json());
  if (!strict.is_null() && !strict.is_boolean()) {
    return bad_field(place + ".strict", "{}.strict is neither true nor false", place);
  }
  const Json schema = named.value("schema", Json());
  if (schema.is_null()) return GrammarSpec{};
  return schema_spec(schema, place + ".schema");
}

Result<std::optional<GrammarSpec>> format_spec(const Json& format, const std::string& place, bool flat) {
  const Json type = format.is_object() ? format.value("type", Json()) : Json();
  if (type == "text") return std::optional<GrammarSpec>{};
  if (type == "json_object") return std::optional(GrammarSpec{});
  if (type == "json_schema") {
    const Json& inner = flat ? format : format.contains("json_schema") ? format["json_schema"] : Json();
    TRY_BIND(GrammarSpec spec, named_schema(inner, flat ? place : place + ".json_schema"));
    return std::optional(std::move(spec));
  }
  return bad_field(place + ".type", "{}.type is {}, expected text, json_object or json_schema", place,
                   type.dump().substr(0, 80));
}

GrammarSpec text_spec(GrammarSpec::Kind kind, std::string text) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  return spec;
}

Result<GrammarSpec> choice_spec(const Json& choices, const std::string& place) {
  if (choices.empty()) return bad_field(place, "{} is empty, expected at least one string", place);
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kChoice;
  for (const Json& choice : choices) {
    if (!choice.is_string()) return bad_field(place, "{} holds {}, expected strings", place, describe_json(choice));
    spec.choices.push_back(choice.get<std::string>());
  }
  return spec;
}

Result<GrammarSpec> structured_spec(const Json& value, const std::string& place) {
  if (value.size() != 1)
    return bad_field(place, "{} has {} members, expected one of json, regex, choice, grammar, json_object", place,
                     value.size());
  const std::string key = value.begin().key();
  const Json& inner = value.begin().value();
  const std::string where = place + "." + key;
  if (key == "json") {
    if (!inner.is_string()) return schema_spec(inner, where);
    TRY_BIND(Json schema, parse_body(inner.get_ref<const std::string&>()));
    return schema_spec(schema, where);
  }
  if (key == "json_object" && inner == true) return GrammarSpec{};
  if (key == "choice" && inner.is_array() && !inner.empty()) return choice_spec(inner, where);
  if (key == "regex" && inner.is_string()) return text_spec(GrammarSpec::Kind::kRegex, inner.get<std::string>());
  if (key == "grammar" && inner.is_string()) return text_spec(GrammarSpec::Kind::kEbnf, inner.get<std::string>());
  return bad_field(where, "{} is not understood, expected json, regex, choice, grammar or json_object", where);
}

Result<GrammarSpec> schema_text_spec(const Json& value, const std::string& place) {
  if (!value.is_string()) return schema_spec(value, place);
  auto schema = parse_body(value.get_ref<const std::string&>());
  if (!schema.ok()) return bad_field(place, "{} is no JSON schema: {}", place, schema.error().message);
  return schema_spec(*schema, place);
}

bool has_reasoning(OutputFormat format) {
  return format == OutputFormat::kQwen3 || format == OutputFormat::kDeepseekV3 || format == OutputFormat::kHarmony;
}

}  // namespace

Result<std::optional<Constraint>> read_constraint(const Fields& fields) {
  std::optional<Constraint> found;
  auto add = [&](const char* name, GrammarSpec spec) -> Status {
    const std::string place = fields.spelling(name);
    if (found)
      return bad_field(place, "{} and {} both say what the answer must look like; give one", found->field, place);
    found = Constraint{std::move(spec), place};
    return {};
  };
  if (const Json* format = fields.find("response_format")) {
    TRY_BIND(auto spec, format_spec(*format, fields.spelling("response_format"), false));
    if (spec) TRY_STATUS(add("response_format", std::move(*spec)));
  }
  if (const Json* value = fields.find("structured_outputs")) {
    TRY_BIND(GrammarSpec spec, structured_spec(*value, fields.spelling("structured_outputs")));
    TRY_STATUS(add("structured_outputs", std::move(spec)));
  }
  // The guided_ ones are vLLM's.
  for (const char* name : {"regex", "guided_regex"}) {
    if (auto text = fields.text(name)) TRY_STATUS(add(name, text_spec(GrammarSpec::Kind::kRegex, std::move(*text))));
  }
  for (const char* name : {"grammar", "guided_grammar"}) {
    if (auto text = fields.text(name)) TRY_STATUS(add(name, text_spec(GrammarSpec::Kind::kEbnf, std::move(*text))));
  }
  for (const char* name : {"json_schema", "guided_json"}) {
    const Json* schema = fields.find(name);
    if (schema == nullptr) continue;
    TRY_BIND(GrammarSpec spec, schema_text_spec(*schema, fields.spelling(name)));
    TRY_STATUS(add(name, std::move(spec)));
  }
  if (const Json* choices = fields.find("guided_choice")) {
    TRY_BIND(GrammarSpec spec, choice_spec(*choices, fields.spelling("guided_choice")));
    TRY_STATUS(add("guided_choice", std::move(spec)));
  }
  if (fields.flag("guided_json_object")) TRY_STATUS(add("guided_json_object", GrammarSpec{}));
  return found;
}

Result<std::optional<Constraint>> read_text_format(const Json& format, const std::string& place) {
  TRY_BIND(auto spec, format_spec(format, place, true));
  if (!spec) return std::optional<Constraint>{};
  return std::optional(Constraint{std::move(*spec), place});
}

std::optional<Constraint> with_tools(std::optional<Constraint> constraint, const ToolSettings& tools) {
  const bool any_strict = std::ranges::find(tools.strict, true) != tools.strict.end();
  if (tools.callable.empty() || (!tools.forced() && (constraint || !any_strict))) return constraint;
  Constraint calls;
  calls.field = tools.legacy ? "functions" : "tools";
  calls.spec.kind = GrammarSpec::Kind::kToolCalls;
  calls.spec.tools.choice = tools.choice;
  calls.spec.tools.named = tools.named;
  calls.spec.tools.parallel = tools.parallel;
  for (size_t i = 0; i < tools.callable.size(); ++i) {
    const OutputTool& tool = tools.callable[i];
    calls.spec.tools.functions.push_back(
        {tool.name, tool.parameters.is_null() ? "" : tool.parameters.dump(), tools.forced() || tools.strict[i]});
  }
  return calls;
}

Result<std::shared_ptr<const CompiledGrammar>> compile_constraint(const ServedModel& model, Constraint constraint,
                                                                  bool prompt_opens_reasoning,
                                                                  const std::function<bool()>& wanted) {
  if (model.grammars == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 constraint.field + " asks for structured output, which this server does not have", constraint.field};
  }
  const bool calls = constraint.spec.kind == GrammarSpec::Kind::kToolCalls;
  const OutputFormat format = calls ? model.tool_format : model.format;
  auto dialect = parse_output_dialect(output_format_name(format));
  if (!dialect.ok()) return Error{ErrorCode::kUnsupported, dialect.error().message, constraint.field};
  constraint.spec.dialect = *dialect;
  if (has_reasoning(format) && model.parse_reasoning) {
    constraint.spec.reasoning = prompt_opens_reasoning ? ReasoningPrefix::kOpen : ReasoningPrefix::kOptional;
  }
  auto compiled = model.grammars->compile(constraint.spec, wanted);
  if (compiled.ok()) return compiled;
  Error error = compiled.error();
  error.message = error.where.empty() ? fmt::format("{}: {}", constraint.field, error.message)
                                      : fmt::format("{} at {}: {}", constraint.field, error.where, error.message);
  error.where = constraint.field;
  return error;
}

}  // namespace vernier
