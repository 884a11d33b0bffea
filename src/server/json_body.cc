#include "server/json_body.h"

#include <string>
#include <vector>

namespace vernier {
namespace {

/// Brackets and commas outside of strings tell depth and width before anything is built. What is no JSON at all is left
/// to the parser.
Status check_shape(std::string_view text, const JsonLimits& limits) {
  std::vector<size_t> members;  // [depth] commas so far
  size_t comparisons = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      members.push_back(0);
      if (members.size() > limits.nesting) {
        return invalid_argument("the body nests deeper than {} at byte {}", limits.nesting, i);
      }
    } else if ((c == '}' || c == ']') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty()) {
      comparisons += members.back()++;
      if (comparisons > limits.key_comparisons) {
        return invalid_argument("the body has objects with too many members; reading ended at byte {}", i);
      }
    }
  }
  return {};
}

}  // namespace

Result<Json> parse_body(std::string_view text, const JsonLimits& limits) {
  TRY_STATUS(check_shape(text, limits));
  if (text.empty()) return invalid_argument("the body is empty at byte 0; expected a JSON object");
  try {
    Json body = Json::parse(text);
    if (!body.is_object()) {
      return invalid_argument("the body is {} {} at byte 0; expected a JSON object", body.is_array() ? "an" : "a",
                              body.is_null() ? "JSON null" : body.type_name());
    }
    return body;
  } catch (const Json::parse_error& error) {
    return invalid_argument("the body is no valid JSON: reading ended at byte {} of {}",
                            error.byte > 0 ? error.byte - 1 : 0, text.size());
  } catch (const Json::exception&) {
    return invalid_argument("the body holds a number that no 64-bit float can hold, within its {} bytes", text.size());
  }
}

}  // namespace vernier
