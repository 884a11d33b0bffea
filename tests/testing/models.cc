#include "testing/models.h"

#include <cstdlib>
#include <filesystem>

namespace vernier::testing {

std::optional<std::string> model_file(const std::string& name) {
  std::filesystem::path home;
  if (const char* set = std::getenv("VERNIER_HOME"); set != nullptr && *set != '\0') {
    home = set;
  } else if (const char* user = std::getenv("HOME"); user != nullptr) {
    home = std::filesystem::path(user) / ".cache" / "vernier";
  }
  std::error_code ignored;
  std::filesystem::path path = home / "models" / name;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path.string();
}

std::string missing_model(const std::string& short_name) {
  return "the model " + short_name + " is absent: run tools/fetch_model " + short_name;
}

std::optional<std::string> vocabularies_folder() {
  const char* folder = std::getenv("VERNIER_VOCABULARIES");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return folder;
}

}  // namespace vernier::testing
