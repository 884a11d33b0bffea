#include "server/json_body.h"

#include <string>
#include <vector>

#include "base/json_nesting.h"

namespace vernier {
namespace {

/// Depth and width, told before anything is built.
Status check_shape(std::string_view text, const JsonLimits& limits) {
  JsonNesting nesting;
  std::vector<size_t> members = {0};  // [depth] keys so far
  size_t comparisons = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t before = nesting.depth();
    nesting.push(text[i]);
    if (nesting.depth() > limits.nesting) {
      return invalid_argument("the body nests deeper than {} at byte {}", limits.nesting, i);
    }
    members.resize(nesting.depth() + 1);  // an object that opens has none, and one that closes is forgotten
    if (text[i] == ':' && !nesting.in_string() && before > 0) {
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
