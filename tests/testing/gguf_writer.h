#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vernier::testing {

/// Writes GGUF files for tests, wrong ones included: every count, offset and type can be given a lie.
class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  ///< of the data; written as a key only by `u32("general.alignment", ...)`
  std::optional<uint64_t> tensor_count;
  std::optional<uint64_t> metadata_count;

  template <class T>
  static std::string le(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string counted(std::string_view text) { return le<uint64_t>(text.size()) + std::string(text); }

  GgufWriter& raw(std::string_view key, uint32_t type, std::string_view value) {
    metadata_ += counted(key) + le(type) + std::string(value);
    ++entries_;
    return *this;
  }
  GgufWriter& u16(std::string_view key, uint16_t value) { return raw(key, 2, le(value)); }
  GgufWriter& u32(std::string_view key, uint32_t value) { return raw(key, 4, le(value)); }
  GgufWriter& i32(std::string_view key, int32_t value) { return raw(key, 5, le(value)); }
  GgufWriter& u64(std::string_view key, uint64_t value) { return raw(key, 10, le(value)); }
  GgufWriter& f32(std::string_view key, float value) { return raw(key, 6, le(value)); }
  GgufWriter& boolean(std::string_view key, bool value) { return raw(key, 7, std::string(1, value ? 1 : 0)); }
  GgufWriter& text(std::string_view key, std::string_view value) { return raw(key, 8, counted(value)); }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string body = le<uint32_t>(8) + le<uint64_t>(values.size());
    for (const std::string& value : values) body += counted(value);
    return raw(key, 9, body);
  }
  GgufWriter& f32s(std::string_view key, const std::vector<float>& values) { return numbers(key, 6, values); }
  GgufWriter& i32s(std::string_view key, const std::vector<int32_t>& values) { return numbers(key, 5, values); }
  GgufWriter& bools(std::string_view key, const std::vector<char>& values) { return numbers(key, 7, values); }

  /// Extents innermost first, as the file has them. Without `offset` the data follow the tensor before.
  GgufWriter& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type, std::string_view data,
                     std::optional<uint64_t> offset = {}) {
    table_ += counted(name) + le(static_cast<uint32_t>(extents.size()));
    for (uint64_t extent : extents) table_ += le(extent);
    table_ += le(type) + le(offset.value_or(data_.size()));
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    ++tensors_;
    return *this;
  }
  GgufWriter& f32_tensor(std::string_view name, const std::vector<uint64_t>& extents,
                         const std::vector<float>& values) {
    return tensor(name, extents, 0, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  std::string bytes() const {
    std::string out =
        "GGUF" + le(version) + le(tensor_count.value_or(tensors_)) + le(metadata_count.value_or(entries_));
    out += metadata_ + table_;
    if (tensors_ > 0) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data_;
  }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes(); }

 private:
  template <class T>
  GgufWriter& numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    std::string body = le(type) + le<uint64_t>(values.size());
    for (T value : values) body += le(value);
    return raw(key, 9, body);
  }

  std::string metadata_;
  std::string table_;
  std::string data_;
  uint64_t entries_ = 0;
  uint64_t tensors_ = 0;
};

}  // namespace vernier::testing
