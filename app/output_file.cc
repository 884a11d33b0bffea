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

Status check_no_input(const std::string& path, const Checkpoint& model, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> read = model.files();
  read.push_back(input);
  for (const auto& entry : fs::directory_iterator(model.path(), ignored)) read.push_back(entry.path().string());
  for (const std::string& file : read) {
    if (fs::equivalent(path, file, ignored)) {
      return invalid_argument("--out {} would replace what is read: {}", path, file);
    }
  }
  return {};
}

}  // namespace vernier
