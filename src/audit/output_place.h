#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace vernier {

/// Where a model is written: a folder, or a GGUF file. What stands there stays until the model is whole, and what is no
/// part of a model stays for good.
class OutputPlace {
 public:
  /// Refuses a place that is the source, holds it or lies in it, and one where something stands that may not be
  /// replaced: without `overwrite` anything but an empty folder, with it what is no checkpoint of this kind.
  static Result<OutputPlace> make(const std::string& out, const Checkpoint& source, bool overwrite);

  /// Where to write: beside the place, so that the last step is a rename.
  const std::filesystem::path& partial() const { return partial_; }
  /// The folders above a model that is a folder itself.
  Status make_parent() const;
  /// Gives the finished model its name. On failure what stood there stands there again.
  Status put() const;

 private:
  OutputPlace(std::filesystem::path out, std::filesystem::path partial)
      : out_(std::move(out)), partial_(std::move(partial)) {}
  Status replace_folder() const;

  std::filesystem::path out_;
  std::filesystem::path partial_;
};

}  // namespace vernier
