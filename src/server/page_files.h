#pragma once

#include <span>
#include <string_view>

namespace vernier {

/// One file of src/server/page, as it was when the program was built.
struct PageFile {
  std::string_view name;    ///< "app.js"
  std::string_view digest;  ///< of the text, as hexadecimal digits
  std::string_view text;
};

/// Defined in a file that cmake/EmbedFiles.cmake writes.
std::span<const PageFile> page_files();

}  // namespace vernier
