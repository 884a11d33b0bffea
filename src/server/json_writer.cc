#include "server/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "server/api_error.h"

namespace vernier {

void JsonWriter::comma() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  comma();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  comma();
  out_ += '"';
  out_ += name;
  out_ += "\":";
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::named(std::string_view name) {
  comma();
  append_json_string(out_, name);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  comma();
  append_json_string(out_, value);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  comma();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

void JsonWriter::append_number(std::string_view digits) {
  out_ += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
}

JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  comma();
  append_number(fmt::format("{}", value));
  return *this;
}

JsonWriter& JsonWriter::number(float value) {
  if (!std::isfinite(value)) return null();
  comma();
  append_number(fmt::format("{}", value));
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  comma();
  out_ += json;
  return *this;
}

}  // namespace vernier
