#include "app/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace vernier {

Status check_writable(const std::string& path) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (!file) return make_error(ErrorCode::kInternal, "cannot write {}: {}", path, std::strerror(errno));
  file.close();
  if (!was_there) std::filesystem::remove(path, ignored);
  return {};
}

Status check_no_input(const std::string& path, std::span<const std::string> inputs) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const std::string& input : inputs) {
    bool is_input = fs::equivalent(path, input, ignored);
    for (const auto& entry : fs::directory_iterator(input, ignored)) {
      is_input = is_input || fs::equivalent(path, entry.path(), ignored);
    }
    if (is_input) return invalid_argument("--out {} would replace what is read: {}", path, input);
  }
  return {};
}

}  // namespace vernier
