#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vernier {

/// Appends JSON to a string, on one line, and places the commas. The caller keeps keys and values in order.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  /// `name` needs no escapes.
  JsonWriter& key(std::string_view name);
  /// A key that may need escapes.
  JsonWriter& named(std::string_view name);

  /// Bytes that are no UTF-8 become U+FFFD.
  JsonWriter& text(std::string_view value);
  JsonWriter& integer(int64_t value);
  /// With a fraction or an exponent, so that readers see a float; null for what is no finite number.
  JsonWriter& number(double value);
  JsonWriter& number(float value);
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  /// A whole JSON value.
  JsonWriter& raw(std::string_view json);

  JsonWriter& text(std::string_view name, std::string_view value) { return key(name).text(value); }
  JsonWriter& integer(std::string_view name, int64_t value) { return key(name).integer(value); }
  JsonWriter& boolean(std::string_view name, bool value) { return key(name).boolean(value); }
  JsonWriter& null(std::string_view name) { return key(name).null(); }
  JsonWriter& raw(std::string_view name, std::string_view json) { return key(name).raw(json); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void comma();
  void append_number(std::string_view digits);

  std::string& out_;
  bool comma_ = false;
};

}  // namespace vernier
