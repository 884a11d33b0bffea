#include "checkpoint/checkpoint_binder.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "checkpoint/byte_reader.h"
#include "tensor/tensor.h"

namespace vernier {

namespace {

constexpr std::string_view kHead = "lm_head";

std::string shape(const std::vector<int64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

std::optional<DType> dense_dtype(const StoredTensor& tensor) {
  if (tensor.codec == CodecId::kF32) return DType::kF32;
  if (tensor.codec == CodecId::kF16) return DType::kF16;
  if (tensor.codec == CodecId::kBF16) return DType::kBF16;
  return std::nullopt;
}

/// A matrix of one row loses its first extent in GGUF files.
bool has_shape(const StoredTensor& tensor, int64_t rows, int64_t cols) {
  return tensor.extents == std::vector{rows, cols} || (rows == 1 && tensor.extents == std::vector{cols});
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string joined_names(const std::vector<WeightPart>& parts) {
  std::string out;
  for (const WeightPart& part : parts) out += (out.empty() ? "" : "+") + part.name;
  return out;
}

}  // namespace

std::vector<int64_t> deinterleaved_rows(int64_t rows, int64_t heads) {
  int64_t head_rows = rows / heads;
  int64_t half = head_rows / 2;
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(rows));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t side = 0; side < 2; ++side) {
      for (int64_t pair = 0; pair < half; ++pair) order.push_back(head * head_rows + 2 * pair + side);
    }
  }
  return order;
}

CheckpointBinder::CheckpointBinder(const Checkpoint& checkpoint, Backend& backend,
                                   std::function<void(const BindProgress&)> progress)
    : checkpoint_(checkpoint),
      backend_(backend),
      progress_(std::move(progress)),
      report_(describe(checkpoint)),
      head_is_tied_copy_(false) {
  for (const TensorReport& tensor : report_.tensors) {
    if (!belongs_to_other_modality(tensor.name)) state_.total_bytes += tensor.stored_bytes;
  }
  // A head that repeats the embedding table needs no copy of its own; one that differs is the head.
  Result<Config> config = checkpoint.config();
  bool tied = config.ok() && config->boolean("tie_word_embeddings", false).ok() &&
              config->boolean("tie_word_embeddings", false).value();
  if (!tied || checkpoint.find(std::string(kHead) + ".weight") == nullptr) return;
  head_is_tied_copy_ = checkpoint.head_equals_embedding();
  if (!head_is_tied_copy_) {
    report_.warnings.push_back(
        "tie_word_embeddings is true, but lm_head.weight differs from the embedding table: lm_head.weight is the head");
  }
}

Error CheckpointBinder::at(const StoredTensor& tensor, ErrorCode code, std::string message) const {
  return Error{code, fmt::format("tensor {}: {}", printable(tensor.file_name), message), tensor.file->path()};
}

Result<CheckpointBinder::Found> CheckpointBinder::take(const std::string& name, const std::string& bound_as,
                                                       TensorUse use) {
  const StoredTensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("tensor {} is missing, and the configuration asks for it; is the download complete?", name),
        checkpoint_.path()};
  }
  TensorReport& entry = report_.tensors[static_cast<size_t>(tensor - checkpoint_.tensors().data())];
  if (entry.use != TensorUse::kNotBound) {
    return at(*tensor, ErrorCode::kInternal, fmt::format("bound twice, as {} and as {}", entry.bound_as, bound_as));
  }
  entry.use = use;
  entry.bound_as = bound_as;
  return Found{tensor, &entry};
}

Result<QTensor> CheckpointBinder::matrix(const WeightPart& part, int64_t cols, const std::string& bound_as) {
  TRY_BIND(Found found, take(part.name + ".weight", bound_as, TensorUse::kMatrix));
  const StoredTensor& tensor = *found.tensor;
  if (!tensor.codec) {
    bool needs_scale = tensor.type.rfind("F8", 0) == 0 || tensor.type.rfind("F4", 0) == 0;
    return at(tensor, ErrorCode::kUnsupported,
              needs_scale ? fmt::format("holds {} codes, and nothing says which scale they have", tensor.type)
                          : fmt::format("type {} is not supported as a weight", tensor.type));
  }
  if (!has_shape(tensor, part.rows, cols)) {
    return at(
        tensor, ErrorCode::kCorrupt,
        fmt::format("has shape {}, but the configuration asks for [{}, {}]", shape(tensor.extents), part.rows, cols));
  }
  QTensorParts parts{codec(*tensor.codec), part.rows, cols, tensor.data(), {}, {}, {}, tensor.file_name};
  Result<QTensor> made = QTensor::make(std::move(parts));
  if (!made.ok()) return at(tensor, made.error().code, made.error().message);
  if (!checkpoint_.dialect().rope_rows_interleaved || part.rope_heads == 0) return made;
  if (part.rows % (2 * int64_t{part.rope_heads}) != 0) {
    return at(tensor, ErrorCode::kCorrupt,
              fmt::format("{} rows are no {} heads of rotary pairs", part.rows, part.rope_heads));
  }
  return made->permute_rows(deinterleaved_rows(part.rows, part.rope_heads));
}

Result<std::vector<float>> CheckpointBinder::vector(const std::string& name, int64_t size,
                                                    const std::string& bound_as) {
  TRY_BIND(Found found, take(name, bound_as, TensorUse::kVector));
  const StoredTensor& tensor = *found.tensor;
  std::optional<DType> dtype = dense_dtype(tensor);
  if (!dtype) {
    return at(tensor, ErrorCode::kUnsupported, fmt::format("type {} is not supported as a vector", tensor.type));
  }
  if (tensor.extents != std::vector{size}) {
    return at(tensor, ErrorCode::kCorrupt,
              fmt::format("has shape {}, but the configuration asks for [{}]", shape(tensor.extents), size));
  }
  TRY_BIND(Shape extents, Shape::make(tensor.extents));
  TRY_BIND(Tensor dense, Tensor::make(*dtype, extents, tensor.data()));
  state_.done_bytes += found.report->stored_bytes;
  return dense.to_floats();
}

