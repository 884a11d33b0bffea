#include "app/number_flags.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

namespace vernier {
namespace {

constexpr std::string_view kSizeName = "SIZE";

enum class Parsed { kGood, kNoNumber, kTooLarge };

template <class T>
Parsed parse_whole(std::string_view text, T& value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  } else if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (end != text.data() + text.size() || text.empty()) return Parsed::kNoNumber;
  if (failure == std::errc::result_out_of_range) return Parsed::kTooLarge;
  return failure == std::errc{} ? Parsed::kGood : Parsed::kNoNumber;
}

/// In decimal, which the library reads as it is meant; a message where it is no number of type T.
template <class T>
std::string canonical_whole(std::string& text) {
  T value = 0;
  const Parsed parsed = parse_whole(text, value);
  const bool negative = std::is_unsigned_v<T> && text.starts_with('-');
  if (parsed == Parsed::kGood) {
    text = std::to_string(value);
    return "";
  }
  if (parsed == Parsed::kNoNumber && !negative) return fmt::format("'{}' is no whole number", text);
  return fmt::format("{} is too {}; expected a whole number from {} to {}", text,
                     text.starts_with('-') ? "small" : "large", std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::max());
}

std::string check_finite(std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return fmt::format("'{}' is no number", text);
  return std::isfinite(value) ? "" : fmt::format("{} is no finite number", text);
}

std::optional<double> factor_of(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b") return 1;
  const size_t power = std::string_view("kmgtp").find(unit.front());
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return std::nullopt;
  return std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

std::string canonical_size(std::string& text) {
  constexpr const char* kExpected = "expected bytes, such as 1000000, 512MiB or 4GB";
  const size_t digits = text.find_first_not_of("0123456789");
  const std::string number = text.substr(0, digits);
  const size_t unit = digits == std::string::npos ? digits : text.find_first_not_of(' ', digits);
  const auto factor = factor_of(unit == std::string::npos ? "" : text.substr(unit));
  int64_t value = 0;
  const Parsed parsed = parse_whole(number, value);
  if (parsed == Parsed::kNoNumber || !factor) return fmt::format("'{}' is no size; {}", text, kExpected);
  const double bytes = static_cast<double>(value) * *factor;
  if (parsed == Parsed::kTooLarge || bytes >= 9.2e18) return fmt::format("{} is too large; {}", text, kExpected);
  text = std::to_string(value * static_cast<int64_t>(*factor));
  return "";
}

const CLI::Option* find_anywhere(const CLI::App& app, const std::string& name) {
  if (const CLI::Option* option = app.get_option_no_throw(name)) return option;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (const CLI::Option* option = find_anywhere(*command, name)) return option;
  }
  return nullptr;
}

}  // namespace

void check_numbers(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (type.find(kSizeName) != std::string::npos) continue;
    if (type.starts_with("UINT")) option->transform(CLI::Validator(canonical_whole<uint64_t>, ""));
    if (type.starts_with("INT")) option->transform(CLI::Validator(canonical_whole<int64_t>, ""));
    if (type.starts_with("FLOAT")) option->transform(CLI::Validator(check_finite, ""));
  }
  for (CLI::App* form : command.get_subcommands({})) check_numbers(*form);
}

CLI::Validator byte_size() {
  return {canonical_size, std::string(kSizeName)};
}

std::string describe_bad_value(const CLI::App& app, const CLI::ParseError& error) {
  const std::string message = error.what();
  // What a check of ours let through and the type does not take is an integer of 32 bits or less, or a choice of words.
  constexpr std::string_view kConversion = "Could not convert: ";
  constexpr std::string_view kRange = " not in range ", kValue = ": Value ";
  if (message.starts_with(kConversion)) {
    const std::string rest = message.substr(kConversion.size());
    const size_t equals = rest.find(" = ");
    const std::string name = rest.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : rest.substr(equals + 3);
    const CLI::Option* option = find_anywhere(app, name);
    const bool whole = option != nullptr && option->get_type_name().starts_with("INT");
    return fmt::format("{} {}: expected {}", name, value,
                       whole ? fmt::format("a whole number from {} to {}", INT32_MIN, INT32_MAX) : "another value");
  }
  const size_t value = message.find(kValue), range = message.find(kRange);
  if (value == std::string::npos || range == std::string::npos) return message;
  return fmt::format("{} {}: expected {}", message.substr(0, value),
                     message.substr(value + kValue.size(), range - value - kValue.size()),
                     message.substr(range + kRange.size()));
}

}  // namespace vernier
