#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf.h"
#include "checkpoint/weight_quantiser.h"
#include "tensor/qtensor.h"

namespace vernier {

/// Metadata as the head of a GGUF file has them: keys, types, little-endian values.
class GgufMetadata {
 public:
  void add(std::string_view key, const GgufValue& value);  ///< as another file has it
  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, uint32_t value);
  void i32(std::string_view key, int32_t value);
  void f32(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  void texts(std::string_view key, std::span<const std::string_view> values);
  void i32s(std::string_view key, std::span<const int32_t> values);
  void f32s(std::string_view key, std::span<const float> values);
  void bools(std::string_view key, const std::vector<bool>& values);
  /// general.file_type, by which tools show what most of a file is, and the version of its blocks.
  void add_file_type(const QuantTarget& target);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::string_view name, GgufType type);
  void array(std::string_view name, GgufType type, size_t count);

  std::string bytes_;
  uint64_t count_ = 0;
};

/// A GGUF file that is written: first its table of tensors, then the head, then the tensors' bytes in any order.
class GgufOutput {
 public:
  explicit GgufOutput(std::string path) : path_(std::move(path)) {}

  Status open();  ///< first, before any work is done for what cannot be written
  /// `extents`: outermost first. Refuses a type that GGUF files do not hold.
  Status add(const std::string& name, std::vector<int64_t> extents, std::string_view type);
  /// A matrix, or a stack of `count`, with a tensor of global scales beside it where its codec has them.
  Status add_matrix(const std::string& name, std::vector<int64_t> extents, const Codec& codec, int64_t count);
  Status write_head(const GgufMetadata& metadata);
  /// `place` counts parts of that size: of a stack, the expert.
  Status write(const std::string& name, std::span<const std::byte> bytes, size_t place = 0);
  /// What `add_matrix` has made room for.
  Status write_matrix(const std::string& name, const QTensor& matrix, size_t place);
  Status finish();

  bool has(const std::string& name) const { return places_.contains(name); }
  int64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  struct Entry {
    std::string name;
    std::vector<int64_t> extents;
    uint32_t type = 0;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // in the data
  };
  Error cannot_write() const;

  std::string path_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> places_;
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  int64_t tensor_bytes_ = 0;
  bool last_is_padded_ = false;
  std::ofstream file_;
};

/// Whether GGUF files hold a module's matrix in the codec that was chosen for it.
Status check_gguf_codec(const Result<Codec>& codec, int64_t cols, std::string_view module);
/// A stack has one type.
Error stack_in_part(std::string_view name);

}  // namespace vernier
