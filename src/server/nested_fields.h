#pragma once

#include <string>
#include <vector>

#include "server/request_fields.h"

namespace vernier {

/// The places ("messages[0].foo") of members that no reader of this route's objects knows. Null and
/// empty lists ask for nothing. Objects that are handed on whole, such as schemas and functions, are not looked into.
std::vector<std::string> unknown_members(const Json& body, FieldRoute route);

}  // namespace vernier
