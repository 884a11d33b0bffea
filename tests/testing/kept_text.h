#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace vernier::testing {

/// Fails where `text` is not what the file `kept` of the test data holds, and leaves it in a file called `found` for
/// comparing. A change is kept by copying that file over the other, never by the test itself.
inline void expect_kept(const std::string& kept, const std::string& found, const std::string& text) {
  std::ifstream file(kept);
  std::ostringstream expected;
  expected << file.rdbuf();
  if (file.is_open() && text == expected.str()) return;
  const std::string path = ::testing::TempDir() + found;
  std::ofstream(path) << text;
  FAIL() << "this is not what is kept: compare " << kept << " with " << path
         << " and copy it there if the change is meant";
}

}  // namespace vernier::testing
