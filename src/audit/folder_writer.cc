#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "audit/folder_files.h"
#include "audit/model_writer.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/expert_stacks.h"
#include "checkpoint/safetensors_stream.h"
#include "checkpoint/scale_tensor.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

bool is_dense_type(std::string_view type) {
  return type == "F32" || type == "F16" || type == "BF16";
}

bool ends_in(std::string_view text, std::string_view end) {
  return text.ends_with(end);
}

std::string module_of(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.rfind('.')));
}

/// Codes and scales of a stack have no dot before their endings.
std::string module_of(const StoredTensor& tensor) {
  std::string_view name = tensor.name;
  for (std::string_view end : {"_blocks", "_scales"}) {
    if (is_of_stack(tensor) && ends_in(name, end)) return std::string(name.substr(0, name.size() - end.size()));
  }
  return module_of(name);
}

constexpr std::string_view kBothHalves = "gate_up_proj";

/// "...experts.3.gate_proj" beside "...experts.3.gate_up_proj".
std::string half_of(const std::string& module, const char* half) {
  return module.substr(0, module.size() - kBothHalves.size()) + half;
}

/// The narrowest of bf16, f16 and f32 that holds every number exactly.
Codec exact_codec(std::span<const float> values) {
  for (CodecId id : {CodecId::kBF16, CodecId::kF16}) {
    const Result<QTensor> made = encode(codec(id), 1, static_cast<int64_t>(values.size()), values);
    if (!made.ok()) continue;
    const std::vector<float> back = made->decode();
    if (std::memcmp(back.data(), values.data(), values.size_bytes()) == 0) return codec(id);
  }
  return codec(CodecId::kF32);
}

class FolderWriter final : public ModelWriter {
 public:
  FolderWriter(const Checkpoint& checkpoint, const QuantiseJob& job, std::string partial)
      : checkpoint_(checkpoint),
        job_(job),
        folder_(std::move(partial)),
        is_gguf_(checkpoint.dialect().format.starts_with("GGUF")),
        stream_(folder_, {job.shard_bytes, header_bytes(checkpoint)}) {}

  Status begin() {
    std::error_code failure;
    fs::create_directories(folder_, failure);
    if (failure) return make_error(ErrorCode::kInternal, "cannot make {}: {}", folder_, failure.message());
    return {};
  }

  Result<Codec> kept_codec(const QTensor& matrix, PackUse) const override {
    return matrix.codec().is_dense() ? matrix.codec() : codec(job_.rest);
  }

  Status matrix(const WeightPart& part, const StoredTensor& stored, const QTensor& matrix) override {
    // Numbers that stay as they are keep their bytes, whatever else is told of them.
    if (!is_gguf_ && matrix.codec().id == stored.codec) return {};
    if (is_gguf_ || !is_of_stack(stored)) return write_module(part.name, matrix);
    // No dialect has codes and scales of stacks: experts are written one by one.
    taken_apart_.insert(stack_of(stored));
    if (!part.name.ends_with(kBothHalves)) return write_module(part.name, matrix);
    // Two matrices, as every engine knows them.
    halves_.emplace(part.name, part.halves_alternate);
    written_.insert(part.name);
    const int64_t half = matrix.rows() / 2;
    TRY_BIND(const QTensor gate, matrix.slice_rows(0, half));
    TRY_STATUS(write_module(half_of(part.name, "gate_proj"), gate));
    TRY_BIND(const QTensor up, matrix.slice_rows(half, 2 * half));
    return write_module(half_of(part.name, "up_proj"), up);
  }

  Status others(const LoadReport& report) override {
    for (size_t i = 0; i < report.tensors.size(); ++i) {
      const StoredTensor& tensor = checkpoint_.tensors()[i];
      if (report.tensors[i].use == TensorUse::kConfiguration) continue;
      const std::string module = module_of(tensor);
      const bool is_cache_scale = report.tensors[i].use == TensorUse::kCacheScale;
      if (written_.contains(module) && !ends_in(tensor.name, ".bias") && !is_cache_scale) continue;
      if (ends_in(tensor.name, ".weight") && tensor.extents.size() >= 2) plain_.insert(module);
      if (is_gguf_) {
        TRY_STATUS(write_converted(tensor));
      } else if (!is_of_stack(tensor)) {
        TRY_STATUS(write_as_is(tensor));
      } else {
        TRY_STATUS(written_.contains(module) ? write_expert_bias(tensor, module) : write_stack(tensor));
      }
    }
    return stream_.finish();
  }

