#include "audit/gguf_output.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "audit/gguf_blocks_of.h"
#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

constexpr uint64_t kAlignment = 32;

uint32_t file_type(const QuantTarget& target) {
  constexpr std::array<std::pair<std::string_view, uint32_t>, 15> kTypes = {{
      {"f32", 0},
      {"f16", 1},
      {"q4_0", 2},
      {"q4_1", 3},
      {"q8_0", 7},
      {"q5_0", 8},
      {"q5_1", 9},
      {"q2_k", 10},
      {"q3_k", 12},
      {"q4_k", 14},
      {"q5_k", 16},
      {"q6_k", 18},
      {"bf16", 32},
      {"mxfp4", 38},
      {"nvfp4", 39},
  }};
  for (const auto& [name, type] : kTypes) {
    if (name == target.name) return type;
  }
  return 0;
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view value) {
  put(bytes, static_cast<uint64_t>(value.size()));
  bytes.append(value);
}

void put_raw(std::string& bytes, std::span<const std::byte> value) {
  bytes.append(reinterpret_cast<const char*>(value.data()), value.size());
}

std::string scale_beside(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.')) + ".scale";
}

}  // namespace

void GgufMetadata::key(std::string_view name, GgufType type) {
  ++count_;
  put_text(bytes_, name);
  put(bytes_, static_cast<uint32_t>(type));
}

void GgufMetadata::array(std::string_view name, GgufType type, size_t count) {
  key(name, GgufType::kArray);
  put(bytes_, static_cast<uint32_t>(type));
  put(bytes_, static_cast<uint64_t>(count));
}

void GgufMetadata::add(std::string_view name, const GgufValue& value) {
  if (value.is_array()) {
    array(name, value.element_type(), value.count());
  } else {
    key(name, value.type());
    if (value.type() == GgufType::kString) put(bytes_, static_cast<uint64_t>(value.raw().size()));
  }
  put_raw(bytes_, value.raw());
}

void GgufMetadata::text(std::string_view name, std::string_view value) {
  key(name, GgufType::kString);
  put_text(bytes_, value);
}

void GgufMetadata::u32(std::string_view name, uint32_t value) {
  key(name, GgufType::kU32);
  put(bytes_, value);
}

void GgufMetadata::i32(std::string_view name, int32_t value) {
  key(name, GgufType::kI32);
  put(bytes_, value);
}

void GgufMetadata::f32(std::string_view name, float value) {
  key(name, GgufType::kF32);
  put(bytes_, value);
}

