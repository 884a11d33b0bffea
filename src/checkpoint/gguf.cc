#include "checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "checkpoint/byte_reader.h"

namespace vernier {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie in the file");

namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
// Smallest record of each table, so that a count is bounded by the bytes that are left: a key's length, its type and
// one byte of value; a name's length, rank, one extent, type and offset.
constexpr uint64_t kSmallestEntryBytes = 8 + 4 + 1;
constexpr uint64_t kSmallestTensorBytes = 8 + 4 + 8 + 4 + 8;
constexpr uint64_t kLargestAlignment = uint64_t{1} << 20;

template <class T>
T load(std::span<const std::byte> bytes, size_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> load_integer(GgufType type, std::span<const std::byte> bytes, size_t index) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(bytes, index);
    case GgufType::kI8:
      return load<int8_t>(bytes, index);
    case GgufType::kU16:
      return load<uint16_t>(bytes, index);
    case GgufType::kI16:
      return load<int16_t>(bytes, index);
    case GgufType::kU32:
      return load<uint32_t>(bytes, index);
    case GgufType::kI32:
      return load<int32_t>(bytes, index);
    case GgufType::kU64: {
      auto value = load<uint64_t>(bytes, index);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    case GgufType::kI64:
      return load<int64_t>(bytes, index);
    default:
      return std::nullopt;
  }
}

std::optional<double> load_number(GgufType type, std::span<const std::byte> bytes, size_t index) {
  if (type == GgufType::kF32) return static_cast<double>(load<float>(bytes, index));
  if (type == GgufType::kF64) return load<double>(bytes, index);
  return std::nullopt;
}

}  // namespace

std::string GgufValue::type_name() const {
  return is_array() ? fmt::format("array of {}", name(element_)) : std::string(name(type_));
}

std::optional<int64_t> GgufValue::as_integer() const {
  return load_integer(type_, bytes_, 0);
}
std::optional<double> GgufValue::as_number() const {
  return load_number(type_, bytes_, 0);
}

std::optional<bool> GgufValue::as_bool() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return bytes_[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type_ != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
}

