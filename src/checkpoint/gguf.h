#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_map.h"
#include "checkpoint/gguf_types.h"

namespace vernier {

/// One metadata value as the file stores it: a view into the mapped file, already checked to lie inside it. Lives no
/// longer than its Gguf.
class GgufValue {
 public:
  GgufValue(GgufType type, GgufType element, uint64_t count, std::span<const std::byte> bytes)
      : type_(type), element_(element), count_(count), bytes_(bytes) {}

  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::kArray; }
  GgufType element_type() const { return element_; }  ///< of an array; else type()
  uint64_t count() const { return count_; }           ///< elements of an array; else 1
  std::string type_name() const;                      ///< "u32", "array of string"

  /// The value, if it is of that kind (any integer width; f32 or f64) and not an array.
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_number() const;
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  /// Every element, if it is an array of that kind. Strings stay in the file.
  std::optional<std::vector<std::string_view>> as_strings() const;
  std::optional<std::vector<int64_t>> as_integers() const;
  std::optional<std::vector<double>> as_numbers() const;
  /// The raw elements of an array of `element` (f32, i32, ...), unaligned; empty for another type.
  std::span<const std::byte> elements(GgufType element) const;

  /// As the file has it, without type and counts: what a writer copies.
  std::span<const std::byte> raw() const { return bytes_; }

  bool operator==(const GgufValue& other) const;

 private:
  GgufType type_;
  GgufType element_;
  uint64_t count_;
  std::span<const std::byte> bytes_;  // an array's elements or a string's characters, without the counts before them
};

/// A row of the tensor table. Extents are in the file's order, innermost first, and at least 1.
struct GgufTensor {
  std::string_view name;
  const GgmlType* type = nullptr;  ///< a row of the type table
  std::array<uint64_t, 4> extents{1, 1, 1, 1};
  int rank = 0;
  std::span<const std::byte> bytes;

  uint64_t elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
};

/// One GGUF file (version 2 or 3, little-endian), mapped and checked: every string, array, key and tensor lies inside
/// the file, no key or tensor stands twice, no two tensors share a byte. Strings and tensors stay in the file. Any
/// thread may read. Refuses what it cannot check, with the offset or the name in the message.
class Gguf {
 public:
  static Result<std::shared_ptr<const Gguf>> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::shared_ptr<const FileMap>& file() const { return file_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t trailing_bytes() const { return trailing_bytes_; }  ///< after the last tensor and its padding

  /// Keys and values in the file's order.
  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  ///< null where the file has no such key
  std::span<const GgufTensor> tensors() const { return tensors_; }

  /// Typed access: an absent key is null, another type than the one asked for an error.
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;  ///< an integer is a number, too
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;

 private:
  explicit Gguf(std::shared_ptr<const FileMap> file) : file_(std::move(file)) {}
  Status read();
  Status read_metadata(class ByteReader& reader, uint64_t count);
  Status read_alignment();
  Status read_tensor(ByteReader& reader, uint64_t index, std::vector<uint64_t>& offsets);
  Status place_tensors(uint64_t data_begin, const std::vector<uint64_t>& offsets);
  Error wrong_type(std::string_view key, std::string_view expected) const;

  std::shared_ptr<const FileMap> file_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t trailing_bytes_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::unordered_map<std::string_view, size_t> keys_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace vernier
