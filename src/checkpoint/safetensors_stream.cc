#include "checkpoint/safetensors_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint/byte_reader.h"
#include "checkpoint/safetensors.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kAlignment = 8;
/// Of one tensor in the header, beside its name: type, extents, offsets.
constexpr int64_t kEntryBytes = 200;

}  // namespace

std::string SafetensorsStream::partial_path(size_t shard) const {
  return (fs::path(folder_) / fmt::format("shard-{:05}.partial", shard)).string();
}

Error SafetensorsStream::cannot_write() const {
  return make_error(ErrorCode::kInternal, "cannot write into {}: {}", folder_, std::strerror(errno));
}

Status SafetensorsStream::add(const std::string& name, std::string_view type, std::vector<int64_t> extents,
                              std::span<const std::byte> bytes) {
  const SafetensorsType* known = safetensors_type(type);
  int64_t bits = known == nullptr ? 0 : known->bits;
  for (int64_t extent : extents) bits *= extent;
  if (bits <= 0 || static_cast<size_t>(bits / 8) != bytes.size()) {
    return invalid_argument("tensor {}: {} bytes do not fill its shape as {}", printable(name), bytes.size(), type);
  }
  const auto place = std::ranges::lower_bound(names_, name);
  if (place != names_.end() && *place == name) return corrupt("tensor {} would stand there twice", printable(name));
  names_.insert(place, name);
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t entry = static_cast<int64_t>(name.size()) + kEntryBytes;
  const bool is_full = file_.is_open() && (shard_used_ + size > options_.shard_bytes ||
                                           header_used_ + entry > options_.header_bytes - kAlignment);
  if (is_full) TRY_STATUS(end_shard());
  if (!file_.is_open()) TRY_STATUS(begin_shard());
  header_used_ += entry;
  shard_used_ += size;
  written_bytes_ += size;
  shards_.back().push_back(name);
  if (size % kAlignment == 0) return write(name, type, extents, bytes);
  held_.push_back(
      {name, std::string(type), std::move(extents), {bytes.begin(), bytes.end()}, std::max(known->bits / 8, 1)});
  return {};
}

Status SafetensorsStream::begin_shard() {
  shards_.emplace_back();
  header_ = OrderedJson::object();
  header_["__metadata__"] = {{"format", "pt"}};
  header_used_ = kEntryBytes;
  shard_used_ = offset_ = 0;
  file_.open(partial_path(shards_.size()), std::ios::binary | std::ios::trunc);
  const std::string room(static_cast<size_t>(options_.header_bytes), ' ');
  file_.write(room.data(), static_cast<std::streamsize>(room.size()));
  if (!file_) return cannot_write();
  return {};
}

Status SafetensorsStream::write(const std::string& name, std::string_view type, const std::vector<int64_t>& extents,
                                std::span<const std::byte> bytes) {
  const int64_t end = offset_ + static_cast<int64_t>(bytes.size());
  header_[name] = {{"dtype", type}, {"shape", extents}, {"data_offsets", {offset_, end}}};
  offset_ = end;
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file_) return cannot_write();
  return {};
}

Status SafetensorsStream::end_shard() {
  std::ranges::stable_sort(held_, std::greater<>(), &Held::element_bytes);
  for (const Held& tensor : held_) TRY_STATUS(write(tensor.name, tensor.type, tensor.extents, tensor.bytes));
  held_.clear();
  std::string text;
  try {
    text = header_.dump();
  } catch (const OrderedJson::exception& failure) {
    return invalid_argument("a tensor name is not UTF-8: {}", printable(failure.what()));
  }
  const uint64_t header_bytes = static_cast<uint64_t>(options_.header_bytes - kAlignment);
  if (text.size() > header_bytes) return make_error(ErrorCode::kInternal, "a header of {} bytes", text.size());
  file_.seekp(0);
  file_.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  file_.close();
  if (!file_) return cannot_write();
  return {};
}

Status SafetensorsStream::finish() {
  if (!file_.is_open()) return invalid_argument("a model without tensors");
  TRY_STATUS(end_shard());
  OrderedJson map = OrderedJson::object();
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::string name = shards_.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
    std::error_code failure;
    fs::rename(partial_path(i + 1), fs::path(folder_) / name, failure);
    if (failure) return make_error(ErrorCode::kInternal, "cannot name {}: {}", name, failure.message());
    for (const std::string& tensor : shards_[i]) map[tensor] = name;
  }
  if (shards_.size() == 1) return {};
  std::ofstream index(fs::path(folder_) / "model.safetensors.index.json", std::ios::binary | std::ios::trunc);
  index << OrderedJson{{"metadata", {{"total_size", written_bytes_}}}, {"weight_map", std::move(map)}}.dump(2) << '\n';
  index.close();
  if (!index) return cannot_write();
  return {};
}

}  // namespace vernier
