#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/gguf.h"

namespace vernier {

/// A model in one GGUF file or in several ("NAME-00001-of-00003.gguf", ...), whose tensors are one table. The first
/// part carries the metadata. Immutable; any thread may read.
class GgufParts {
 public:
  struct Entry {
    const GgufTensor* tensor;
    size_t part;
  };

  /// `path` is the file, any of its parts, or a folder that holds one model. Refuses a missing, swapped or repeated
  /// part, a tensor that stands in two parts, parts whose metadata disagree, and a folder with several models.
  static Result<std::shared_ptr<const GgufParts>> open(const std::string& path);

  const Gguf& first() const { return *files_.front(); }
  std::shared_ptr<const Gguf> first_file() const { return files_.front(); }
  std::span<const std::shared_ptr<const Gguf>> files() const { return files_; }
  std::span<const Entry> tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;  ///< null where no part has it

 private:
  GgufParts() = default;
  Status check_part(size_t index) const;
  Status collect_tensors();

  std::vector<std::shared_ptr<const Gguf>> files_;
  std::vector<Entry> tensors_;
  std::unordered_map<std::string_view, size_t> names_;
};

/// Whether a folder holds a GGUF file that is a model (files named mmproj* hold picture encoders and do not count).
bool has_gguf(const std::string& folder);

}  // namespace vernier