void GgufMetadata::boolean(std::string_view name, bool value) {
  key(name, GgufType::kBool);
  put(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufMetadata::texts(std::string_view name, std::span<const std::string_view> values) {
  array(name, GgufType::kString, values.size());
  for (std::string_view value : values) put_text(bytes_, value);
}

void GgufMetadata::i32s(std::string_view name, std::span<const int32_t> values) {
  array(name, GgufType::kI32, values.size());
  put_raw(bytes_, std::as_bytes(values));
}

void GgufMetadata::f32s(std::string_view name, std::span<const float> values) {
  array(name, GgufType::kF32, values.size());
  put_raw(bytes_, std::as_bytes(values));
}

void GgufMetadata::bools(std::string_view name, const std::vector<bool>& values) {
  array(name, GgufType::kBool, values.size());
  for (bool value : values) put(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufMetadata::add_file_type(const QuantTarget& target) {
  u32("general.file_type", file_type(target));
  u32("general.quantization_version", 2);
}

Error GgufOutput::cannot_write() const {
  return make_error(ErrorCode::kInternal, "cannot write {}: {}", path_,
                    errno != 0 ? std::strerror(errno) : "the reason is not known");
}

Status GgufOutput::open() {
  errno = 0;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) return cannot_write();
  return {};
}

Status GgufOutput::add(const std::string& name, std::vector<int64_t> extents, std::string_view type) {
  const GgmlType* row = ggml_type_named(type);
  if (row == nullptr) return unsupported("{}: GGUF files hold no {}", printable(name), type);
  uint64_t elements = 1;
  for (int64_t extent : extents) elements *= static_cast<uint64_t>(extent);
  Entry entry{name, std::move(extents), row->id, elements / row->block_elements * row->block_bytes, data_bytes_};
  data_bytes_ += (entry.bytes + kAlignment - 1) / kAlignment * kAlignment;
  last_is_padded_ = entry.bytes % kAlignment != 0;
  tensor_bytes_ += static_cast<int64_t>(entry.bytes);
  places_.emplace(name, entries_.size());
  entries_.push_back(std::move(entry));
  return {};
}

Status GgufOutput::write_head(const GgufMetadata& metadata) {
  std::string head = "GGUF";
  put(head, uint32_t{3});
  put(head, static_cast<uint64_t>(entries_.size()));
  put(head, metadata.count());
  head += metadata.bytes();
  for (const Entry& entry : entries_) {
    put_text(head, entry.name);
    put(head, static_cast<uint32_t>(entry.extents.size()));
    for (size_t i = entry.extents.size(); i-- > 0;) put(head, static_cast<uint64_t>(entry.extents[i]));
    put(head, entry.type);
    put(head, entry.offset);
  }
  head.resize((head.size() + kAlignment - 1) / kAlignment * kAlignment);
  data_begin_ = head.size();
  errno = 0;
  file_.write(head.data(), static_cast<std::streamsize>(head.size()));
  if (!file_) return cannot_write();
  return {};
}

Status GgufOutput::write(const std::string& name, std::span<const std::byte> bytes, size_t place) {
  const Entry& entry = entries_[places_.at(name)];
  if (bytes.empty() || entry.bytes % bytes.size() != 0 || (place + 1) * bytes.size() > entry.bytes) {
    return make_error(ErrorCode::kInternal, "{}: {} bytes at {}, expected {} together", name, bytes.size(), place,
                      entry.bytes);
  }
  errno = 0;
  file_.seekp(static_cast<std::streamoff>(data_begin_ + entry.offset + place * bytes.size()));
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file_) return cannot_write();
  return {};
}

Status GgufOutput::finish() {
  errno = 0;
  // The last tensor is padded, too.
  file_.seekp(static_cast<std::streamoff>(data_begin_ + data_bytes_) - 1);
  if (last_is_padded_) file_.put('\0');
  file_.close();
  if (!file_) return cannot_write();
  return {};
}

Status GgufOutput::add_matrix(const std::string& name, std::vector<int64_t> extents, const Codec& codec,
                              int64_t count) {
  TRY_STATUS(add(name, std::move(extents), gguf_type_of(codec)));
  return codec.outer_scale ? add(scale_beside(name), {count}, "F32") : Status();
}

Status GgufOutput::write_matrix(const std::string& name, const QTensor& matrix, size_t place) {
  if (matrix.codec().outer_scale) {
    const float outer = matrix.view().outer_scales.front();
    TRY_STATUS(write(scale_beside(name), std::as_bytes(std::span(&outer, 1)), place));
  }
  return write(name, gguf_blocks_of(matrix), place);
}

Status check_gguf_codec(const Result<Codec>& codec, int64_t cols, std::string_view module) {
  if (!codec.ok()) return Error{codec.error().code, codec.error().message, printable(module)};
  if (codec->id != CodecId::kNvfp4 || cols % 64 == 0) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("{} columns are no multiple of 64, the block of NVFP4 in GGUF files; --keep leaves a module "
                           "as it is",
                           cols),
               printable(module)};
}

Error stack_in_part(std::string_view name) {
  return Error{ErrorCode::kUnsupported, "its experts are stacked in one tensor, of which --keep leaves all or none",
               printable(name)};
}

}  // namespace vernier
