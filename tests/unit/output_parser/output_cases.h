#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "output_events.h"

namespace vernier::testing_output {

using Json = nlohmann::ordered_json;

/// What a model means, and how each format writes it.
struct OutputCase {
  std::string name;
  std::string text;
  std::vector<std::pair<std::string, Json>> calls;
  std::string thought;
};

inline std::vector<OutputTool> all_tools() {
  Json weather = Json::parse(R"({"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}, "deep": {"type": "object"},
      "ok": {"type": "boolean"}, "none": {"type": "null"}, "x": {"type": "number"}}})");
  Json set = Json::parse(R"({"type": "object", "properties": {
      "count": {"type": "integer"}, "on": {"type": "boolean"}, "off": {"type": ["null", "boolean"]},
      "list": {"type": "array"}, "code": {"type": "string"}, "big": {"type": "number"}}})");
  return {{"get_weather", weather}, {"get_time", nullptr}, {"set", set}};
}

inline std::vector<OutputCase> all_cases() {
  Json oslo = {{"city", "Oslo"}};
  Json rome = {{"city", "Rome"}, {"days", 2}};
  Json hostile = Json::parse(R"({"city": "Zürich \"Nord\" \\ {a} [b] \n\t東京 😀", "tags": ["}", "]}", "\""],
      "deep": {"k": {"l": {}}}, "days": -3, "ok": true, "none": null, "x": 0.5})");
  return {{"whole", "", {{"get_weather", oslo}}, ""},
          {"two", "", {{"get_weather", oslo}, {"get_weather", rome}}, ""},
          {"hostile", "", {{"get_weather", hostile}}, ""},
          {"empty", "", {{"get_time", Json::object()}}, ""},
          {"long", "", {{"get_weather", {{"city", std::string(3000, 'x')}}}}, ""},
          {"preamble", "Let me look.", {{"get_weather", oslo}}, ""},
          {"text", "The object {\"a\": [1, 2]} and the tag <b> are no call.", {}, ""},
          {"think", "Four.", {}, "Two and two."},
          {"think-call", "Looking.", {{"get_weather", oslo}}, "I need the weather."}};
}

inline std::string spaced(const Json& json) {
  if (json.is_object()) {
    std::string out;
    for (const auto& [key, value] : json.items())
      out += (out.empty() ? "" : ", ") + Json(key).dump() + ": " + spaced(value);
    return "{" + out + "}";
  }
  if (!json.is_array()) return json.dump();
  std::string out;
  for (const Json& item : json) out += (out.empty() ? "" : ", ") + spaced(item);
  return "[" + out + "]";
}

inline std::string write_harmony(const OutputCase& c) {
  std::vector<std::string> steps;
  if (!c.thought.empty()) steps.push_back("<|channel|>analysis<|message|>" + c.thought + "<|end|>");
  if (!c.text.empty() && c.calls.empty()) steps.push_back("<|channel|>final<|message|>" + c.text + "<|return|>");
  if (!c.text.empty() && !c.calls.empty()) steps.push_back("<|channel|>commentary<|message|>" + c.text + "<|end|>");
  for (const auto& [name, arguments] : c.calls) {
    steps.push_back("<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + spaced(arguments) +
                    "<|call|>");
  }
  std::string out;
  for (const std::string& step : steps) out += (out.empty() ? "" : "<|start|>assistant") + step;
  return out;
}

inline std::string write_xml(const std::string& name, const Json& arguments) {
  std::string out = "<function=" + name + ">\n";
  for (const auto& [key, value] : arguments.items()) {
    out += "<parameter=" + key + ">\n" + (value.is_string() ? value.get<std::string>() : spaced(value)) +
           "\n</parameter>\n";
  }
  return out + "</function>";
}

inline std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out.append(i == 0 ? "" : between).append(parts[i]);
  return out;
}

/// The output of a model of the format that means the case.
inline std::string write_case(OutputFormat format, const OutputCase& c) {
  if (format == OutputFormat::kHarmony) return write_harmony(c);
  std::string out = c.thought.empty() ? "" : "<think>\n" + c.thought + "\n</think>\n\n";
  out += c.text;
  if (c.calls.empty()) return out;
  std::vector<std::string> bodies;
  for (const auto& [name, arguments] : c.calls) {
    std::string key = format == OutputFormat::kLlama3 ? "parameters" : "arguments";
    bodies.push_back("{\"name\": \"" + name + "\", \"" + key + "\": " + spaced(arguments) + "}");
    if (format == OutputFormat::kQwen3Coder) bodies.back() = write_xml(name, arguments);
    if (format == OutputFormat::kDeepseekV3) {
      bodies.back() = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" + spaced(arguments) +
                      "\n```<｜tool▁call▁end｜>";
    }
  }
  switch (format) {
    case OutputFormat::kLlama3:
      return out + (c.text.empty() ? "" : "<|python_tag|>") + join(bodies, "; ");
    case OutputFormat::kMistral:
      return out + "[TOOL_CALLS][" + join(bodies, ", ") + "]";
    case OutputFormat::kDeepseekV3:
      return out + "<｜tool▁calls▁begin｜>" + join(bodies, "\n") + "<｜tool▁calls▁end｜>";
    default:
      for (std::string& body : bodies) body = "<tool_call>\n" + body + "\n</tool_call>";
      return out + (c.text.empty() ? "" : "\n") + join(bodies, "\n");
  }
}

inline const std::vector<OutputFormat>& call_formats() {
  static const std::vector<OutputFormat> formats = {
      OutputFormat::kHermes,     OutputFormat::kQwen3,   OutputFormat::kQwen3Coder, OutputFormat::kLlama3,
      OutputFormat::kDeepseekV3, OutputFormat::kMistral, OutputFormat::kHarmony};
  return formats;
}

inline bool applies(OutputFormat format, const OutputCase& c) {
  bool thinks =
      format == OutputFormat::kQwen3 || format == OutputFormat::kDeepseekV3 || format == OutputFormat::kHarmony;
  return thinks || c.thought.empty();
}

}  // namespace vernier::testing_output
