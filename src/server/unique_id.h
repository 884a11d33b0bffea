#pragma once

#include <string>
#include <string_view>

namespace vernier {

/// The prefix and 24 letters and digits that no other call in this process gives, and hardly another process. Any
/// thread.
std::string unique_id(std::string_view prefix);

}  // namespace vernier
