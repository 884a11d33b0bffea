#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "server/request_fields.h"

namespace vernier {

enum class FieldType : uint8_t { kBoolean, kInteger, kNumber, kString, kObject, kArray, kAny };

enum class FieldUse : uint8_t {
  kHonoured,
  kNoEffect,  ///< known to clients, and changes nothing here: the answer's header says so
  kRefused,   ///< asks for what this server does not do
};

constexpr double kNoUpperBound = 9.3e18;

/// One field of a request: in this table, or unknown.
struct RequestField {
  std::string_view name;
  std::string_view meaning;  ///< the name that the server knows it by; differs for another engine's spelling
  FieldType type = FieldType::kAny;
  uint16_t routes = 0;  ///< FieldRoute bits
  FieldUse use = FieldUse::kHonoured;
  double low = -kNoUpperBound;
  double high = kNoUpperBound;
};

std::span<const RequestField> request_fields();
/// Null where the route has no such field.
const RequestField* find_request_field(std::string_view name, FieldRoute route);
/// Whether a refused field asks for nothing after all: false, an empty list, modalities of text alone.
bool is_harmless_value(const RequestField& field, const Json& value);

}  // namespace vernier
