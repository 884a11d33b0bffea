#include <algorithm>

#include "grammar/number_text.h"
#include "grammar/schema_writer.h"

namespace vernier {
namespace {

constexpr int64_t kMostMultiple = 100;
constexpr int kMultipleDigits = 9;

Result<NumberBounds> bounds_of(const SchemaJson& schema, const std::string& pointer) {
  NumberBounds bounds;
  const std::pair<const char*, std::optional<std::string>*> fields[] = {
      {"minimum", &bounds.minimum},
      {"maximum", &bounds.maximum},
      {"exclusiveMinimum", &bounds.exclusive_minimum},
      {"exclusiveMaximum", &bounds.exclusive_maximum}};
  for (auto [key, field] : fields) {
    if (!schema.contains(key)) continue;
    if (!schema[key].is_number()) return schema_error(pointer_to(pointer, key), "'{}' is a number", key);
    *field = schema[key].dump();
  }
  return bounds;
}

/// The formats of numbers that OpenAPI knows: a name and the range that it stands for.
Status apply_number_format(const SchemaJson& schema, const std::string& pointer, bool integer, NumberBounds& bounds) {
  if (!schema.contains("format")) return {};
  const SchemaJson& format = schema["format"];
  auto narrow = [&](const char* low, const char* high) {
    if (!bounds.minimum) bounds.minimum = low;
    if (!bounds.maximum) bounds.maximum = high;
  };
  if (format == "float" || format == "double") return {};
  if (integer && (format == "int64" || format == "uint64")) {
    if (format == "uint64" && !bounds.minimum) bounds.minimum = "0";
    return {};  // 18 digits fit in both
  }
  const bool plain = !bounds.any();
  if (integer && plain && format == "int32") return narrow("-2147483648", "2147483647"), Status();
  if (integer && plain && format == "uint32") return narrow("0", "4294967295"), Status();
  if (schema.contains("type") && schema["type"].is_array()) return {};  // it may be about the texts
  return schema_error(pointer_to(pointer, "format"),
                      "this format of a number is not supported here; int32, uint32 "
                      "without bounds, int64, uint64, float and double are");
}

}  // namespace

Result<std::string> SchemaWriter::number(const SchemaJson& schema, const std::string& pointer, bool integer) {
  TRY_BIND(NumberBounds bounds, bounds_of(schema, pointer));
  TRY_STATUS(apply_number_format(schema, pointer, integer, bounds));
  int64_t multiple = 1;
  if (schema.contains("multipleOf")) {
    const SchemaJson& value = schema["multipleOf"];
    const bool whole = value.is_number() && value.get<double>() >= 1 && value.get<double>() <= kMostMultiple &&
                       value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>()));
    if (!whole || (bounds.any() && value.get<double>() != 1)) {
      return schema_error(pointer_to(pointer, "multipleOf"),
                          "supported are whole numbers from 1 to {}, and without bounds beside it", kMostMultiple);
    }
    multiple = static_cast<int64_t>(value.get<double>());
    integer = true;
  }
  if (multiple > 1) return multiples_of(multiple);
  if (!integer && !bounds.any()) return writer_.any_number();
  Result<std::string> text = integer ? gbnf_integer(bounds) : gbnf_bounded_number(bounds);
  if (!text.ok()) return schema_error(pointer, "{}", text.error().message);
  return writer_.rule(*text);
}

/// Whole numbers of at most `kMultipleDigits` digits: a rule for each remainder of the digits so far and number of
/// digits still allowed. The text may end where the remainder is 0; what cannot get there is left out.
std::string SchemaWriter::multiples_of(int64_t n) {
  std::vector<std::string> shorter;  // by remainder, empty: no way to 0
  auto step = [&](int64_t from, int64_t first_digit) {
    std::string text;
    for (int64_t digit = first_digit; digit < 10; ++digit) {
      const std::string& rest = shorter[static_cast<size_t>((10 * from + digit) % n)];
      if (!rest.empty()) text += fmt::format("{}\"{}\" {}", text.empty() ? "" : " | ", digit, rest);
    }
    return text;
  };
  shorter.assign(static_cast<size_t>(n), "");
  shorter[0] = "\"\"";
  for (int digits = 1; digits < kMultipleDigits; ++digits) {
    std::vector<std::string> longer;
    for (int64_t r = 0; r < n; ++r) {
      const std::string text = step(r, 0);
      longer.push_back(text.empty() ? "" : writer_.rule((r == 0 ? "\"\" | " : "") + text));
    }
    shorter = std::move(longer);
  }
  return writer_.rule(fmt::format("\"0\" | \"-\"? ({})", step(0, 1)));
}

}  // namespace vernier