  Status finish() override {
    // A tied head has no tensor, and engines that make a layer of it must not look for codes.
    if (!quantised_.contains("lm_head")) plain_.insert("lm_head");
    return write_folder_files(checkpoint_, job_, folder_, {quantised_.begin(), quantised_.end()},
                              {plain_.begin(), plain_.end()});
  }
  int64_t written_bytes() const override { return stream_.written_bytes(); }

 private:
  /// Room for the names of all tensors and of two scales for each.
  static int64_t header_bytes(const Checkpoint& checkpoint) {
    int64_t bytes = 4096;
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      bytes += 3 * (static_cast<int64_t>(tensor.name.size()) + 240);
    }
    return std::min<int64_t>((bytes + 4095) / 4096 * 4096, 4 << 20);
  }

  Status add_f32(const std::string& name, std::vector<int64_t> extents, std::span<const float> values) {
    return stream_.add(name, "F32", std::move(extents), std::as_bytes(values));
  }

  /// Codes and scales under the names that FolderDialect gives the format (folder_files.h).
  Status write_matrix(const std::string& module, const QTensor& matrix) {
    const QTensor::View view = matrix.view();
    const Codec& kind = view.codec;
    const int64_t down = kind.groups_down(view.rows), across = kind.groups_across(view.cols);
    if (kind.is_dense()) return stream_.add(module + ".weight", kind.disk_name, {view.rows, view.cols}, view.codes);
    if (kind.element == Element::kE2M1) {
      TRY_STATUS(stream_.add(module + ".weight_packed", "U8", {view.rows, view.cols / 2}, view.codes));
      const char* type = kind.inner == ScaleType::kE8M0 ? "U8" : "F8_E4M3";
      TRY_STATUS(stream_.add(module + ".weight_scale", type, {down, across}, view.inner_scales));
      if (view.outer_scales.empty()) return {};
      const float divisor = 1 / view.outer_scales.front();
      if (1 / divisor != view.outer_scales.front()) {
        return Error{ErrorCode::kUnsupported, "its global scale changes when it is written as its reciprocal",
                     printable(module)};
      }
      return add_f32(module + ".weight_global_scale", {1}, std::span(&divisor, 1));
    }
    TRY_STATUS(stream_.add(module + ".weight", kind.disk_name, {view.rows, view.cols}, view.codes));
    if (kind.id == CodecId::kMxfp8)
      return stream_.add(module + ".weight_scale", "U8", {down, across}, view.inner_scales);
    if (kind.id == CodecId::kE4M3Block) {
      return stream_.add(module + ".weight_scale_inv", "F32", {down, across}, view.inner_scales);
    }
    std::vector<int64_t> extents = {down};
    if (kind.id == CodecId::kE4M3Channel) extents.push_back(1);
    return stream_.add(module + ".weight_scale", "F32", std::move(extents), view.inner_scales);
  }

  Status write_module(const std::string& module, const QTensor& matrix) {
    written_.insert(module);
    (matrix.codec().is_dense() ? plain_ : quantised_).insert(module);
    return write_matrix(module, matrix);
  }

  /// A stack whose experts stay as they are, when its first is met.
  Status write_stack(const StoredTensor& tensor) {
    const std::string stack = stack_of(tensor);
    if (taken_apart_.contains(stack)) {
      return Error{ErrorCode::kUnsupported, "its experts are stacked in one tensor, of which --keep leaves all or none",
                   printable(tensor.file_name)};
    }
    if (place_in_stack(tensor) != 0) return {};
    const auto experts = std::ranges::count_if(checkpoint_.tensors(),
                                               [&](const StoredTensor& other) { return stack_of(other) == stack; });
    std::vector<int64_t> extents = {experts};
    extents.insert(extents.end(), tensor.extents.begin(), tensor.extents.end());
    // Views of one tensor, side by side.
    return stream_.add(stack, tensor.type, std::move(extents),
                       {tensor.bytes.data(), tensor.bytes.size() * static_cast<size_t>(experts)});
  }

  /// A bias beside the matrices that were made of its module.
  Status write_expert_bias(const StoredTensor& tensor, const std::string& module) {
    const auto both = halves_.find(module);
    if (both == halves_.end()) return stream_.add(module + ".bias", tensor.type, tensor.extents, tensor.bytes);
    const int64_t half = tensor.extents.front() / 2;
    const size_t size = tensor.bytes.size() / static_cast<size_t>(2 * half);
    for (int64_t side = 0; side < 2; ++side) {
      std::vector<std::byte> bytes;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t at = both->second ? 2 * i + side : side * half + i;
        const auto number = tensor.bytes.subspan(static_cast<size_t>(at) * size, size);
        bytes.insert(bytes.end(), number.begin(), number.end());
      }
      TRY_STATUS(
          stream_.add(half_of(module, side == 0 ? "gate_proj" : "up_proj") + ".bias", tensor.type, {half}, bytes));
    }
    return {};
  }

  Status write_as_is(const StoredTensor& tensor) {
    if (tensor.bytes.empty()) return {};
    TRY_STATUS(stream_.add(tensor.name, tensor.type, tensor.extents, tensor.bytes));
    tensor.data().release_pages();
    return {};
  }

  /// Norms and biases of a GGUF file, as Hugging Face has them.
  Status write_converted(const StoredTensor& tensor) {
    if (tensor.extents.size() != 1 || !is_dense_type(tensor.type) || tensor.name == tensor.file_name) {
      return Error{ErrorCode::kUnsupported, "no Hugging Face name is known for this tensor",
                   printable(tensor.file_name)};
    }
    TRY_BIND(std::vector<float> values, read_floats(tensor));
    if (checkpoint_.dialect().norms_hold_one && tensor.name.find("norm.") != std::string::npos) {
      for (float& value : values) value -= 1;
    }
    const bool rotates = ends_in(tensor.name, "q_proj.bias") || ends_in(tensor.name, "k_proj.bias");
    if (checkpoint_.dialect().rope_rows_interleaved && rotates) {
      return Error{ErrorCode::kUnsupported, "biases of interleaved rotary rows are not written",
                   printable(tensor.file_name)};
    }
    const auto size = static_cast<int64_t>(values.size());
    TRY_BIND(QTensor made, encode(exact_codec(values), 1, size, values));
    return stream_.add(tensor.name, made.codec().disk_name, {size}, made.view().codes);
  }

  const Checkpoint& checkpoint_;
  const QuantiseJob& job_;
  std::string folder_;
  bool is_gguf_;
  SafetensorsStream stream_;
  std::set<std::string> written_;       // modules whose tensors are not the source's
  std::set<std::string> taken_apart_;   // stacks of experts that are written one by one
  std::map<std::string, bool> halves_;  // modules of them that hold two matrices -> their rows alternate
  std::set<std::string> quantised_;     // of those, the ones with scales
  std::set<std::string> plain_;         // modules with a matrix that has none
};

}  // namespace

Result<std::unique_ptr<ModelWriter>> make_folder_writer(const Checkpoint& checkpoint, const QuantiseJob& job,
                                                        std::string partial) {
  if (job.request.target.codec.packing == Packing::kGgufBlock) {
    return invalid_argument("--to {}: a format of GGUF files; give --out a name that ends in .gguf",
                            job.request.target.name);
  }
  auto writer = std::make_unique<FolderWriter>(checkpoint, job, std::move(partial));
  TRY_STATUS(writer->begin());
  return std::unique_ptr<ModelWriter>(std::move(writer));
}

}  // namespace vernier
