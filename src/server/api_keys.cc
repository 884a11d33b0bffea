#include "server/api_keys.h"

#include <fstream>

namespace vernier {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// "Bearer KEY" to KEY; the scheme's case does not matter.
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

bool Secret::equals(std::string_view given) const {
  if (text_.empty()) return false;
  size_t different = given.size() ^ text_.size();
  for (size_t i = 0; i < given.size(); ++i) {
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(text_[i % text_.size()]);
  }
  return different == 0;
}

Result<std::vector<Secret>> read_key_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return not_found("the key file {} cannot be read", path);
  std::vector<Secret> keys;
  std::string line;
  while (std::getline(file, line)) {
    std::string_view key = trimmed(line);
    if (!key.empty() && !key.starts_with('#')) keys.emplace_back(std::string(key));
  }
  if (file.bad()) return not_found("the key file {} cannot be read to its end", path);
  if (keys.empty()) return invalid_argument("the key file {} holds no key; write one a line", path);
  return keys;
}

ApiKeys::Standing ApiKeys::standing(const HeaderList& headers) const {
  if (!required()) return Standing::kAdmin;
  std::string_view given = bearer(headers.get("Authorization"));
  if (given.empty()) given = trimmed(headers.get("x-api-key"));
  if (given.empty()) return Standing::kNone;
  bool admin = admin_.equals(given);
  bool user = false;
  for (const Secret& key : keys_) user |= key.equals(given);  // all of them: the time tells nothing of which
  if (admin) return Standing::kAdmin;
  return user ? Standing::kUser : Standing::kNone;
}

bool ApiKeys::admits(Standing standing, Access access) {
  switch (access) {
    case Access::kOpen:
      return true;
    case Access::kKey:
      return standing != Standing::kNone;
    case Access::kAdmin:
      return standing == Standing::kAdmin;
  }
  return false;
}

}  // namespace vernier
