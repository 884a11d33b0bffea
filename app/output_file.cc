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

}  // namespace vernier