std::optional<std::vector<std::string_view>> GgufValue::as_strings() const {
  if (!is_array() || element_ != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> out(count_);
  ByteReader reader(bytes_);
  for (std::string_view& text : out) CHECK(reader.read_string(text), "a string array that was checked ended early");
  return out;
}

std::optional<std::vector<int64_t>> GgufValue::as_integers() const {
  if (!is_array()) return std::nullopt;
  std::vector<int64_t> out;
  for (size_t i = 0; i < count_; ++i) {
    std::optional<int64_t> value = load_integer(element_, bytes_, i);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<double>> GgufValue::as_numbers() const {
  if (!is_array()) return std::nullopt;
  std::vector<double> out;
  for (size_t i = 0; i < count_; ++i) {
    std::optional<double> value = load_number(element_, bytes_, i);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::span<const std::byte> GgufValue::elements(GgufType element) const {
  if (!is_array() || element_ != element || element == GgufType::kString) return {};
  return bytes_;
}

bool GgufValue::operator==(const GgufValue& other) const {
  return type_ == other.type_ && element_ == other.element_ && count_ == other.count_ &&
         std::equal(bytes_.begin(), bytes_.end(), other.bytes_.begin(), other.bytes_.end());
}

Result<std::shared_ptr<const Gguf>> Gguf::open(const std::string& path) {
  TRY_BIND(std::shared_ptr<const FileMap> file, FileMap::open(path));
  std::shared_ptr<Gguf> gguf(new Gguf(std::move(file)));
  if (Status status = gguf->read(); !status.ok()) {
    Error error = std::move(status).error();
    error.where = path;
    return error;
  }
  return std::shared_ptr<const Gguf>(std::move(gguf));
}

Status Gguf::read() {
  ByteReader reader(file_->bytes());
  uint32_t magic = 0;
  if (!reader.read(magic) || magic != kMagic) return corrupt("not a GGUF file: it does not begin with \"GGUF\"");
  if (!reader.read(version_)) return corrupt("the file ends inside its header of 24 bytes; is the download complete?");
  if (version_ != 0 && (version_ & 0xffff) == 0) {
    return unsupported("a big-endian GGUF file; convert it to little-endian");
  }
  if (version_ != 2 && version_ != 3) {
    return unsupported("GGUF version {}; versions 2 and 3 can be read, so convert the model again", version_);
  }
  uint64_t tensor_count = 0;
  uint64_t metadata_count = 0;
  if (!reader.read(tensor_count) || !reader.read(metadata_count)) {
    return corrupt("the file ends inside its header of 24 bytes; is the download complete?");
  }
  if (metadata_count > reader.remaining() / kSmallestEntryBytes) {
    return corrupt("the header announces {} metadata entries, but only {} bytes follow", metadata_count,
                   reader.remaining());
  }
  TRY_STATUS(read_metadata(reader, metadata_count));
  TRY_STATUS(read_alignment());
  if (tensor_count > reader.remaining() / kSmallestTensorBytes) {
    return corrupt("the header announces {} tensors, but only {} bytes follow the metadata", tensor_count,
                   reader.remaining());
  }
  std::vector<uint64_t> offsets;
  tensors_.reserve(tensor_count);
  offsets.reserve(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) TRY_STATUS(read_tensor(reader, i, offsets));
  uint64_t data_begin = (reader.offset() + alignment_ - 1) / alignment_ * alignment_;
  return place_tensors(data_begin, offsets);
}

namespace {

Result<GgufValue> read_array(ByteReader& reader, std::string_view key) {
  uint32_t element_id = 0;
  uint64_t count = 0;
  if (!reader.read(element_id) || !reader.read(count)) return corrupt("key {}: the file ends here", printable(key));
  if (element_id > static_cast<uint32_t>(GgufType::kF64)) {
    return corrupt("key {}: array of unknown value type {}", printable(key), element_id);
  }
  auto element = static_cast<GgufType>(element_id);
  if (element == GgufType::kArray) return unsupported("key {}: an array of arrays is not supported", printable(key));
  size_t begin = reader.offset();
  if (element == GgufType::kString) {
    if (count > reader.remaining() / sizeof(uint64_t)) {
      return corrupt("key {}: an array of {} strings, but only {} bytes follow", printable(key), count,
                     reader.remaining());
    }
    std::string_view text;
    for (uint64_t i = 0; i < count; ++i) {
      if (!reader.read_string(text)) {
        return corrupt("key {}: string {} of {} runs past the end of the file", printable(key), i, count);
      }
    }
  } else {
    uint64_t bytes = 0;
    if (!checked_multiply(count, size_bytes(element), bytes) || !reader.skip(bytes)) {
      return corrupt("key {}: an array of {} {}, but only {} bytes follow", printable(key), count, name(element),
                     reader.remaining());
    }
  }
  return GgufValue(GgufType::kArray, element, count, reader.since(begin));
}

Result<GgufValue> read_value(ByteReader& reader, std::string_view key) {
  uint32_t type_id = 0;
  if (!reader.read(type_id)) return corrupt("key {}: the file ends before its value", printable(key));
  if (type_id > static_cast<uint32_t>(GgufType::kF64)) {
    return corrupt("key {}: unknown value type {}", printable(key), type_id);
  }
  auto type = static_cast<GgufType>(type_id);
  if (type == GgufType::kArray) return read_array(reader, key);
  if (type == GgufType::kString) {
    std::string_view text;
    if (!reader.read_string(text)) {
      return corrupt("key {}: its string runs past the end of the file", printable(key));
    }
    return GgufValue(type, type, 1, std::as_bytes(std::span(text)));
  }
  size_t begin = reader.offset();
  if (!reader.skip(size_bytes(type))) return corrupt("key {}: the file ends inside its value", printable(key));
  GgufValue value(type, type, 1, reader.since(begin));
  if (type == GgufType::kBool && load<uint8_t>(reader.since(begin)) > 1) {
    return corrupt("key {}: a bool must be 0 or 1, found {}", printable(key), load<uint8_t>(reader.since(begin)));
  }
  return value;
}

}  // namespace

Status Gguf::read_metadata(ByteReader& reader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    if (!reader.read_string(key)) {
      return corrupt("metadata entry {} of {}: its key runs past the end of the file", i, count);
    }
    TRY_BIND(GgufValue value, read_value(reader, key));
    if (!keys_.emplace(key, metadata_.size()).second) {
      return corrupt("metadata key {} stands there twice", printable(key));
    }
    metadata_.emplace_back(key, value);
  }
  return {};
}

Status Gguf::read_alignment() {
  const GgufValue* value = find("general.alignment");
  if (value == nullptr) return {};
  if (value->type() != GgufType::kU32) {
    return corrupt("general.alignment must be a u32, found {}", value->type_name());
  }
  auto alignment = static_cast<uint64_t>(*value->as_integer());
  if (!std::has_single_bit(alignment) || alignment > kLargestAlignment) {
    return corrupt("general.alignment must be a power of two up to {}, found {}", kLargestAlignment, alignment);
  }
  alignment_ = alignment;
  return {};
}

Status Gguf::read_tensor(ByteReader& reader, uint64_t index, std::vector<uint64_t>& offsets) {
  GgufTensor tensor;
  if (!reader.read_string(tensor.name)) return corrupt("tensor {}: its name runs past the end of the file", index);
  std::string shown = printable(tensor.name);
  uint32_t rank = 0;
  if (!reader.read(rank)) return corrupt("tensor {}: the file ends inside the tensor table", shown);
  if (rank < 1 || rank > 4) return corrupt("tensor {}: {} dimensions; 1 to 4 are possible", shown, rank);
  tensor.rank = static_cast<int>(rank);
  uint64_t elements = 1;
  for (uint32_t axis = 0; axis < rank; ++axis) {
    uint64_t extent = 0;
    if (!reader.read(extent)) return corrupt("tensor {}: the file ends inside the tensor table", shown);
    bool fits = extent <= static_cast<uint64_t>(INT64_MAX) && checked_multiply(elements, extent, elements);
    if (extent == 0 || !fits || elements > static_cast<uint64_t>(INT64_MAX)) {
      return corrupt("tensor {}: dimension {} is {}; extents must be positive and their product fit in 63 bits", shown,
                     axis, static_cast<int64_t>(extent));
    }
    tensor.extents[axis] = extent;
  }
  uint32_t type_id = 0;
  uint64_t offset = 0;
  if (!reader.read(type_id) || !reader.read(offset)) {
    return corrupt("tensor {}: the file ends inside the tensor table", shown);
  }
  tensor.type = ggml_type(type_id);
  if (tensor.type == nullptr) return unsupported("tensor {}: tensor type {} is unknown or withdrawn", shown, type_id);
  if (tensor.extents[0] % tensor.type->block_elements != 0) {
    return corrupt("tensor {}: rows of {} numbers are no multiple of the {} in a block of {}", shown, tensor.extents[0],
                   tensor.type->block_elements, tensor.type->name);
  }
  tensors_.push_back(tensor);
  offsets.push_back(offset);
  return {};
}

Status Gguf::place_tensors(uint64_t data_begin, const std::vector<uint64_t>& offsets) {
  std::span<const std::byte> file = file_->bytes();
  if (data_begin > file.size()) {
    if (tensors_.empty()) return {};
    return corrupt("the file has {} bytes, and tensor data should begin at {}; is the download complete?", file.size(),
                   data_begin);
  }
  uint64_t data_bytes = file.size() - data_begin;
  std::unordered_map<std::string_view, size_t> names;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    std::string shown = printable(tensor.name);
    if (!names.emplace(tensor.name, i).second) return corrupt("tensor {} stands there twice", shown);
    uint64_t bytes = 0;
    if (!checked_multiply(tensor.elements() / tensor.type->block_elements, tensor.type->block_bytes, bytes)) {
      return corrupt("tensor {}: its size does not fit in 64 bits", shown);
    }
    if (offsets[i] % alignment_ != 0) {
      return corrupt("tensor {}: offset {} is no multiple of the alignment {}", shown, offsets[i], alignment_);
    }
    if (offsets[i] > data_bytes || bytes > data_bytes - offsets[i]) {
      return corrupt(
          "tensor {}: needs {} bytes at offset {}, but the file of {} bytes holds {} bytes of tensor data; "
          "is the download complete?",
          shown, bytes, offsets[i], file.size(), data_bytes);
    }
    tensor.bytes = file.subspan(data_begin + offsets[i], bytes);
  }

  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  uint64_t end = 0;  // of the tensors so far, padded
  for (size_t k = 0; k < order.size(); ++k) {
    const GgufTensor& tensor = tensors_[order[k]];
    uint64_t begin = offsets[order[k]];
    if (begin < end) {
      return corrupt("tensors {} and {} overlap", printable(tensors_[order[k - 1]].name), printable(tensor.name));
    }
    if (begin > end) {
      return corrupt("{} bytes before tensor {} belong to no tensor", begin - end, printable(tensor.name));
    }
    end = (begin + tensor.bytes.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  trailing_bytes_ = data_bytes > end ? data_bytes - end : 0;
  return {};
}

const GgufValue* Gguf::find(std::string_view key) const {
  auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].second;
}

Error Gguf::wrong_type(std::string_view key, std::string_view expected) const {
  Error error = corrupt("metadata key {} must be {}, found {}", printable(key), expected, find(key)->type_name());
  error.where = path();
  return error;
}

Result<std::optional<int64_t>> Gguf::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (std::optional<int64_t> integer = value->as_integer()) return integer;
  return wrong_type(key, "an integer");
}

Result<std::optional<double>> Gguf::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (std::optional<double> number = value->as_number()) return number;
  if (std::optional<int64_t> integer = value->as_integer()) return std::optional(static_cast<double>(*integer));
  return wrong_type(key, "a number");
}

Result<std::optional<bool>> Gguf::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (std::optional<bool> boolean = value->as_bool()) return boolean;
  return wrong_type(key, "a bool");
}

Result<std::optional<std::string_view>> Gguf::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (std::optional<std::string_view> text = value->as_string()) return text;
  return wrong_type(key, "a string");
}

}  // namespace vernier