Result<std::shared_ptr<const PackedVector>> CheckpointBinder::bias(const std::vector<WeightPart>& parts,
                                                                   const std::string& bound_as) {
  std::vector<float> values;
  for (const WeightPart& part : parts) {
    TRY_BIND(std::vector<float> own, vector(part.name + ".bias", part.rows, bound_as));
    if (checkpoint_.dialect().rope_rows_interleaved && part.rope_heads > 0) {
      for (int64_t row : deinterleaved_rows(part.rows, part.rope_heads))
        values.push_back(own[static_cast<size_t>(row)]);
    } else {
      values.insert(values.end(), own.begin(), own.end());
    }
  }
  return backend_.upload(values);
}

Result<Binder::Bound> CheckpointBinder::bind_matrix(const std::vector<WeightPart>& parts, int64_t cols, BiasRule rule,
                                                    Split, PackUse use) {
  Bound bound;
  bound.name = joined_names(parts);
  std::vector<QTensor> segments;
  for (const WeightPart& part : parts) {
    TRY_BIND(QTensor segment, matrix(part, cols, bound.name));
    segments.push_back(std::move(segment));
  }
  TRY_BIND(bound.matrix, backend_.pack(segments, use));
  segments.clear();
  // The backend holds its own copy: what the file's pages held is not needed again.
  for (const WeightPart& part : parts) {
    const StoredTensor& tensor = *checkpoint_.find(part.name + ".weight");
    tensor.data().release_pages();
    state_.done_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  if (rule == BiasRule::kRequired) {
    TRY_BIND(bound.bias, bias(parts, bound.name));
  }
  report_.weights.push_back({bound.name, bound.matrix->rows(), bound.matrix->cols(), bound.matrix->info()});
  state_.weight = bound.name;
  if (progress_) progress_(state_);
  return bound;
}

Result<Norm> CheckpointBinder::norm(const std::string& name, int64_t size, float eps, NormRule rule) {
  TRY_BIND(std::vector<float> weight, vector(name + ".weight", size, name));
  if (rule == NormRule::kOnePlus && !checkpoint_.dialect().norms_hold_one) {
    for (float& value : weight) value += 1;
  }
  Norm norm{name, nullptr, eps};
  TRY_BIND(norm.weight, backend_.upload(weight));
  return norm;
}

Result<LayerNorm> CheckpointBinder::layer_norm(const std::string& name, int64_t size, float eps) {
  LayerNorm norm{name, nullptr, nullptr, eps};
  TRY_BIND(std::vector<float> weight, vector(name + ".weight", size, name));
  TRY_BIND(std::vector<float> bias, vector(name + ".bias", size, name));
  TRY_BIND(norm.weight, backend_.upload(weight));
  TRY_BIND(norm.bias, backend_.upload(bias));
  return norm;
}

bool CheckpointBinder::has(const std::string& name) const {
  if (name == kHead && head_is_tied_copy_) return false;
  return checkpoint_.find(name + ".weight") != nullptr;
}

Status CheckpointBinder::finish(std::span<const std::string_view> unneeded) {
  std::string scales;
  std::string biases;
  int64_t others = 0;
  int64_t other_modality = 0;
  for (TensorReport& tensor : report_.tensors) {
    if (tensor.use != TensorUse::kNotBound) continue;
    if (head_is_tied_copy_ && tensor.name == std::string(kHead) + ".weight") {
      tensor.use = TensorUse::kTiedCopy;
      continue;
    }
    const bool known = std::ranges::any_of(unneeded, [&](std::string_view end) { return ends_with(tensor.name, end); });
    if (known) {
      tensor.use = TensorUse::kUnneeded;
      continue;
    }
    if (belongs_to_other_modality(tensor.name)) {
      ++other_modality;
      continue;
    }
    std::string shown = printable(tensor.file_name);
    if (looks_like_scale(tensor.name)) scales += (scales.empty() ? "" : ", ") + shown;
    if (ends_with(tensor.name, ".bias")) {
      std::string matrix = tensor.name.substr(0, tensor.name.size() - 5) + ".weight";
      const StoredTensor* owner = checkpoint_.find(matrix);
      bool bound = owner != nullptr && report_.tensors[static_cast<size_t>(owner - checkpoint_.tensors().data())].use !=
                                           TensorUse::kNotBound;
      if (bound) biases += (biases.empty() ? "" : ", ") + shown;
    }
    ++others;
  }
  constexpr size_t kLongestList = 600;
  auto cut = [](std::string list) { return list.size() > kLongestList ? list.substr(0, kLongestList) + "..." : list; };
  if (!scales.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("these tensors look like scales, and no weight takes them: {}; a model computed without "
                             "them would be wrong",
                             cut(std::move(scales))),
                 checkpoint_.path()};
  }
  if (!biases.empty()) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("these biases belong to weights that the configuration gives none: {}", cut(std::move(biases))),
        checkpoint_.path()};
  }
  if (others > 0) report_.warnings.push_back(fmt::format("{} tensors are not used by this model", others));
  if (other_modality > 0) {
    report_.warnings.push_back(fmt::format("{} tensors of picture or sound encoders are not loaded", other_modality));
  }
  return {};
}

}  // namespace vernier
