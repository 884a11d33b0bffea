#include "random_schema.h"

#include <array>

namespace vernier::testing {
namespace {

using Schema = nlohmann::ordered_json;

class SchemaDrawer {
 public:
  explicit SchemaDrawer(std::mt19937_64& random) : random_(random) {}

  Schema whole() {
    Schema schema = draw(0);
    Schema definitions = Schema::object();
    for (int i = 0; i < kDefinitions; ++i) {
      // The way out of a reference that leads back.
      definitions["d" + std::to_string(i)] = {{"anyOf", {{{"type", "null"}}, draw(2)}}};
    }
    if (schema.is_object()) schema["$defs"] = definitions;
    return schema.is_object() ? schema : Schema{{"type", "object"}, {"$defs", definitions}};
  }

 private:
  static constexpr int kDefinitions = 2;

  size_t below(size_t n) { return random_() % n; }
  bool once_in(size_t n) { return below(n) == 0; }
  std::string key() {
    static const std::array<const char*, 9> kKeys = {"a", "ab", "name", "é", "", "x\"y", "a/b", "n\\", "🙂"};
    return kKeys[below(kKeys.size())];
  }

  Schema draw(int depth) {
    const size_t kinds = depth > 3 ? 6 : 14;
    switch (below(kinds)) {
      case 0:
        return integer();
      case 1:
        return number();
      case 2:
      case 3:
        return string();
      case 4:
        return {{"enum", {"a", 3, nullptr, "é\n", Schema::array({1, "x"}), -2.5}}};
      case 5:
        return once_in(2) ? Schema{{"type", {"boolean", "null"}}} : Schema(true);
      case 6:
      case 7:
        return array(depth);
      case 8:
        return {{"anyOf", {draw(depth + 1), draw(depth + 1)}}};
      case 9:
        return {{"$ref", "#/$defs/d" + std::to_string(below(kDefinitions))}};
      case 10:
        return joined(depth);
      case 11:
        return map(depth);
      default:
        return object(depth);
    }
  }

  /// Schemas that hold together.
  Schema joined(int depth) {
    switch (below(4)) {
      case 0:
        return {{"allOf", {object(depth), object(depth)}}};
      case 1:
        return {{"allOf", {array(depth), array(depth)}}};
      case 2:
        return {{"anyOf", {string(), integer(), object(depth)}}, {"maxLength", 5 + below(9)}, {"minimum", 0}};
      default:
        return {{"$ref", "#/$defs/d" + std::to_string(below(kDefinitions))}, {"type", {"null", "object", "string"}}};
    }
  }
  /// Objects whose keys are not declared one by one.
  Schema map(int depth) {
    Schema s = {{"type", "object"}};
    switch (below(4)) {
      case 0:
        s["patternProperties"] = {{"^a", draw(depth + 1)}, {"b$", draw(depth + 1)}};
        if (once_in(2)) s["properties"] = {{"ab", draw(depth + 1)}, {"name", draw(depth + 1)}};
        if (once_in(2)) s["additionalProperties"] = once_in(2) ? Schema(false) : draw(depth + 1);
        return s;
      case 1:
        s["propertyNames"] = {{"enum", {"a", "é", "x\"y"}}};
        if (once_in(2)) s["required"] = Schema::array({"é"});
        break;
      case 2:
        s["propertyNames"] = {{"pattern", "^[a-c]"}, {"maxLength", 3}};
        if (once_in(2)) s["properties"] = {{"ab", draw(depth + 1)}, {"name", draw(depth + 1)}};
        break;
      default:
        return {{"type", "array"}, {"items", {{"enum", {1, "a", nullptr, "b"}}}}, {"uniqueItems", true}};
    }
    s["additionalProperties"] = draw(depth + 1);
    return s;
  }

  Schema integer() {
    Schema s = {{"type", "integer"}};
    if (once_in(4)) return s["multipleOf"] = 1 + below(20), s;
    const int64_t low = static_cast<int64_t>(below(3000)) - 1500;
    if (once_in(2)) s[once_in(2) ? "minimum" : "exclusiveMinimum"] = low;
    if (once_in(2)) s[once_in(2) ? "maximum" : "exclusiveMaximum"] = low + 2 + static_cast<int64_t>(below(4000));
    return s;
  }
  Schema number() {
    Schema s = {{"type", "number"}};
    const double low = (static_cast<double>(below(20000)) - 10000) / 64;
    if (once_in(2)) s[once_in(2) ? "minimum" : "exclusiveMinimum"] = low;
    if (once_in(2)) s[once_in(2) ? "maximum" : "exclusiveMaximum"] = low + static_cast<double>(1 + below(9999)) / 100;
    return s;
  }
  Schema string() {
    static const std::array<const char*, 7> kPatterns = {"^[a-c]{2,4}$", "x|^y", "^(ab?|\"c)+$", "\\d", "^\\S[ \\t]$",
                                                         "^[^a-z]*$",    "b$"};
    static const std::array<const char*, 3> kFormats = {"date", "uuid", "ipv4"};
    Schema s = {{"type", "string"}};
    switch (below(4)) {
      case 0:
        s["pattern"] = kPatterns[below(kPatterns.size())];
        break;
      case 1:
        s["format"] = kFormats[below(kFormats.size())];
        break;
      case 2:
        s["minLength"] = below(4);
        s["maxLength"] = s["minLength"].get<size_t>() + below(9);
        if (once_in(3)) s["pattern"] = kPatterns[below(kPatterns.size())];
        break;
      default:
        break;
    }
    return s;
  }
  Schema array(int depth) {
    Schema s = {{"type", "array"}};
    const size_t prefix = once_in(3) ? 1 + below(3) : 0;
    for (size_t i = 0; i < prefix; ++i) s["prefixItems"].push_back(draw(depth + 1));
    const bool closed = prefix > 0 && once_in(2);
    s["items"] = closed ? Schema(false) : draw(depth + 1);
    const size_t least = below(closed ? prefix + 1 : 4);
    if (once_in(2)) s["minItems"] = least;
    if (once_in(2)) s["maxItems"] = least + below(4);
    return s;
  }
  Schema object(int depth) {
    Schema s = {{"type", "object"}, {"properties", Schema::object()}, {"required", Schema::array()}};
    for (size_t i = below(5); i > 0; --i) {
      const std::string name = key();
      if (s["properties"].contains(name)) continue;
      s["properties"][name] = draw(depth + 1);
      if (once_in(2)) s["required"].push_back(name);
    }
    if (once_in(2)) s["additionalProperties"] = once_in(2) ? Schema(once_in(2)) : draw(depth + 1);
    if (once_in(4)) s["minProperties"] = s["required"].size();
    if (once_in(4)) s["maxProperties"] = s["properties"].size() + below(3);
    return s;
  }

  std::mt19937_64& random_;
};

}  // namespace

nlohmann::ordered_json random_schema(std::mt19937_64& random) {
  return SchemaDrawer(random).whole();
}

}  // namespace vernier::testing
