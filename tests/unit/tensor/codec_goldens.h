#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace vernier::testing {

/// Reads the files of tools/make_codec_goldens.py front to back.
class GoldenReader {
 public:
  explicit GoldenReader(const std::string& name) {
    std::ifstream file(VERNIER_TEST_DATA "/codecs/" + name, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_FALSE(bytes_.empty()) << "tests/data/codecs/" << name << " is missing";
  }

  template <class T>
  T next() {
    T value{};
    EXPECT_LE(offset_ + sizeof(T), bytes_.size());
    if (offset_ + sizeof(T) <= bytes_.size()) std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  std::vector<std::byte> next_bytes(size_t count) {
    std::vector<std::byte> result(count);
    for (std::byte& byte : result) byte = next<std::byte>();
    return result;
  }

  std::vector<float> next_floats(size_t count) {
    std::vector<float> result(count);
    for (float& value : result) value = next<float>();
    return result;
  }

  bool at_end() const { return offset_ == bytes_.size(); }

 private:
  std::vector<char> bytes_;
  size_t offset_ = 0;
};

}  // namespace vernier::testing
