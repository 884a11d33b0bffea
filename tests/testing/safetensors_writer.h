#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace vernier::testing {

/// A safetensors file from a header written by hand, wrong ones included.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  uint64_t size = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &size, 8);
  return out + std::string(header) + std::string(data);
}

/// Collects tensors and writes the header for them.
class SafetensorsWriter {
 public:
  SafetensorsWriter& tensor(const std::string& name, const std::vector<int64_t>& extents, const std::string& dtype,
                            std::string_view data) {
    header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header_.empty() ? "" : ",",
                           name, dtype, fmt::join(extents, ","), data_.size(), data_.size() + data.size());
    data_ += data;
    return *this;
  }
  SafetensorsWriter& f32(const std::string& name, const std::vector<int64_t>& extents,
                         const std::vector<float>& values) {
    return tensor(name, extents, "F32", {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  std::string bytes() const { return safetensors_file(fmt::format("{{{}}}", header_), data_); }

 private:
  std::string header_;
  std::string data_;
};

}  // namespace vernier::testing
