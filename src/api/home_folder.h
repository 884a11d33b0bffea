#pragma once

#include <filesystem>

namespace vernier {

/// Where models and tactics live: VERNIER_HOME, else .cache/vernier in the user's folder.
std::filesystem::path home_folder();

}  // namespace vernier
