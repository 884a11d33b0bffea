#include <algorithm>

#include "grammar/pattern_counts.h"
#include "grammar/schema_writer.h"

namespace vernier {
namespace {

constexpr size_t kMostCountedChars = 100000;  // of a text that nothing but its lengths makes so long

struct LengthRange {
  size_t low = 0;
  size_t high = kUnbounded;
};

Result<LengthRange> length_range(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(std::optional<size_t> least, schema_count(schema, pointer, "minLength"));
  TRY_BIND(std::optional<size_t> most, schema_count(schema, pointer, "maxLength"));
  LengthRange range{least.value_or(0), most.value_or(kUnbounded)};
  if (range.low > range.high) return schema_error(pointer_to(pointer, "minLength"), "minLength is above maxLength");
  if (range.low > kMostCountedChars) {
    return schema_error(pointer_to(pointer, "minLength"), "minLength is {}, at most {} are supported", range.low,
                        kMostCountedChars);
  }
  return range;
}

Result<std::string> format_text(const SchemaJson& format, const std::string& at) {
  if (!format.is_string()) return schema_error(at, "'format' is a text");
  const std::string name = format.get<std::string>();
  std::optional<std::string_view> known = format_pattern(name);
  if (!known) {
    return schema_error(at,
                        "the format '{}' cannot be enforced; supported are date, time, date-time, duration, email, "
                        "hostname, ipv4, ipv6, uuid, uri, json-pointer",
                        name.substr(0, 100));
  }
  return std::string(*known);
}

/// `pattern`, which is a list where schemas were joined, and `format`.
Result<std::vector<PatternNode>> patterns_of(const SchemaJson& schema, const std::string& pointer) {
  std::vector<PatternNode> patterns;
  auto add = [&](const std::string& text, PatternUse use, const char* keyword) -> Status {
    Result<PatternNode> pattern = parse_pattern(text, use);
    if (!pattern.ok()) return schema_error(pointer_to(pointer, keyword), "{}", pattern.error().message);
    patterns.push_back(join_counts(std::move(*pattern)));
    return {};
  };
  if (schema.contains("pattern")) {
    if (schema["pattern"].is_array() && !SchemaDocument::is_made(pointer)) {
      return schema_error(pointer_to(pointer, "pattern"), "'pattern' is a text");
    }
    const SchemaJson list = schema["pattern"].is_array() ? schema["pattern"] : SchemaJson::array({schema["pattern"]});
    for (const SchemaJson& text : list) {
      if (!text.is_string()) return schema_error(pointer_to(pointer, "pattern"), "'pattern' is a text");
      TRY_STATUS(add(text.get<std::string>(), PatternUse::kSearch, "pattern"));
    }
  }
  if (schema.contains("format")) {
    TRY_BIND(const std::string text, format_text(schema["format"], pointer_to(pointer, "format")));
    TRY_STATUS(add(text, PatternUse::kWhole, "format"));
  }
  return patterns;
}

/// A longer text is not written where a shorter one satisfies the schema as well.
size_t written_high(size_t low, size_t high) {
  return high == kUnbounded ? high : std::min(high, std::max(low, kMostCountedChars));
}

bool within(const PatternLength& length, const LengthRange& range) {
  return length.least >= range.low &&
         (range.high == kUnbounded || (length.most != kUnbounded && length.most <= range.high));
}

Result<TextAutomaton> texts_of(const std::vector<PatternNode>& patterns, const LengthRange& range,
                               const std::string& pointer) {
  auto together = [&]() -> Result<TextAutomaton> {
    TRY_BIND(TextAutomaton texts, TextAutomaton::of_length(0, kUnbounded));
    for (const PatternNode& pattern : patterns) {
      TRY_BIND(TextAutomaton others, TextAutomaton::of(pattern));
      TRY_BIND(texts, texts.both(others));
    }
    TRY_BIND(TextAutomaton lengths, TextAutomaton::of_length(range.low, range.high));
    return texts.both(lengths);
  };
  Result<TextAutomaton> texts = together();
  if (!texts.ok()) return schema_error(pointer, "{}", texts.error().message);
  return texts;
}

}  // namespace

Result<std::optional<TextAutomaton>> allowed_texts(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(std::vector<PatternNode> patterns, patterns_of(schema, pointer));
  TRY_BIND(const LengthRange range, length_range(schema, pointer));
  if (patterns.empty() && range.low == 0 && range.high == kUnbounded) return std::optional<TextAutomaton>();
  TRY_BIND(TextAutomaton texts, texts_of(patterns, range, pointer));
  return std::optional(std::move(texts));
}

Result<bool> listed_value_fits(const SchemaJson& value, const SchemaJson& schema,
                               const std::optional<TextAutomaton>& texts, const std::string& pointer) {
  if (auto other = other_assertion(schema, {"enum", "const", "type", "minLength", "maxLength", "pattern", "format",
                                            "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
    return schema_error(pointer_to(pointer, *other), "'{}' beside a list of values is not supported", *other);
  }
  for (const char* keyword : {"const", "enum"}) {
    if (!schema.contains(keyword)) continue;
    const SchemaJson list = keyword == std::string("const") ? SchemaJson::array({schema[keyword]}) : schema[keyword];
    if (!list.is_array() || std::ranges::find(list, value) == list.end()) return false;
  }
  if (value.is_string()) return !texts || texts->matches(value.get<std::string>());
  if (!value.is_number()) return true;
  for (const char* keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    if (!schema.contains(keyword)) continue;
    if (!schema[keyword].is_number()) return schema_error(pointer_to(pointer, keyword), "'{}' is a number", keyword);
    const double bound = schema[keyword].get<double>();
    const double number = value.get<double>();
    const bool below = std::string_view(keyword).find("axi") != std::string_view::npos;
    const bool open = std::string_view(keyword).starts_with("exclusive");
    if (below ? number > bound : number < bound) return false;
    if (open && number == bound) return false;
  }
  return true;
}

Status SchemaWriter::count_automata(size_t more, const std::string& pointer) {
  constexpr size_t kMost = 300;
  automata_ += more;
  if (automata_ <= kMost) return {};
  return schema_error(pointer, "more than {} patterns stand beside other restrictions", kMost);
}

Result<std::string> SchemaWriter::string(const SchemaJson& schema, const std::string& pointer) {
  TRY_BIND(const LengthRange range, length_range(schema, pointer));
  TRY_BIND(std::vector<PatternNode> patterns, patterns_of(schema, pointer));
  if (patterns.empty()) return writer_.string_of_length(range.low, written_high(range.low, range.high));
  if (std::optional<CountedRun> run = patterns.size() == 1 ? counted_run(patterns[0]) : std::nullopt) {
    const size_t least = std::max(run->least, range.low);
    const size_t most = written_high(least, std::min(run->most, range.high));
    if (least > most) return schema_error(pointer, "no text satisfies the pattern and the lengths together");
    return writer_.rule("\"\\\"\" " +
                        writer_.counted(gbnf_chars(run->chars, TextContext::kJsonString), least, most, "\"\\\"\""));
  }
  if (patterns.size() == 1 && range.low == 0 && range.high == kUnbounded) {
    auto key = [&](const char* keyword) {
      return schema.contains(keyword) ? schema[keyword].dump(-1, ' ', false, SchemaJson::error_handler_t::replace) : "";
    };
    auto [known, fresh] = small_texts_.try_emplace(key("pattern") + key("format"));
    std::optional<TextAutomaton> small = fresh ? small_automaton(patterns[0]) : std::nullopt;
    if (small) known->second = writer_.rule("\"\\\"\" " + small->write_rest_of_string(writer_));
    if (!known->second.empty()) return known->second;
  }
  if (patterns.size() == 1 && within(length_of(patterns[0]), range)) {
    return writer_.rule("\"\\\"\" " + writer_.pattern(patterns[0], TextContext::kJsonString, "\"\\\"\""));
  }
  TRY_STATUS(count_automata(1, pointer));
  TRY_BIND(const TextAutomaton texts, texts_of(patterns, range, pointer));
  if (texts.empty()) return schema_error(pointer, "no text satisfies the pattern, format and lengths together");
  return writer_.rule("\"\\\"\" " + texts.write_rest_of_string(writer_));
}

}  // namespace vernier
