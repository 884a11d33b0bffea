#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>

#include "base/unfinished_output.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/strict_json.h"

namespace vernier {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors numbers are read as they lie in the file");

namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // of the reference implementation
constexpr size_t kMostExtents = 16;

using Json = nlohmann::json;

constexpr std::array kSafetensorsTypes = {
    SafetensorsType{"F32", 32, CodecId::kF32},
    SafetensorsType{"F16", 16, CodecId::kF16},
    SafetensorsType{"BF16", 16, CodecId::kBF16},
    SafetensorsType{"F64", 64, {}},
    SafetensorsType{"F8_E4M3", 8, {}},
    SafetensorsType{"F8_E5M2", 8, {}},
    SafetensorsType{"F8_E4M3FNUZ", 8, {}},
    SafetensorsType{"F8_E5M2FNUZ", 8, {}},
    SafetensorsType{"F8_E8M0", 8, {}},
    SafetensorsType{"F6_E2M3", 6, {}},
    SafetensorsType{"F6_E3M2", 6, {}},
    SafetensorsType{"F4", 4, {}},
    SafetensorsType{"I64", 64, {}},
    SafetensorsType{"I32", 32, {}},
    SafetensorsType{"I16", 16, {}},
    SafetensorsType{"I8", 8, {}},
    SafetensorsType{"U64", 64, {}},
    SafetensorsType{"U32", 32, {}},
    SafetensorsType{"U16", 16, {}},
    SafetensorsType{"U8", 8, {}},
    SafetensorsType{"BOOL", 8, {}},
    SafetensorsType{"C64", 64, {}},
};

/// A whole number from 0 to 2^63 - 1; floats such as 8.0 are none.
std::optional<uint64_t> whole_number(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return number;
}

struct Placed {
  SafetensorsTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<std::vector<int64_t>> read_extents(const std::string& shown, const Json& shape) {
  if (!shape.is_array() || shape.size() > kMostExtents) {
    return corrupt("tensor {}: \"shape\" must be an array of at most {} whole numbers", shown, kMostExtents);
  }
  std::vector<int64_t> extents;
  for (const Json& item : shape) {
    std::optional<uint64_t> extent = whole_number(item);
    if (!extent) return corrupt("tensor {}: \"shape\" holds {}, not a whole number", shown, printable(item.dump()));
    extents.push_back(static_cast<int64_t>(*extent));
  }
  return extents;
}

Result<Placed> read_entry(const std::string& name, const Json& entry) {
  std::string shown = printable(name);
  if (!entry.is_object()) return corrupt("tensor {}: its entry is not an object", shown);
  for (const auto& [key, value] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return corrupt("tensor {}: unknown field \"{}\"", shown, printable(key));
    }
  }
  if (!entry.contains("dtype") || !entry["dtype"].is_string()) {
    return corrupt("tensor {}: \"dtype\" must be a string", shown);
  }
  Placed placed;
  placed.tensor.name = name;
  auto dtype = entry["dtype"].get<std::string>();
  placed.tensor.type = safetensors_type(dtype);
  if (placed.tensor.type == nullptr) return unsupported("tensor {}: unknown dtype \"{}\"", shown, printable(dtype));
  TRY_BIND(placed.tensor.extents, read_extents(shown, entry.value("shape", Json())));

  Json offsets = entry.value("data_offsets", Json());
  std::optional<uint64_t> begin;
  std::optional<uint64_t> end;
  if (offsets.is_array() && offsets.size() == 2) {
    begin = whole_number(offsets[0]);
    end = whole_number(offsets[1]);
  }
  if (!begin || !end) return corrupt("tensor {}: \"data_offsets\" must be two whole numbers", shown);
  if (*begin > *end) return corrupt("tensor {}: begins at {} and ends before it, at {}", shown, *begin, *end);
  placed.begin = *begin;
  placed.end = *end;

