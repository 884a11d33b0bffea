#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>

#include "audit/gguf_blocks_of.h"
#include "audit/model_writer.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/expert_stacks.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/gguf_types.h"

namespace vernier {

namespace {

constexpr uint64_t kAlignment = 32;

/// general.file_type, by which tools show what most of a file is.
uint32_t file_type(const QuantTarget& target) {
  constexpr std::array<std::pair<std::string_view, uint32_t>, 16> kTypes = {{
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

/// Little-endian numbers and texts, as the head of a GGUF file has them.
class HeadBytes {
 public:
  template <class T>
  HeadBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  HeadBytes& text(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  HeadBytes& raw(std::span<const std::byte> value) {
    bytes_.append(reinterpret_cast<const char*>(value.data()), value.size());
    return *this;
  }
  HeadBytes& value(std::string_view key, const GgufValue& value) {
    text(key).number(static_cast<uint32_t>(value.type()));
    if (value.is_array()) {
      number(static_cast<uint32_t>(value.element_type())).number(value.count());
    } else if (value.type() == GgufType::kString) {
      number(static_cast<uint64_t>(value.raw().size()));
    }
    return raw(value.raw());
  }
  HeadBytes& value_u32(std::string_view key, uint32_t value) {
    return text(key).number(static_cast<uint32_t>(GgufType::kU32)).number(value);
  }
  void pad() { bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// One tensor of the file that is written.
struct Entry {
  std::string name;
  std::vector<int64_t> extents;  // outermost first
  uint32_t type = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the data
  const StoredTensor* source = nullptr;
};

class GgufFileWriter final : public ModelWriter {
 public:
  GgufFileWriter(const Checkpoint& checkpoint, std::string partial)
      : checkpoint_(checkpoint), partial_(std::move(partial)) {}

  Status begin(const QuantiseJob& job) {
    TRY_BIND(parts_, GgufParts::open(checkpoint_.path()));
    TRY_STATUS(choose_codecs(job.request));
    TRY_STATUS(lay_out());
    return write_head(job.request.target);
  }

  Result<Codec> kept_codec(const QTensor& matrix) const override { return matrix.codec(); }

  Status matrix(const WeightPart& part, const StoredTensor& stored, const QTensor& matrix) override {
    const std::string name = stack_of(stored.file_name);
    const size_t place = place_in_stack(stored.file_name);
    if (!changed_.contains(name)) return {};
    QTensor rows = matrix;
    if (checkpoint_.dialect().rope_rows_interleaved && part.rope_heads > 0) {
      const std::vector<int64_t> order = deinterleaved_rows(part.rows, part.rope_heads);
      std::vector<int64_t> back(order.size());
      for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
      TRY_BIND(rows, matrix.permute_rows(back));
    }
    if (rows.codec().outer_scale) {
      const float outer = rows.view().outer_scales.front();
      TRY_STATUS(write_at(scale_name(name), std::as_bytes(std::span(&outer, 1)), place));
    }
    return write_at(name, gguf_blocks_of(rows), place);
  }

  Status others(const LoadReport&) override {
    for (const Entry& entry : entries_) {
      if (entry.source == nullptr || changed_.contains(entry.name)) continue;
      TRY_STATUS(write_at(entry.name, {entry.source->bytes.data(), entry.bytes}));
      entry.source->data().release_pages();
    }
    return {};
  }

  Status finish() override {
    // The last tensor is padded, too.
    file_.seekp(static_cast<std::streamoff>(data_begin_ + data_bytes_) - 1);
    if (last_is_padded_) file_.put('\0');
    file_.close();
    if (!file_) return cannot_write();
    return {};
  }
  int64_t written_bytes() const override { return tensor_bytes_; }

 private:
  static std::string scale_name(const std::string& name) { return name.substr(0, name.rfind('.')) + ".scale"; }
  Error cannot_write() const { return make_error(ErrorCode::kInternal, "cannot write {}", partial_); }

  /// Which tensors will change and to what, known before any number is read.
  Status choose_codecs(const QuantiseRequest& request) {
    TRY_BIND(WeightQuantiser quantiser, WeightQuantiser::make(checkpoint_, request));
    Status refused;
    auto choose = [&](std::span<const WeightPart> parts, PackUse use, std::vector<QTensor>& segments) -> Status {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (!quantiser.takes(parts[i].name, use)) continue;
        const StoredTensor* stored = find_codes(checkpoint_, parts[i].name);
        Result<Codec> codec = quantiser.codec_for(segments[i].cols());
        if (!codec.ok()) return Error{codec.error().code, codec.error().message, printable(parts[i].name)};
        if (codec->id == CodecId::kNvfp4 && segments[i].cols() % 64 != 0) {
          return Error{ErrorCode::kUnsupported,
                       fmt::format("{} columns are no multiple of 64, the block of NVFP4 in GGUF files; --keep leaves "
                                   "a module as it is",
                                   segments[i].cols()),
                       printable(parts[i].name)};
        }
        if (segments[i].codec() == *codec) continue;
        changed_.emplace(stack_of(stored->file_name), *codec);
        ++matrices_[stack_of(stored->file_name)];
      }
      return {};
    };
    TRY_BIND(LoadReport ignored, stream_weights(checkpoint_, choose, nullptr));
    return {};
  }

  void add_entry(Entry entry) {
    entry.offset = data_bytes_;
    data_bytes_ += (entry.bytes + kAlignment - 1) / kAlignment * kAlignment;
    last_is_padded_ = entry.bytes % kAlignment != 0;
    tensor_bytes_ += static_cast<int64_t>(entry.bytes);
    places_.emplace(entry.name, entries_.size());
    entries_.push_back(std::move(entry));
  }

  Status lay_out() {
    std::map<std::string, int64_t, std::less<>> experts;  // of each stack; 1 of a tensor by itself
    for (const StoredTensor& tensor : checkpoint_.tensors()) ++experts[stack_of(tensor.file_name)];
    for (const StoredTensor& tensor : checkpoint_.tensors()) {
      if (place_in_stack(tensor.file_name) == 0) TRY_STATUS(add_tensor(tensor, experts));
    }
    return {};
  }

  /// A tensor, or the whole stack that this one is the first of.
  Status add_tensor(const StoredTensor& tensor, const std::map<std::string, int64_t, std::less<>>& experts) {
    const std::string name = stack_of(tensor.file_name);
    const int64_t count = experts.at(name);
    const auto found = changed_.find(name);
    const std::string_view type = found == changed_.end() ? std::string_view(tensor.type) : gguf_type_of(found->second);
    const GgmlType* row = ggml_type_named(type);
    if (row == nullptr) return unsupported("{}: GGUF files hold no {}", printable(name), type);
    Entry entry{name, tensor.extents, row->id, tensor.bytes.size() * static_cast<uint64_t>(count), 0, &tensor};
    const bool is_stack = name != tensor.file_name;
    if (is_stack) entry.extents.insert(entry.extents.begin(), count);
    if (found != changed_.end()) {
      if (matrices_.at(name) != count) {
        return Error{ErrorCode::kUnsupported,
                     "its experts are stacked in one tensor, of which --keep leaves all or none", printable(name)};
      }
      uint64_t elements = 1;
      for (int64_t extent : entry.extents) elements *= static_cast<uint64_t>(extent);
      entry.bytes = elements / row->block_elements * row->block_bytes;
    }
    add_entry(std::move(entry));
    if (found != changed_.end() && found->second.outer_scale) {
      add_entry({scale_name(name),
                 {count},
                 ggml_type_named("F32")->id,
                 sizeof(float) * static_cast<uint64_t>(count),
                 0,
                 nullptr});
    }
    return {};
  }

  Status write_head(const QuantTarget& target) {
    HeadBytes values;
    uint64_t count = 2;
    for (const auto& [key, value] : parts_->first().metadata()) {
      const bool is_own = key == "general.file_type" || key == "general.quantization_version" ||
                          key == "general.alignment" || key.starts_with("split.");
      if (is_own) continue;
      values.value(key, value);
      ++count;
    }
    values.value_u32("general.file_type", file_type(target)).value_u32("general.quantization_version", 2);
    HeadBytes head;
    head.raw(std::as_bytes(std::span("GGUF", 4))).number(uint32_t{3});
    head.number(static_cast<uint64_t>(entries_.size())).number(count);
    head.raw(std::as_bytes(std::span(values.bytes())));
    for (const Entry& entry : entries_) {
      head.text(entry.name).number(static_cast<uint32_t>(entry.extents.size()));
      for (size_t i = entry.extents.size(); i-- > 0;) head.number(static_cast<uint64_t>(entry.extents[i]));
      head.number(entry.type).number(entry.offset);
    }
    head.pad();
    data_begin_ = head.bytes().size();
    file_.open(partial_, std::ios::binary | std::ios::trunc);
    file_.write(head.bytes().data(), static_cast<std::streamsize>(head.bytes().size()));
    if (!file_) return cannot_write();
    return {};
  }

  /// `place` counts parts of that size: of a stack, the expert.
  Status write_at(const std::string& name, std::span<const std::byte> bytes, size_t place = 0) {
    const Entry& entry = entries_[places_.at(name)];
    if (entry.bytes % bytes.size() != 0 || (place + 1) * bytes.size() > entry.bytes) {
      return make_error(ErrorCode::kInternal, "{}: {} bytes at {}, expected {} together", name, bytes.size(), place,
                        entry.bytes);
    }
    file_.seekp(static_cast<std::streamoff>(data_begin_ + entry.offset + place * bytes.size()));
    file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file_) return cannot_write();
    return {};
  }

  const Checkpoint& checkpoint_;
  std::string partial_;
  std::shared_ptr<const GgufParts> parts_;
  std::map<std::string, Codec, std::less<>> changed_;     // by name in the file
  std::map<std::string, int64_t, std::less<>> matrices_;  // that change in each of those
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> places_;
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  int64_t tensor_bytes_ = 0;
  bool last_is_padded_ = false;
  std::ofstream file_;
};

}  // namespace

Result<std::unique_ptr<ModelWriter>> make_gguf_writer(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                      std::string partial) {
  if (gguf_type_of(job.request.target.codec).empty()) {
    return invalid_argument("--to {}: GGUF files hold no such format; give --out a folder", job.request.target.name);
  }
  if (!checkpoint.dialect().format.starts_with("GGUF")) {
    return unsupported("a GGUF file is written from a GGUF file; give --out a folder, or convert {} first",
                       checkpoint.path());
  }
  auto writer = std::make_unique<GgufFileWriter>(checkpoint, std::move(partial));
  TRY_STATUS(writer->begin(job));
  return std::unique_ptr<ModelWriter>(std::move(writer));
}

}  // namespace vernier
