#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file_map.h"
#include "tensor/codec.h"

namespace vernier {

/// An element type of the format. `codec` is what this program computes with; absent for those it only recognises, and
/// for FP8 and FP4, whose numbers mean nothing without a scale that stands elsewhere.
struct SafetensorsType {
  std::string_view name;
  int bits;
  std::optional<CodecId> codec;
};

const SafetensorsType* safetensors_type(std::string_view name);  ///< null where there is none

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<int64_t> extents;  ///< outermost first; empty for a scalar; an extent may be 0
  std::span<const std::byte> bytes;
};

/// One safetensors file, mapped and checked. One rule for its bytes: the tensors cover everything after the header,
/// each byte once; a hole, an overlap, bytes before the first or after the last are errors. Tensors are in file order.
/// Any thread may read.
class Safetensors {
 public:
  static Result<std::shared_ptr<const Safetensors>> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::shared_ptr<const FileMap>& file() const { return file_; }
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit Safetensors(std::shared_ptr<const FileMap> file) : file_(std::move(file)) {}
  Status read();

  std::shared_ptr<const FileMap> file_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// What write_safetensors writes: float32 or int32 numbers, row-major.
struct NamedNumbers {
  std::string name;
  std::vector<int64_t> extents;
  std::variant<std::span<const float>, std::span<const int32_t>> values;

  std::span<const std::byte> bytes() const {
    return std::visit([](auto span) { return std::as_bytes(span); }, values);
  }
};

/// Writes a file that any safetensors reader takes. Refuses names that stand twice and values that do not fill their
/// extents. An existing file is replaced only once the new one is complete.
Status write_safetensors(const std::string& path, std::span<const NamedNumbers> tensors);

}  // namespace vernier
