#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace vernier {

/// Writes a model's safetensors files while its tensors are made, one at a time: nothing but tensors of odd sizes is
/// kept in memory. A file that has grown to the limit is closed and another begun; `finish` names them and writes the
/// index, or "model.safetensors" where one was enough. Every tensor begins at a multiple of its element, which readers
/// that map files need and the format does not promise. One thread.
class SafetensorsStream {
 public:
  struct Options {
    int64_t shard_bytes = int64_t{5} << 30;
    int64_t header_bytes = 1 << 20;  ///< room for the header of one file
  };

  SafetensorsStream(std::string folder, Options options) : folder_(std::move(folder)), options_(options) {}

  /// `type` as the format calls it. Refuses a name that stands there already, and bytes that do not fill the extents.
  Status add(const std::string& name, std::string_view type, std::vector<int64_t> extents,
             std::span<const std::byte> bytes);
  Status finish();

  int64_t written_bytes() const { return written_bytes_; }  ///< of tensors

 private:
  struct Held {
    std::string name;
    std::string type;
    std::vector<int64_t> extents;
    std::vector<std::byte> bytes;
    int element_bytes;
  };

  Status begin_shard();
  Status end_shard();
  Status write(const std::string& name, std::string_view type, const std::vector<int64_t>& extents,
               std::span<const std::byte> bytes);
  std::string partial_path(size_t shard) const;
  Error cannot_write() const;

  std::string folder_;
  Options options_;
  std::ofstream file_;
  nlohmann::ordered_json header_;
  int64_t header_used_ = 0;
  int64_t shard_used_ = 0;  // bytes of tensors, those that are held too
  int64_t offset_ = 0;
  std::vector<Held> held_;  // tensors whose size is no multiple of 8, for the end of the file
  std::vector<std::vector<std::string>> shards_;
  std::vector<std::string> names_;  // sorted
  int64_t written_bytes_ = 0;
};

}  // namespace vernier
