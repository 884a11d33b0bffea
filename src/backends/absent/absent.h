#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "ops/backend.h"

namespace vernier {

/// Stands in for the maker of a backend that this build does not have: always an error, which names it and says what to
/// use instead.
Result<std::unique_ptr<Backend>> make_absent_backend(std::string_view name);

}  // namespace vernier