  auto bits = static_cast<uint64_t>(placed.tensor.type->bits);
  bool fits = true;
  for (int64_t extent : placed.tensor.extents)
    fits = fits && checked_multiply(bits, static_cast<uint64_t>(extent), bits);
  if (!fits) return corrupt("tensor {}: its size does not fit in 64 bits", shown);
  if (bits % 8 != 0 || bits / 8 != *end - *begin) {
    return corrupt("tensor {}: {} of this shape takes {} bits, but its offsets span {} bytes", shown, dtype, bits,
                   *end - *begin);
  }
  return placed;
}

Result<std::map<std::string, std::string>> read_file_metadata(const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) return corrupt("__metadata__ must be an object of strings");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return corrupt("__metadata__: the value of \"{}\" must be a string", printable(key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

Status check_coverage(std::span<const Placed> placed, uint64_t data_bytes, uint64_t header_bytes) {
  uint64_t end = 0;
  for (size_t i = 0; i < placed.size(); ++i) {
    std::string shown = printable(placed[i].tensor.name);
    if (placed[i].begin < end) {
      return corrupt("tensors {} and {} overlap", printable(placed[i - 1].tensor.name), shown);
    }
    if (placed[i].begin > end) {
      return corrupt("{} bytes before tensor {} belong to no tensor", placed[i].begin - end, shown);
    }
    end = placed[i].end;
  }
  uint64_t file_bytes = 8 + header_bytes + data_bytes;
  if (end > data_bytes) {
    return corrupt("the header describes a file of {} bytes, but it has {}; is the download complete?",
                   8 + header_bytes + end, file_bytes);
  }
  if (end < data_bytes) {
    return corrupt(
        "{} bytes after the last tensor belong to no tensor: the header describes a file of {} bytes, but it "
        "has {}",
        data_bytes - end, 8 + header_bytes + end, file_bytes);
  }
  return {};
}

}  // namespace

const SafetensorsType* safetensors_type(std::string_view name) {
  const auto* found = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                   [name](const SafetensorsType& type) { return type.name == name; });
  return found == kSafetensorsTypes.end() ? nullptr : found;
}

Result<std::shared_ptr<const Safetensors>> Safetensors::open(const std::string& path) {
  TRY_BIND(std::shared_ptr<const FileMap> file, FileMap::open(path));
  std::shared_ptr<Safetensors> opened(new Safetensors(std::move(file)));
  if (Status status = opened->read(); !status.ok()) {
    Error error = std::move(status).error();
    error.where = path;
    return error;
  }
  return std::shared_ptr<const Safetensors>(std::move(opened));
}

Status Safetensors::read() {
  std::span<const std::byte> file = file_->bytes();
  ByteReader reader(file);
  uint64_t header_bytes = 0;
  if (!reader.read(header_bytes))
    return corrupt("the file has {} bytes; a safetensors file has at least 10", file.size());
  if (header_bytes > kLongestHeader) {
    return corrupt("the header length {} is above the limit of {}; not a safetensors file?", header_bytes,
                   kLongestHeader);
  }
  if (header_bytes < 2 || header_bytes > reader.remaining()) {
    return corrupt("the header length is {}, and {} bytes follow; not a safetensors file, or not all of it",
                   header_bytes, reader.remaining());
  }
  std::string_view header(reinterpret_cast<const char*>(file.data() + 8), static_cast<size_t>(header_bytes));
  if (header.front() != '{') return corrupt("the header must begin with '{{'; not a safetensors file?");
  auto parsed = parse_strict_json(header);
  if (!parsed.ok()) return corrupt("the header is wrong: {}", parsed.error().message);
  if (!parsed->is_object()) return corrupt("the header is not a JSON object");

  std::vector<Placed> placed;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") {
      TRY_BIND(metadata_, read_file_metadata(entry));
      continue;
    }
    TRY_BIND(Placed tensor, read_entry(name, entry));
    placed.push_back(std::move(tensor));
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::span<const std::byte> data = file.subspan(8 + static_cast<size_t>(header_bytes));
  TRY_STATUS(check_coverage(placed, data.size(), header_bytes));
  for (Placed& item : placed) {
    item.tensor.bytes = data.subspan(item.begin, item.end - item.begin);
    tensors_.push_back(std::move(item.tensor));
  }
  return {};
}

Status write_safetensors(const std::string& path, std::span<const NamedNumbers> tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const NamedNumbers& tensor : tensors) {
    uint64_t elements = 1;
    for (int64_t extent : tensor.extents) {
      if (extent < 0 || !checked_multiply(elements, static_cast<uint64_t>(extent), elements)) elements = UINT64_MAX;
    }
    if (elements != tensor.bytes().size() / 4) {
      return invalid_argument("tensor {}: {} numbers do not fill its shape", tensor.name, tensor.bytes().size() / 4);
    }
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      return invalid_argument("tensor {}: the name is reserved or stands twice", tensor.name);
    }
    uint64_t end = offset + tensor.bytes().size();
    const bool is_float = std::holds_alternative<std::span<const float>>(tensor.values);
    header[tensor.name] = {
        {"dtype", is_float ? "F32" : "I32"}, {"shape", tensor.extents}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& failure) {
    return invalid_argument("a tensor name is not UTF-8: {}", printable(failure.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t header_bytes = text.size();

  return write_whole(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const NamedNumbers& tensor : tensors) {
      out.write(reinterpret_cast<const char*>(tensor.bytes().data()),
                static_cast<std::streamsize>(tensor.bytes().size()));
    }
  });
}

}  // namespace vernier
