#pragma once

#include <zlib.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace vernier::golden {

using Json = nlohmann::json;

inline bool exists(const std::string& path) {
  return std::ifstream(path).good();
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The JSON lines of a gzip file; empty where it cannot be read.
inline std::vector<Json> read_lines(const std::string& path) {
  std::string bytes;
  if (gzFile file = gzopen(path.c_str(), "rb")) {
    char buffer[1 << 16];
    for (int size; (size = gzread(file, buffer, sizeof buffer)) > 0;) bytes.append(buffer, static_cast<size_t>(size));
    gzclose(file);
  }
  std::vector<Json> lines;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = bytes.find('\n', at);
    if (end == std::string::npos) end = bytes.size();
    lines.push_back(
        Json::parse(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(end)));
    at = end + 1;
  }
  return lines;
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

/// A line's input: "text", or "hex" for bytes that are not UTF-8.
inline std::string input_of(const Json& line) {
  return line.contains("text") ? line["text"].get<std::string>() : from_hex(line["hex"]);
}

}  // namespace vernier::golden
