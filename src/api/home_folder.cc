#include "api/home_folder.h"

#include <cstdlib>

namespace vernier {

std::filesystem::path home_folder() {
  const auto given = [](const char* name) {
    const char* text = std::getenv(name);
    return std::filesystem::path(text == nullptr ? "" : text);
  };
  if (std::filesystem::path home = given("VERNIER_HOME"); !home.empty()) return home;
  const std::filesystem::path user = given("HOME");
  return user.empty() ? "/var/tmp/vernier" : user / ".cache" / "vernier";
}

}  // namespace vernier
